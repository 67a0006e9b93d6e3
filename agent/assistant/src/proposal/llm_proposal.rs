//! Changes that an LLM proposed.
//!
//! The rules parse a user's request again on a yes. An LLM would not repeat its answer, so its
//! proposal is kept with every field of every pipeline.
//!
//! Invariant: a user sees the changes as described by the specifications
//! ([`describe`](mod@super::describe)) and as a difference to what runs. The LLM's own words are
//! marked as such, so a false description is visible.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_plain::{Change, Proposal};

use crate::wording::is_unseen;

/// Most characters of an LLM's text that are shown.
pub const MAX_WORDS: usize = 600;
/// Most sentences in one list of a proposal.
pub const MAX_SENTENCES: usize = 8;
/// Most changes of one proposal.
pub const MAX_CHANGES: usize = 16;
/// Largest JSON of all changes of one proposal, in bytes.
pub const MAX_BYTES: usize = 128 * 1024;

/// One change, as stored on disk and as JSON for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum ProposedChange {
    /// Deploys a new pipeline.
    Deploy { spec: Box<PipelineSpec> },
    /// Replaces the specification of a deployed pipeline.
    Replace { spec: Box<PipelineSpec> },
    /// Stops and deletes a pipeline.
    Stop { pipeline: PipelineId },
    /// Pauses a pipeline.
    Pause {
        pipeline: PipelineId,
        /// End of the pause; `None` until a user resumes the pipeline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// Resumes a pipeline.
    Resume { pipeline: PipelineId },
}

impl ProposedChange {
    /// Returns the id of the pipeline to change.
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
            Self::Stop { pipeline } => Change::Delete(pipeline.clone()),
            Self::Pause { pipeline, until } => Change::Pause {
                pipeline: pipeline.clone(),
                until: until.map(|until| until.to_zoned(TimeZone::system())),
            },
            Self::Resume { pipeline } => Change::Resume(pipeline.clone()),
        }
    }
}

/// Author of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposedBy {
    #[default]
    Model,
    /// The box without an LLM, from people's answers.
    Box,
}

impl ProposedBy {
    /// Signature as required by serde.
    fn is_model(&self) -> bool {
        *self == Self::Model
    }
}

/// A proposal by an LLM, or by the box itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmProposal {
    /// Name of the model, or of this program where the box itself proposes.
    pub model: String,
    #[serde(default, skip_serializing_if = "ProposedBy::is_model")]
    pub by: ProposedBy,
    /// Effect of the proposal, in the words of the LLM.
    pub says: String,
    /// The request, with its corrections, whose changes it reverts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// What the LLM assumed, in its own words.
    pub assumed: Vec<String>,
    /// Impossible parts of the request, in the words of the LLM.
    pub not_possible: Vec<String>,
    /// Results of the preview and the dry run, as reported by the box.
    pub evidence: Vec<String>,
    /// The changes, in order.
    pub changes: Vec<ProposedChange>,
}

impl LlmProposal {
    /// Whether an LLM made it.
    pub fn is_by_model(&self) -> bool {
        self.by.is_model()
    }

    /// Converts it into a proposal that can be checked.
    pub fn proposal(&self) -> Proposal {
        Proposal {
            changes: self.changes.iter().map(ProposedChange::change).collect(),
            understood: self.says.clone(),
            assumed: self.assumed.clone(),
            not_possible: self.not_possible.clone(),
        }
    }
}

/// Returns an LLM's text as one line without invisible characters, shortened.
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

    fn llm_proposal(changes: Vec<ProposedChange>) -> LlmProposal {
        LlmProposal {
            model: "m".to_owned(),
            says: "Counts people.".to_owned(),
            changes,
            ..LlmProposal::default()
        }
    }

    #[test]
    fn stored_proposal_is_restored_unchanged() {
        let spec = Box::new(spec());
        let llm_proposal = llm_proposal(vec![ProposedChange::Replace { spec }]);
        let kept = serde_json::to_string(&llm_proposal).unwrap();
        assert_eq!(
            serde_json::from_str::<LlmProposal>(&kept).unwrap(),
            llm_proposal
        );
    }

    #[test]
    fn name_of_a_model_makes_it_no_proposal_of_the_box() {
        let named = |by| LlmProposal {
            model: "watchkeeper".to_owned(),
            by,
            ..llm_proposal(Vec::new())
        };
        for (by, is_by_model) in [(ProposedBy::Model, true), (ProposedBy::Box, false)] {
            let kept = serde_json::to_value(named(by)).unwrap();
            let restored: LlmProposal = serde_json::from_value(kept).unwrap();
            assert_eq!(restored.is_by_model(), is_by_model);
        }
    }

    #[test]
    fn llm_text_becomes_one_bounded_line() {
        let shown = words(&format!(
            "a\u{1b}[31m\nb\u{7}\u{202e}  {}",
            "x".repeat(2 * MAX_WORDS)
        ));
        assert!(shown.starts_with("a [31m b x") && shown.chars().count() <= MAX_WORDS);
    }
}
