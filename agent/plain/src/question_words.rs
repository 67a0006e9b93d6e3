//! Kinds of questions and of events by the words for them, read from a data file.
//!
//! Owns the form of `question_words.toml`.

use serde::Deserialize;
use watchkeeper_contract::rule::CrossDirection;

use crate::DataError;

/// The kinds of questions, and what each may say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionWords {
    /// In the order in which they are tried.
    pub(crate) kinds: Vec<KindWords>,
    pub(crate) happened: Vec<Happened>,
}

impl QuestionWords {
    pub(crate) fn builtin() -> Result<Self, DataError> {
        toml::from_str(include_str!("question_words.toml"))
    }
}

/// A kind of question.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KindWords {
    pub(crate) is: QuestionKind,
    /// Patterns that ask for it.
    pub(crate) asked: Vec<String>,
    /// Patterns that ask for it if no class is named.
    #[serde(default)]
    pub(crate) asked_alone: Vec<String>,
    /// Words that say no more beside them.
    #[serde(default)]
    pub(crate) beside: Vec<String>,
    /// Reply to it.
    #[serde(default)]
    pub(crate) text: String,
}

/// Kind of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QuestionKind {
    /// Nothing that can be looked up.
    Refused,
    /// Notes about the words behind the pattern.
    Notes,
    Cost,
    Help,
    Classes,
    /// When cameras were watched.
    Coverage,
    /// Changes and earlier states of a watch.
    History,
    Events,
    Pipelines,
    Status,
    Cameras,
}

/// Kind of event that a rule records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventKind {
    /// Name of its condition in the journal.
    pub(crate) condition: String,
    /// Way over the line, for crossings.
    #[serde(default)]
    pub(crate) direction: CrossDirection,
    /// Verb after `something`.
    pub(crate) happened: String,
}

/// Occurrence that a question names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Happened {
    /// The act, by name.
    pub(crate) name: String,
    pub(crate) words: Vec<String>,
    /// Words beside a crossing that say which way it went.
    #[serde(default)]
    pub(crate) way: String,
    /// Kinds that may be counted for it, the best first.
    pub(crate) counts: Vec<EventKind>,
}
