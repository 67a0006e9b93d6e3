//! Notes: their words, origin and subject.
//!
//! Invariant: a [`Note`] is read back as it was written, whatever its words are.

mod kind;
mod origin;
mod tag;
mod words;

use jiff::Timestamp;
use serde::Serialize;
use watchkeeper_contract::id::SourceId;

pub use kind::Kind;
pub use origin::{NotAllowed, Origin};
pub use tag::{BadTag, MAX_TAG, Tag};
pub use words::{BadWords, MAX_CHARS, Words};

/// Maximum tags of a note.
pub(crate) const MAX_TAGS: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Time in whole seconds; `None` if the clock was not set or a user wrote none.
    pub at: Option<Timestamp>,
    pub camera: Option<SourceId>,
    /// At most [`MAX_TAGS`].
    pub tags: Vec<Tag>,
    pub origin: Origin,
    pub words: Words,
}

/// A new note, before it has a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    pub camera: Option<SourceId>,
    /// At most [`MAX_TAGS`].
    pub tags: Vec<Tag>,
    pub origin: Origin,
    pub words: Words,
}

impl Entry {
    /// Creates an entry without camera and tags.
    pub const fn new(kind: Kind, origin: Origin, words: Words) -> Self {
        Self {
            kind,
            camera: None,
            tags: Vec::new(),
            origin,
            words,
        }
    }

    /// Converts the entry to a note made at `at`.
    pub(crate) fn into_note(self, at: Option<Timestamp>) -> Note {
        Note {
            at,
            camera: self.camera,
            tags: self.tags,
            origin: self.origin,
            words: self.words,
        }
    }
}
