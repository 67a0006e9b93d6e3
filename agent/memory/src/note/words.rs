//! The words of a note.
//!
//! Invariant: [`Words`] are neither empty nor longer than [`MAX_CHARS`], begin and end with something visible, and hold no control characters but
//! line feeds and tabs, and none that turn the direction of writing around: what a person sees in the file is what is there.

use std::fmt;

use serde::Serialize;

/// Longest text of a note, in characters. A longer one is refused on writing; of a longer one that a person typed, the beginning is read.
pub const MAX_CHARS: usize = 4_000;

/// Text that is not kept as a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    /// Nothing visible.
    #[error("the note is empty; say in words what is to be remembered")]
    Empty,
    /// Too long.
    #[error(
        "the note has {0} characters, which is more than {MAX_CHARS}; say it in fewer or in several notes"
    )]
    Long(usize),
}

/// Text of a note.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Words(String);

impl Words {
    /// Takes `text` without what can't be seen.
    ///
    /// # Errors
    /// When nothing is left, or too much.
    pub fn new(text: &str) -> Result<Self, BadWords> {
        let clean = clean(text);
        match clean.chars().count() {
            0 => Err(BadWords::Empty),
            chars if chars > MAX_CHARS => Err(BadWords::Long(chars)),
            _ => Ok(Self(clean)),
        }
    }

    /// The beginning of `text`, and whether anything was left out.
    ///
    /// # Errors
    /// When nothing visible is there.
    pub(crate) fn beginning(text: &str) -> Result<(Self, bool), BadWords> {
        match Self::new(text) {
            Ok(words) => Ok((words, false)),
            Err(BadWords::Empty) => Err(BadWords::Empty),
            Err(BadWords::Long(_)) => {
                let start: String = clean(text).chars().take(MAX_CHARS).collect();
                Ok((Self(start.trim_end().to_owned()), true))
            }
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let seen: String = text.chars().filter(|c| visible(*c)).collect();
    seen.trim().to_owned()
}

fn visible(c: char) -> bool {
    // Explicit directional formatting, of the Unicode Bidirectional Algorithm (UAX #9, table 4).
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c == '\n' || c == '\t' || !(c.is_control() || turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        let words = Words::new(" \u{202e}a\u{0}\r\nb\u{1b}[31m\t ").expect("words");
        assert_eq!(words.as_str(), "a\nb[31m");
        assert_eq!(Words::new("\u{7}\n \u{2066}"), Err(BadWords::Empty));
    }

    #[test]
    fn long_text_is_refused_on_writing_and_cut_on_reading() {
        let long = "é".repeat(MAX_CHARS + 1);
        assert_eq!(Words::new(&long), Err(BadWords::Long(MAX_CHARS + 1)));
        let (words, cut) = Words::beginning(&long).expect("the beginning");
        assert!(cut);
        assert_eq!(words.as_str().chars().count(), MAX_CHARS);
        assert_eq!(Words::new(words.as_str()), Ok(words));
    }
}
