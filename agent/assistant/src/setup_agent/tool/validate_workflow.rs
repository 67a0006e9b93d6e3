//! Compiles and checks a workflow; a valid one becomes a draft.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::workflow::WorkflowError;

use super::super::facts::{MAX_DRAFTS, ToolFact};
use super::definition::{Tool, ToolInput, ToolOutcome, name_tools, schema, text};
use super::draft_edit::{DraftEdit, edited_text, schema_of_edits};
use super::draft_spec::spec;
use crate::lesson::mistake::INVALID_ARGUMENTS;
use crate::permissions::Effect;
use crate::proposal::checks::check_draft;

/// Maximum errors in the result.
const MAX_ERRORS: usize = 12;
/// Maximum allowed values listed for one error.
const MAX_ALLOWED: usize = 30;
/// Members of a definition.
const MEMBERS: [&str; 5] = [
    "version",
    "inputs",
    "steps",
    "outputs",
    "dynamic_blocks_definitions",
];
/// Longest definition, in bytes.
const MAX_DEFINITION: usize = 64 * 1024;

/// Next step after a refused definition, which edits the draft `edited`.
fn next_step(edited: Option<&str>) -> String {
    match edited {
        Some(draft) => format!("no draft was made; {draft} stands: send corrected edits of it"),
        None => "no draft was made: send the whole corrected definition".to_owned(),
    }
}

pub(super) const TOOL: Tool = Tool {
    name: "validate_workflow",
    description: "Checks a workflow definition. If it compiles, it becomes a draft with a name \
        (d1, d2, …), which the other tools take. Otherwise, or if it needs a model that is not \
        here, the result lists all errors and nothing is kept.",
    schema: || {
        let properties = json!({
            "workflow": text("the definition as JSON text; or draft and edits instead"),
            "draft": text("the draft to change, such as d1"),
            "edits": schema_of_edits(),
        });
        schema(&properties, &[])
    },
    effect: Effect::Read,
    max_uses: 12,
    run: |given| async move { validate(given).await.into() }.boxed(),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    /// JSON text, or the object from a model that ignores the schema.
    workflow: Value,
    draft: String,
    edits: Vec<DraftEdit>,
}

async fn validate(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments {
        workflow,
        draft,
        edits,
    } = given.arguments()?;
    let written = match (workflow, draft.as_str()) {
        (Value::Null, "") => return Err("give a workflow, or a draft with edits".to_owned()),
        (Value::Null, draft) => Value::from(edited_text(given, draft, &edits)?),
        (workflow, "") if edits.is_empty() => workflow,
        _ => return Err("give a workflow, or a draft with edits, not both".to_owned()),
    };
    let edited = Some(draft.as_str()).filter(|draft| !draft.is_empty());
    Ok(match check_definition(given, written, edited).await? {
        CheckedDraft::Draft { result, fact, .. } => ToolOutcome::json(&result).with_fact(fact),
        CheckedDraft::Refused(why) => failed(&why),
    })
}

/// A definition that became a draft, or why it did not.
#[derive(Debug)]
pub(super) enum CheckedDraft {
    Draft {
        name: String,
        workflow: Value,
        /// Result that the language model sees.
        result: Value,
        fact: ToolFact,
    },
    Refused(Value),
}

/// Checks a definition: JSON text, or the object of a model that ignores the schema; of the draft
/// that it edits, where it is one.
pub(super) async fn check_definition(
    given: ToolInput<'_>,
    written: Value,
    edited: Option<&str>,
) -> Result<CheckedDraft, String> {
    let text = written.as_str().map(str::to_owned);
    let workflow = read_definition(written)?;
    let report = given.context.client.validate_workflow(&workflow).await;
    let report = report.map_err(|e| e.in_full())?;
    if !report.ok {
        let errors: Vec<Value> = report.errors.iter().take(MAX_ERRORS).map(to_json).collect();
        return Ok(CheckedDraft::Refused(json!({
            "compiles": false, "errors": errors,
            "more_errors": report.errors.len().saturating_sub(MAX_ERRORS), "next": next_step(edited),
        })));
    }
    let here = given.context.snapshot().await?;
    let id = PipelineId::new("draft").map_err(|e| e.to_string())?;
    let source = SourceId::new("draft").map_err(|e| e.to_string())?;
    let checked = check_draft(&spec(id, source, &workflow, Vec::new()), &here);
    if !checked.errors.is_empty() {
        return Ok(CheckedDraft::Refused(json!({
            "compiles": true, "can_run_here": false, "errors": checked.errors, "next": next_step(edited),
        })));
    }
    let drafts = given.facts.draft_count();
    if drafts >= MAX_DRAFTS {
        return Err(format!(
            "there are {drafts} drafts, the maximum of one request; use one of them"
        ));
    }
    let name = format!("d{}", drafts + 1);
    let outputs: serde_json::Map<String, Value> = report
        .outputs
        .into_iter()
        .map(|(name, info)| (name, json!(info.kind)))
        .collect();
    let mut result = json!({"compiles": true, "draft": name, "outputs": outputs});
    let mut mind = checked.warnings;
    mind.extend(ignored_members(&workflow));
    for warning in report.warnings {
        let meant = warning
            .nearest
            .map(|name| format!("; did you mean {name}?"));
        let said = warning.message + &meant.unwrap_or_default();
        // Both checks report a zone without area.
        if !mind.contains(&said) {
            mind.push(said);
        }
    }
    if !mind.is_empty() {
        result["mind"] = json!(mind);
    }
    Ok(CheckedDraft::Draft {
        name,
        result,
        workflow: workflow.clone(),
        fact: ToolFact::Draft {
            workflow,
            text,
            warnings: mind,
        },
    })
}

/// Warns about members of a definition that have no effect, such as rules.
fn ignored_members(workflow: &Value) -> impl Iterator<Item = String> {
    let members = workflow.as_object().into_iter().flat_map(|all| all.keys());
    let ignored = members.filter(|key| !MEMBERS.contains(&key.as_str()));
    ignored.map(|key| {
        format!(
            "{key:?} is no member of a definition, so it is ignored; rules go to propose_deployment"
        )
    })
}

/// The workflow, if it is a JSON object within the size limit.
fn read_definition(written: Value) -> Result<Value, String> {
    let workflow = match written {
        Value::String(text) => serde_json::from_str(&text).map_err(|e| {
            format!("{INVALID_ARGUMENTS}: the definition is not JSON: {e}; send all of it again")
        })?,
        other => other,
    };
    if !workflow.is_object() {
        return Err(
            "the definition must be a JSON object with version, inputs, steps and outputs"
                .to_owned(),
        );
    }
    let bytes = workflow.to_string().len();
    if bytes > MAX_DEFINITION {
        return Err(format!(
            "the definition has {bytes} bytes; the maximum is {MAX_DEFINITION}"
        ));
    }
    Ok(workflow)
}

fn failed(result: &Value) -> ToolOutcome {
    ToolOutcome {
        is_error: true,
        ..ToolOutcome::json(result)
    }
}

fn to_json(error: &WorkflowError) -> Value {
    let allowed: Vec<&String> = error.allowed.iter().take(MAX_ALLOWED).collect();
    json!({
        "step": error.step, "property": error.property, "message": name_tools(&error.message),
        "allowed": allowed, "nearest": error.nearest,
    })
}
