//! Tags of notes.
//!
//! Invariant: a [`Tag`] is one word of a heading, so foreign text in it can't end the heading or
//! start another mark.

use std::fmt;

use serde::Serialize;

/// Maximum length of a tag in characters.
pub const MAX_TAG: usize = 32;

/// Text that is not a tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tag {0:?} is not valid; use 1 to {MAX_TAG} of a-z, 0-9, '-' and '_'")]
pub struct BadTag(pub String);

/// Subject of a note, in one word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Tag(String);

impl Tag {
    /// Checks `value` and wraps it.
    ///
    /// # Errors
    /// [`BadTag`] if it is empty, too long or has another character.
    pub fn new(value: &str) -> Result<Self, BadTag> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if (1..=MAX_TAG).contains(&value.len()) && value.chars().all(fits) {
            Ok(Self(value.to_owned()))
        } else {
            Err(BadTag(value.chars().take(80).collect()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
