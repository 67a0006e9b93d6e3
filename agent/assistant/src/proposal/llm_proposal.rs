//! Changes that a model of language has written out, and what they really are.
//!
//! A person's words are kept as words, because the rules understand them again on the yes. A model would not say the same twice: what it proposed is
//! kept as it was proposed, with every field of every pipeline.
//!
//! Invariants: what a person is shown of the changes is made of the specifications ([`describe`](mod@super::describe)) and of the difference; the model's own sentence
//! stands beside it, marked as the model's, so one that says another thing than it does is seen through.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_plain::{Change, Proposal};

use crate::wording::is_unseen;

/// Longest text of a model that is shown, in characters.
pub const MAX_WORDS: usize = 600;
/// Most sentences of one kind.
pub const MAX_SENTENCES: usize = 8;
/// Most changes of one proposal.
pub const MAX_CHANGES: usize = 16;
/// Largest changes of one proposal together, in bytes of JSON.
pub const MAX_BYTES: usize = 128 * 1024;

/// One change, in the form in which it is kept and in which programs read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ProposedChange {
    /// A new pipeline.
    Deploy {
        /// All of it.
        spec: Box<PipelineSpec>,
    },
    /// Another specification for a pipeline that runs.
    Replace {
        /// All of it.
        spec: Box<PipelineSpec>,
    },
    /// A pipeline ends and is gone.
    Stop {
        /// Which.
        pipeline: PipelineId,
    },
    /// A pipeline pauses.
    Pause {
        /// Which.
        pipeline: PipelineId,
        /// When it goes on by itself; absent: when somebody resumes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// A pipeline goes on.
    Resume {
        /// Which.
        pipeline: PipelineId,
    },
}

impl ProposedChange {
    /// The pipeline that it is about.
    #[must_use]
    pub fn pipeline(&self) -> &PipelineId {
        match self {
            Self::Deploy { spec } | Self::Replace { spec } => &spec.id,
            Self::Stop { pipeline } | Self::Pause { pipeline, .. } | Self::Resume { pipeline } => {
                pipeline
            }
        }
    }

    pub(crate) fn change(&self) -> Change {
        match self {
            Self::Deploy { spec } => Change::Deploy(spec.clone()),
            Self::Replace { spec } => Change::Replace(spec.clone()),
            Self::Stop { pipeline } => Change::Stop(pipeline.clone()),
            Self::Pause { pipeline, until } => Change::Pause {
                pipeline: pipeline.clone(),
                until: until.map(|until| until.to_zoned(TimeZone::system())),
            },
            Self::Resume { pipeline } => Change::Resume(pipeline.clone()),
        }
    }
}

/// What a model proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmProposal {
    /// Which model.
    pub model: String,
    /// What it says that it does, in its own words.
    pub says: String,
    /// What it took for granted, in its own words.
    pub assumed: Vec<String>,
    /// What it says that can't be done, in its own words.
    pub not_possible: Vec<String>,
    /// What the box found out about it beforehand: where the preview lies, what the dry run gave.
    pub evidence: Vec<String>,
    /// What would change, in order.
    pub changes: Vec<ProposedChange>,
}

impl LlmProposal {
    /// The proposal that it is.
    #[must_use]
    pub fn proposal(&self) -> Proposal {
        Proposal {
            intents: Vec::new(),
            changes: self.changes.iter().map(ProposedChange::change).collect(),
            understood: self.says.clone(),
            assumed: self.assumed.clone(),
            not_possible: self.not_possible.clone(),
            not_understood: Vec::new(),
        }
    }
}

/// A model's words as they are shown: one line of what can be seen, cut.
#[must_use]
pub fn words(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if is_unseen(c) { ' ' } else { c })
        .take(MAX_WORDS)
        .collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> PipelineSpec {
        serde_json::from_value(json!({"id": "gate-door", "source": "gate", "workflow": {}}))
            .unwrap()
    }

    fn made(changes: Vec<ProposedChange>) -> LlmProposal {
        LlmProposal {
            model: "m".to_owned(),
            says: "Counts people.".to_owned(),
            assumed: Vec::new(),
            not_possible: Vec::new(),
            evidence: Vec::new(),
            changes,
        }
    }

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let spec = Box::new(spec());
        let made = made(vec![ProposedChange::Replace { spec }]);
        let kept = serde_json::to_string(&made).unwrap();
        assert_eq!(serde_json::from_str::<LlmProposal>(&kept).unwrap(), made);
    }

    #[test]
    fn a_models_words_are_one_line_and_bounded() {
        let shown = words(&format!(
            "a\u{1b}[31m\nb\u{7}\u{202e}  {}",
            "x".repeat(2 * MAX_WORDS)
        ));
        assert!(shown.starts_with("a [31m b x") && shown.chars().count() <= MAX_WORDS);
    }
}
