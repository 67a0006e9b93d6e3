//! Lessons: what failed in a request, why, and what worked; a note of a fixed form.
//!
//! - [`Lesson`]: the form, one `Name: value` a line, which users can read and edit.
//! - [`mistake`]: what failed, by class, block and step. [`difference`]: what worked, as settings.
//! - [`store`]: merges and bounds the lessons of the notes. [`recall`]: finds them again.
//!
//! Invariants:
//! - A lesson consists of names, numbers, and messages of tools without the texts of the call
//!   ([`mistake::without_texts`]). Free text of a language model is one marked, bounded line of it.
//!   That line decides neither which lessons are equal, nor whether a lesson is found.
//! - A lesson that a user wrote or marked as theirs is neither merged nor evicted.
//!
//! Not here: which calls of a turn failed (`setup_agent::reflection`).

pub mod difference;
pub mod mistake;
pub mod recall;
pub mod store;

use std::fmt;

use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::note::{Entry, Kind, Origin, Tag, Words};
use watchkeeper_memory::{Embedder as _, HashedEmbedder};

use crate::proposal::llm_proposal::words;
use crate::wording::cut;
pub use mistake::{ErrorClass, Mistake};

/// Maximum characters of the request and of each sentence of a lesson.
const MAX_LINE_CHARS: usize = 300;
/// Cosine from which two requests, or two errors, are the same.
pub const SAME: f32 = 0.6;
/// Cosine from which two requests resemble each other.
pub(crate) const RELATED: f32 = 0.3;
/// Remedy of a lesson if nothing worked.
const NOTHING: &str = "nothing worked";
/// Name of the line with a model's words.
const SAID: &str = "A model says";

/// A mistake of a request and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    pub request: String,
    pub mistake: Mistake,
    /// Camera of the request, if it had one.
    pub camera: Option<SourceId>,
    /// The message of the error.
    pub why: String,
    /// `None` if nothing worked.
    pub worked: Option<String>,
    /// Remark of the language model that fixed it.
    pub said: Option<String>,
    /// Requests with this mistake.
    pub times: u32,
}

impl Lesson {
    /// Parses the words of a note; `None` for a note of another form.
    pub fn read(text: &str, camera: Option<SourceId>) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let line = lines.find(|(before, _)| before.trim().eq_ignore_ascii_case(name));
            line.map(|(_, value)| value.trim().to_owned())
        };
        let worked = value("What worked").filter(|worked| worked != NOTHING && !worked.is_empty());
        Some(Self {
            request: value("Request")?,
            mistake: Mistake::read(&value("Failed")?)?,
            camera,
            why: value("Why").unwrap_or_default(),
            worked,
            said: value(SAID).filter(|said| !said.is_empty()),
            times: value("Times")
                .and_then(|times| times.parse().ok())
                .unwrap_or(1),
        })
    }

    /// The note of the lesson.
    ///
    /// # Errors
    /// A sentence, if the lesson is not a valid note.
    pub(crate) fn to_entry(&self) -> Result<Entry, String> {
        let tags = [self.mistake.tool.as_str(), self.mistake.class.name()];
        Ok(Entry {
            camera: self.camera.clone(),
            tags: tags.into_iter().flat_map(Tag::new).collect(),
            ..Entry::new(
                Kind::Lesson,
                // The words of a user, a tool or a model: quoted.
                Origin::Model,
                Words::new(&self.to_string()).map_err(|e| e.to_string())?,
            )
        })
    }

    /// Whether both are about the same mistake in similar requests.
    pub fn is_same(&self, other: &Self) -> bool {
        // Without a block only the message says which mistake it is.
        let is_named = self.mistake.block.is_some();
        self.mistake.is_same(&other.mistake)
            && similarity(&self.request, &other.request) >= SAME
            && (is_named || similarity(&self.why, &other.why) >= SAME)
    }

    /// Joins an earlier lesson about the same mistake: the counts add up, the latest remedy and
    /// words stay.
    #[must_use]
    pub fn merge(self, earlier: Self) -> Self {
        Self {
            times: self.times.saturating_add(earlier.times),
            worked: self.worked.or(earlier.worked),
            camera: self.camera.or(earlier.camera),
            said: self.said.or(earlier.said),
            ..self
        }
    }
}

impl fmt::Display for Lesson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Request: {}", line(&self.request))?;
        writeln!(f, "Failed: {}", self.mistake)?;
        writeln!(f, "Why: {}", line(&self.why))?;
        let worked = self.worked.as_deref().unwrap_or(NOTHING);
        writeln!(f, "What worked: {}", line(worked))?;
        if let Some(said) = &self.said {
            writeln!(f, "{SAID}: {}", line(said))?;
        }
        write!(f, "Times: {}", self.times)
    }
}

/// A text as one bounded line of a note.
fn line(text: &str) -> String {
    cut(words(text), MAX_LINE_CHARS)
}

/// The cosine of two texts by the hashed embedder, which needs no model.
pub fn similarity(one: &str, other: &str) -> f32 {
    let embedder = HashedEmbedder::default();
    match (embedder.embed(one), embedder.embed(other)) {
        (Ok(one), Ok(other)) => one.iter().zip(&other).map(|(a, b)| a * b).sum(),
        (Err(_), _) | (_, Err(_)) => 0.0,
    }
}

#[cfg(test)]
mod tests;
