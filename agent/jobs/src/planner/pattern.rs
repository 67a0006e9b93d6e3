//! What requests have in common that differ in numbers, texts and dates.
//!
//! - Case, punctuation and words without meaning do not count; the order of the others does.
//! - A slot is a number, a quoted text or path, or a date.

use std::io;
use std::path::Path;

use jiff::civil::Date;
use watchkeeper_english::is_courtesy;

use super::words::{is_path, number, tokens};

/// Value of a slot of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotValue {
    Number(u64),
    /// A quoted text or a path, without quotation marks.
    Text(String),
    Date(String),
}

impl SlotValue {
    const fn mark(&self) -> &'static str {
        match self {
            Self::Number(_) => "<number>",
            Self::Text(_) => "<text>",
            Self::Date(_) => "<date>",
        }
    }

    fn read(word: &str) -> Option<Self> {
        if let Some(text) = quoted(word) {
            Some(Self::Text(text.to_owned()))
        } else if is_path(word) {
            Some(Self::Text(word.to_owned()))
        } else if word.parse::<Date>().is_ok() {
            Some(Self::Date(word.to_owned()))
        } else {
            number(word).map(Self::Number)
        }
    }
}

fn quoted(word: &str) -> Option<&str> {
    word.strip_prefix('"')?.strip_suffix('"')
}

/// The words of a request with marks in place of its slots, and the values of those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) words: Vec<String>,
    pub(super) values: Vec<SlotValue>,
}

impl Pattern {
    pub(super) fn read(text: &str) -> Self {
        let mut pattern = Self {
            words: Vec::new(),
            values: Vec::new(),
        };
        for word in tokens(text) {
            let slot = SlotValue::read(&word);
            let word = word.to_lowercase();
            match slot {
                Some(value) => {
                    pattern.words.push(value.mark().to_owned());
                    pattern.values.push(value);
                }
                None if is_courtesy(&word) || word == "of" => {}
                None => pattern.words.push(word),
            }
        }
        pattern
    }

    /// Returns the words that are not slots.
    pub(super) fn plain_words(&self) -> impl Iterator<Item = &str> {
        let words = self.words.iter().map(String::as_str);
        words.filter(|word| !word.starts_with('<'))
    }
}

/// Makes the folders of a request independent of the current folder: paths with a slash, and quoted
/// names of folders that exist.
///
/// # Errors
/// If the current folder is not known.
pub fn absolute_folders(text: &str) -> io::Result<String> {
    let mut result = String::new();
    let mut rest = text;
    for word in tokens(text) {
        let name = quoted(&word).unwrap_or(&word);
        let is_folder = is_path(name) || quoted(&word).is_some_and(|n| Path::new(n).is_dir());
        let Some((before, after)) = rest.split_once(&word) else {
            continue;
        };
        result.push_str(before);
        rest = after;
        if !is_folder {
            result.push_str(&word);
            continue;
        }
        let path = std::path::absolute(name)?;
        match path.to_str() {
            // A path with a quotation mark can't be quoted.
            Some(path) if !path.contains('"') => {
                let is_plain = !path.contains(|c: char| c.is_whitespace() || c == ',');
                let mark = if is_plain { "" } else { "\"" };
                result.extend([mark, path, mark]);
            }
            _ => result.push_str(&word),
        }
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_differ_in_slots_have_one_pattern() {
        let one = Pattern::read("Please tidy my ./photos: the 3 sunniest since 2026-03-01!");
        let other = Pattern::read("tidy \"My Holiday\" three sunniest since 2026-04-02");
        assert_eq!(one.words, other.words);
        let expected = [
            SlotValue::Text("My Holiday".to_owned()),
            SlotValue::Number(3),
            SlotValue::Date("2026-04-02".to_owned()),
        ];
        assert_eq!(other.values, expected);
    }

    #[test]
    fn words_that_change_the_meaning_change_the_pattern() {
        let words = |text| Pattern::read(text).words;
        for (one, other) in [
            ("./a from 2026-03-01", "./a to 2026-03-01"),
            ("./a with cats", "./a without cats"),
            ("each cat in ./a", "cat in ./a"),
        ] {
            assert_ne!(words(one), words(other), "{one}");
        }
    }

    #[test]
    fn folders_of_a_request_become_absolute() {
        let here = std::env::current_dir().expect("a folder");
        let here = here.display();
        let text = absolute_folders("tidy ./photos and \"no folder\" by day").expect("read");
        assert_eq!(text, format!("tidy {here}/photos and \"no folder\" by day"));
        let text = absolute_folders("sort . by day.").expect("read");
        assert_eq!(text, format!("sort {here} by day."));
        let text = absolute_folders("tidy \"./My Holiday\"").expect("read");
        assert_eq!(text, format!("tidy \"{here}/My Holiday\""));
    }
}
