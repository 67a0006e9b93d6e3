//! Checks a definition and makes a draft of it.

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::workflow::WorkflowError;

use super::super::facts::{MAX_DRAFTS, ToolFact};
use super::propose_deployment::spec;
use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, by_tools, schema};
use crate::proposal::checks::check_spec;

/// Most errors that are told.
const MAX_ERRORS: usize = 12;
/// Most values of one error that are listed.
const MAX_ALLOWED: usize = 30;
/// Longest definition, in bytes.
const MAX_DEFINITION: usize = 64 * 1024;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "validate_workflow",
    about: "Checks a workflow definition. One that compiles becomes a draft with a name (d1, d2, …), by which every other tool knows it; one that does not, or that asks for a model that is not here, is answered with everything that is wrong. Write a definition once; a change of it is a new draft.",
    schema: || {
        let properties =
            json!({"workflow": {"type": "string", "description": "the definition as JSON text"}});
        schema(&properties, &["workflow"])
    },
    effect: Effect::Read,
    scope: ToolScope::Turn,
    per_turn: 12,
    run: |given| async move { validate(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// JSON text, or the object itself from a model that does not keep to the schema.
    workflow: Value,
}

async fn validate(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let Arguments { workflow } = given.arguments()?;
    let workflow = match workflow {
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|e| format!("the definition is not JSON: {e}; send all of it again"))?,
        other => other,
    };
    if !workflow.is_object() {
        return Err(
            "the definition is a JSON object with version, inputs, steps and outputs".to_owned(),
        );
    }
    let bytes = workflow.to_string().len();
    if bytes > MAX_DEFINITION {
        return Err(format!(
            "the definition has {bytes} bytes; at most {MAX_DEFINITION} are taken"
        ));
    }
    let report = given.hands.client.validate_workflow(&workflow).await;
    let report = report.map_err(|e| e.in_full())?;
    if !report.ok {
        let errors: Vec<Value> = report.errors.iter().take(MAX_ERRORS).map(told).collect();
        return Ok(ToolOutcome {
            is_error: true,
            ..ToolOutcome::json(
                &json!({"compiles": false, "errors": errors, "more_errors": report.errors.len().saturating_sub(MAX_ERRORS)}),
            )
        });
    }
    let here = given.hands.situation().await?;
    let (pipeline, source) = (PipelineId::new("draft"), SourceId::new("draft"));
    let (Ok(pipeline), Ok(source)) = (pipeline, source) else {
        return Err("no name for a draft".to_owned());
    };
    let spec = spec(pipeline, source, &workflow, Vec::new());
    let checked = check_spec(&spec, &here);
    if !checked.errors.is_empty() {
        let told = json!({"compiles": true, "can_run_here": false, "errors": checked.errors});
        return Ok(ToolOutcome {
            is_error: true,
            ..ToolOutcome::json(&told)
        });
    }
    let drafts = given.facts.draft_count();
    if drafts >= MAX_DRAFTS {
        return Err(format!(
            "there are {drafts} drafts, which is as many as one request may have; use one of them"
        ));
    }
    let name = format!("d{}", drafts + 1);
    let outputs: serde_json::Map<String, Value> = report
        .outputs
        .into_iter()
        .map(|(name, info)| (name, json!(info.kind)))
        .collect();
    let mut told = json!({"compiles": true, "draft": name, "outputs": outputs});
    if !checked.warnings.is_empty() {
        told["mind"] = json!(checked.warnings);
    }
    Ok(ToolOutcome::json(&told).leaving(ToolFact::Draft { workflow }))
}

fn told(error: &WorkflowError) -> Value {
    let allowed: Vec<&String> = error.allowed.iter().take(MAX_ALLOWED).collect();
    json!({
        "step": error.step, "property": error.property, "message": by_tools(&error.message), "allowed": allowed, "nearest": error.nearest,
    })
}
