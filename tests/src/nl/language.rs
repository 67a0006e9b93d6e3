//! Identifies the language of a short text by its function words.
//!
//! A text in which no language has a majority of function words has no known language.

/// Function words of each language that the others do not have.
const FUNCTION_WORDS: [(&str, &str); 5] = [
    (
        "en",
        "the is are of and to it that this what you was will not until when nothing which \
         there everything been has",
    ),
    (
        "de",
        "der die das ist sind und bis nicht wird eine einen ich auf für mit dem den wurde um \
         uhr kamera wieder alles am",
    ),
    (
        "fr",
        "le la les est et des une pour dans pas que jusqu sur du vous caméra il sera",
    ),
    (
        "es",
        "el los las es y una para hasta con por cámara está del se qué",
    ),
    (
        "it",
        "il gli è e una per fino con telecamera della di non che sarà",
    ),
];

/// Names of each language, in all of them.
const NAMES: [(&str, &str); 5] = [
    ("en", "english englisch anglais inglés inglese"),
    ("de", "german deutsch allemand alemán tedesco"),
    ("fr", "french französisch français francés francese"),
    ("es", "spanish spanisch espagnol español spagnolo"),
    ("it", "italian italienisch italien italiano"),
];

/// Whether a text names the language with this code.
pub fn has_language_name(text: &str, code: &str) -> bool {
    let text = text.to_lowercase();
    let mut names = NAMES.iter().filter(|(of, _)| *of == code);
    names.any(|(_, names)| names.split(' ').any(|name| words(&text).contains(&name)))
}

fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphabetic())
        .filter(|w| !w.is_empty())
        .collect()
}

/// Returns the language code of a text.
pub fn language_of(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let words = words(&text);
    let score = |known: &str| {
        let is_known = |word: &&&str| known.split(' ').any(|known| known == **word);
        words.iter().filter(is_known).count()
    };
    let mut scores: Vec<(usize, &'static str)> = FUNCTION_WORDS
        .iter()
        .map(|(code, known)| (score(known), *code))
        .collect();
    scores.sort();
    match scores.as_slice() {
        [.., (second, _), (first, code)] if first > second => Some(*code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_is_found_by_function_words() {
        for (text, code) in [
            (
                "The camera is paused until eight, and goes on then.",
                Some("en"),
            ),
            (
                "Die Kamera am Tor ist bis morgen um acht Uhr pausiert.",
                Some("de"),
            ),
            ("La caméra est en pause jusqu'à demain.", Some("fr")),
            (
                "La cámara está en pausa hasta mañana por la mañana.",
                Some("es"),
            ),
            ("w1 42", None),
            ("", None),
        ] {
            assert_eq!(language_of(text), code, "{text}");
        }
    }
}
