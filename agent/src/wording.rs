//! Small parts of sentences that are said to a person.

/// So many of something, in words.
#[must_use]
pub fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {what}{ending}")
}

/// Somebody's words, each in quotes.
#[must_use]
pub fn quoted(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    words.join(", ")
}

/// Not more than `most` characters of a text; one that is longer ends in an ellipsis.
#[must_use]
pub fn cut(mut text: String, most: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The size of a file, in decimal units.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        ..100_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_told_in_smaller_units() {
        let told = [1, 46_200, 99_999, 100_000, 1_250_000].map(size);
        assert_eq!(told, ["1 kB", "47 kB", "100 kB", "0.1 MB", "1.2 MB"]);
    }

    #[test]
    fn one_is_no_plural_and_words_are_told_apart() {
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(0, "event"), "0 events");
        assert_eq!(
            quoted(&["at".to_owned(), "a b".to_owned()]),
            r#""at", "a b""#
        );
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("über".to_owned(), 4), "über");
        assert_eq!(cut("über".to_owned(), 1), "ü…");
    }
}
