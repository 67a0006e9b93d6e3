//! The words of a note.
//!
//! - [`Words`] have 1 to [`MAX_CHARS`] characters; the first and the last are visible.
//! - They have no control characters but line feeds and tabs, and none that change the direction of
//!   writing. So a file looks as it is read.

use std::fmt;

use serde::Serialize;

/// Maximum length of a note in characters. Writing refuses a longer one, reading cuts it.
pub const MAX_CHARS: usize = 4_000;

/// Text that can't be a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    #[error("the note is empty; write what to remember")]
    Empty,
    #[error("the note has {0} characters, at most {MAX_CHARS} are allowed; shorten or split it")]
    Long(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Words(String);

impl Words {
    /// Removes invisible characters and wraps the text.
    ///
    /// # Errors
    /// [`BadWords`] if the rest is empty or too long.
    pub fn new(text: &str) -> Result<Self, BadWords> {
        let clean = clean(text);
        match clean.chars().count() {
            0 => Err(BadWords::Empty),
            chars if chars > MAX_CHARS => Err(BadWords::Long(chars)),
            _ => Ok(Self(clean)),
        }
    }

    /// Wraps the beginning of `text`, and returns whether it was cut.
    ///
    /// # Errors
    /// [`BadWords::Empty`].
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
    let visible: String = text.chars().filter(|c| is_visible(*c)).collect();
    visible.trim().to_owned()
}

fn is_visible(c: char) -> bool {
    // Explicit directional formatting of the Unicode Bidirectional Algorithm (UAX #9, table 4).
    let is_directional = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c == '\n' || c == '\t' || !(c.is_control() || is_directional)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
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
