//! The draft that a call names: a stored one, a new one that edits make of it, or the workflow of a
//! pipeline.

use serde_json::Value;
use watchkeeper_contract::pipeline::PipelineSpec;

use super::super::facts::ToolFact;
use super::definition::ToolInput;
use super::draft_edit::{DraftEdit, edited_text};
use super::preview_workflow::no_draft;
use super::validate_workflow::{CheckedDraft, check_definition};

/// In place of a draft's name: the current workflow of a pipeline.
pub(super) const RUNNING: &str = "running";

/// A draft to try or to propose.
#[derive(Debug)]
pub(super) struct ChosenDraft {
    pub(super) name: String,
    pub(super) workflow: Value,
    /// The new draft, if there were edits.
    pub(super) fact: Option<ToolFact>,
}

impl ChosenDraft {
    /// Warnings of its check, and the steps that failed in its trial.
    pub(super) fn warnings(&self, given: ToolInput<'_>) -> Vec<String> {
        match &self.fact {
            Some(ToolFact::Draft { warnings, .. }) => warnings.clone(),
            _ => given.facts.warnings(&self.name),
        }
    }

    /// The workflow of a pipeline, under a name that no draft has.
    pub(super) fn running(pipeline: &PipelineSpec) -> Self {
        Self {
            name: format!("{RUNNING} {}", pipeline.id),
            workflow: pipeline.workflow.clone(),
            fact: None,
        }
    }

    /// Finds the stored draft `name`, or makes a new one of it by `edits`.
    ///
    /// # Errors
    /// A sentence for the language model.
    pub(super) async fn new(
        given: ToolInput<'_>,
        name: String,
        edits: &[DraftEdit],
    ) -> Result<Self, String> {
        if edits.is_empty() {
            let workflow = given.facts.draft(&name).cloned();
            return Ok(Self {
                workflow: workflow.ok_or_else(|| no_draft(&name, given))?,
                name,
                fact: None,
            });
        }
        let text = edited_text(given, &name, edits)?;
        match check_definition(given, Value::from(text), Some(&name)).await? {
            CheckedDraft::Draft {
                name,
                workflow,
                fact,
                ..
            } => Ok(Self {
                name,
                workflow,
                fact: Some(fact),
            }),
            CheckedDraft::Refused(why) => Err(why.to_string()),
        }
    }
}
