//! Kinds of notes.

use serde::Serialize;

/// Kind of a note, which decides its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something that was seen or happened on a day.
    Observation,
    /// A lasting fact about the site.
    Knowledge,
    /// A user's preference, in the user's own words.
    Preference,
    /// A mistake of a request, its cause and its remedy.
    Lesson,
}

impl Kind {
    /// Name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observation => "observation",
            Self::Knowledge => "knowledge",
            Self::Preference => "preference",
            Self::Lesson => "lesson",
        }
    }
}
