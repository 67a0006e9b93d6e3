//! A note: words, who they are from, and what they are about.
//!
//! Invariant: a [`Note`] can be written and read back unchanged, whatever its words are.

mod origin;
mod tag;
mod words;

use jiff::Timestamp;
use serde::Serialize;
use watchkeeper_contract::id::SourceId;

pub use origin::{NotAllowed, Origin};
pub use tag::{BadTag, MAX_TAG, Tag};
pub use words::{BadWords, MAX_CHARS, Words};

/// Tags that a note may have.
pub const MAX_TAGS: usize = 8;

/// What a note is, which is also which file it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something that was seen or happened, on a day.
    Observation,
    /// What is true of the site for long.
    Knowledge,
    /// What a person wants. Only a person's own words are one.
    Preference,
    /// What was learned from a job that went well or badly.
    Lesson,
}

impl Kind {
    /// In words, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observation => "observation",
            Self::Knowledge => "knowledge",
            Self::Preference => "preference",
            Self::Lesson => "lesson",
        }
    }
}

/// One note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// When it was made, in whole seconds; none when nobody knew what time it was or a person did not say.
    pub at: Option<Timestamp>,
    /// The camera that it is about.
    pub camera: Option<SourceId>,
    /// What it is about, at most [`MAX_TAGS`].
    pub tags: Vec<Tag>,
    /// Whose words these are.
    pub origin: Origin,
    /// The words.
    pub words: Words,
}

/// What is to be remembered; when, says the caller's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The camera that it is about.
    pub camera: Option<SourceId>,
    /// What it is about, at most [`MAX_TAGS`].
    pub tags: Vec<Tag>,
    /// Whose words these are.
    pub origin: Origin,
    /// The words.
    pub words: Words,
}

impl Entry {
    /// An entry that is about no camera and has no tags.
    #[must_use]
    pub const fn new(kind: Kind, origin: Origin, words: Words) -> Self {
        Self {
            kind,
            camera: None,
            tags: Vec::new(),
            origin,
            words,
        }
    }

    /// The note that is made of it at `at`.
    #[must_use]
    pub fn into_note(self, at: Option<Timestamp>) -> Note {
        Note {
            at,
            camera: self.camera,
            tags: self.tags,
            origin: self.origin,
            words: self.words,
        }
    }
}
