//! Puts a draft up for the person's yes.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_engine::workflow::compile;

use super::super::facts::{ModelWords, ToolFact};
use super::super::tool_context::ToolContext;
use super::preview_workflow::no_draft;
use super::{Effect, Tool, ToolInput, ToolOutcome, ToolScope, schema, text};
use crate::proposal::checks::check_spec;
use crate::proposal::describe::all_steps;
use crate::proposal::difference::difference;
use crate::proposal::llm_proposal::{LlmProposal, MAX_BYTES, MAX_CHANGES, ProposedChange};
use crate::redact::put_back;

/// What stands for the workflow that a pipeline has already, in place of the name of a draft.
const RUNNING: &str = "running";
/// Most steps of a proposed definition, those of inner workflows counted.
const MAX_STEPS: usize = 60;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "propose_deployment",
    about: "Puts a draft up for the person's yes, under a name of its own or under that of a pipeline that it is to replace. It changes nothing. A draft with lines or zones has to be previewed on that camera first. Where only the rules of a pipeline change, \"running\" is the draft: its workflow stays, and needs no draft and no preview. Rules say what to tell; an empty list: nothing is told, it only counts.",
    schema: || {
        let properties = json!({
            "draft": text("such as d1, or running"),
            "camera": text("name of the camera"),
            "pipeline": text("name of the pipeline: a-z, 0-9 and -"),
            "rules": text("the rules as JSON text: a list as in the instructions, or []"),
            "says": text("one or two sentences for the person: what will be watched, and when they are told"),
            "assumed": {"type": "array", "items": {"type": "string"}, "description": "what the person did not say and you took so"},
            "not_possible": {"type": "array", "items": {"type": "string"}, "description": "what they asked for and is not in it, and why"},
            "stop_after_s": {"type": "number", "description": "ends by itself after so many seconds, counted anew with each change; 0: never; leave out: as it is"},
        });
        schema(
            &properties,
            &[
                "draft",
                "camera",
                "pipeline",
                "rules",
                "says",
                "assumed",
                "not_possible",
            ],
        )
    },
    effect: Effect::Propose,
    scope: ToolScope::Pipelines,
    per_turn: 8,
    run: |given| async move { propose(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    draft: String,
    camera: String,
    pipeline: String,
    rules: Value,
    says: String,
    #[serde(default)]
    assumed: Vec<String>,
    #[serde(default)]
    not_possible: Vec<String>,
    #[serde(default)]
    stop_after_s: Option<f64>,
}

async fn propose(given: ToolInput<'_>) -> Result<ToolOutcome, String> {
    let arguments: Arguments = given.arguments()?;
    let here = given.hands.situation().await?;
    let camera = ToolContext::camera(&arguments.camera, &here)?;
    // Who says "Ramp watch" means the pipeline that is called so.
    let id = match ToolContext::pipeline(&arguments.pipeline, &here) {
        Ok(known) => known,
        Err(_) => PipelineId::new(arguments.pipeline.as_str()).map_err(|e| e.to_string())?,
    };
    let replaced = here.pipeline(id.as_str()).map(|p| &p.spec);
    let draft = (arguments.draft != RUNNING).then_some(arguments.draft);
    let workflow = match &draft {
        Some(draft) => drafted(draft, &camera, replaced, given)?,
        None => running(&id, &camera, replaced)?,
    };
    readable(&workflow)?;
    let mut spec = instead_of(
        replaced,
        spec(id, camera, &workflow, rules(arguments.rules)?),
    );
    if let Some(seconds) = arguments.stop_after_s {
        // What is no time at all is for the check to refuse.
        spec.stop_after_s = (seconds != 0.0).then_some(seconds);
    }
    if draft.is_none() {
        spec.model = replaced.and_then(|old| old.model.clone());
    }
    let checked = check_spec(&spec, &here);
    if !checked.errors.is_empty() {
        return Err(checked.errors.join("; "));
    }
    let spec = Box::new(spec);
    let change = if here.pipeline(spec.id.as_str()).is_some() {
        ProposedChange::Replace { spec }
    } else {
        ProposedChange::Deploy { spec }
    };
    let mut all = given.facts.changes();
    all.retain(|other| other.pipeline() != change.pipeline());
    all.push(change.clone());
    fits(&all)?;
    let one = LlmProposal {
        model: String::new(),
        says: String::new(),
        assumed: Vec::new(),
        not_possible: Vec::new(),
        evidence: Vec::new(),
        changes: vec![change.clone()],
    };
    let lines: Vec<String> = one
        .proposal()
        .changes
        .iter()
        .flat_map(|change| difference(change, &here).lines())
        .collect();
    let told = json!({
        "put_up": change.pipeline(), "mind": checked.warnings, "rules": checked.rules, "difference": lines,
        "next": "Nothing has changed. The person is shown this and says yes or no. End with one short sentence, or put up more first.",
    });
    Ok(ToolOutcome::json(&told).leaving(ToolFact::Proposed {
        change: Box::new(change),
        draft,
        words: ModelWords {
            says: arguments.says,
            assumed: arguments.assumed,
            not_possible: arguments.not_possible,
        },
    }))
}

/// The definition of a draft, whose places were looked at on this camera, with the secrets of the pipeline that it replaces.
fn drafted(
    draft: &str,
    camera: &SourceId,
    replaced: Option<&PipelineSpec>,
    given: ToolInput<'_>,
) -> Result<Value, String> {
    let workflow = given.facts.draft(draft);
    let workflow = workflow.ok_or_else(|| no_draft(draft, given))?;
    let compiled = compile(workflow, &BTreeMap::new()).map_err(|errors| {
        errors
            .first()
            .map(|e| e.message.clone())
            .unwrap_or_default()
    })?;
    if !compiled.overlays().is_empty() {
        match given.facts.wrong_on(draft, camera) {
            None => {
                return Err(format!(
                    "{draft} has lines or zones: look at it with preview_workflow on {camera} first"
                ));
            }
            Some([first, ..]) => {
                return Err(format!(
                    "the preview showed that {first}: put it right in a new draft"
                ));
            }
            Some([]) => {}
        }
    }
    put_back(workflow, replaced.map(|spec| &spec.workflow))
}

/// The definition that a pipeline has already: a person said yes to it, on this camera.
fn running(
    id: &PipelineId,
    camera: &SourceId,
    replaced: Option<&PipelineSpec>,
) -> Result<Value, String> {
    match replaced {
        None => Err(format!(
            "there is no pipeline {id} whose workflow could stay: make a draft with validate_workflow"
        )),
        Some(spec) if spec.source != *camera => Err(format!(
            "{id} watches {}: its lines and zones lie elsewhere on {camera}, so make a draft and look at it there",
            spec.source
        )),
        Some(spec) => Ok(spec.workflow.clone()),
    }
}

/// Whether a person can be shown all of it: each step is told before the yes.
fn readable(workflow: &Value) -> Result<(), String> {
    match all_steps(workflow).len() {
        steps if steps > MAX_STEPS => Err(format!(
            "the draft has {steps} steps; a proposal has at most {MAX_STEPS}, so that a person can read all of them before the yes"
        )),
        _ => Ok(()),
    }
}

/// What nothing is said about stays as it is in the pipeline that is replaced: its title, recording, gate of motion, pause, the time after which it ends, and the parameters that the new
/// definition still has inputs for. Its models are those that the definition names.
fn instead_of(replaced: Option<&PipelineSpec>, new: PipelineSpec) -> PipelineSpec {
    let Some(old) = replaced else {
        return new;
    };
    let inputs = new.workflow.get("inputs").and_then(|i| i.as_array());
    let inputs: Vec<&str> = inputs
        .into_iter()
        .flatten()
        .filter_map(|input| input.get("name")?.as_str())
        .collect();
    let mut parameters = old.parameters.clone();
    parameters.retain(|name, _| inputs.contains(&name.as_str()));
    PipelineSpec {
        parameters,
        model: new.model,
        source: new.source,
        workflow: new.workflow,
        rules: new.rules,
        ..old.clone()
    }
}

/// A pipeline of a draft with these rules.
pub(super) fn spec(
    id: PipelineId,
    source: SourceId,
    workflow: &Value,
    rules: Vec<RuleSpec>,
) -> PipelineSpec {
    PipelineSpec {
        id,
        name: None,
        source,
        workflow: workflow.clone(),
        parameters: BTreeMap::new(),
        model: None,
        rules: Some(rules),
        detect: DetectMode::Always,
        record: false,
        show: false,
        stop_after_s: None,
        paused: false,
    }
}

/// The rules as JSON text, or the list itself from a model that does not keep to the schema.
pub(super) fn rules(given: Value) -> Result<Vec<RuleSpec>, String> {
    let read = match given {
        Value::String(text) => serde_json::from_str(&text),
        other => serde_json::from_value(other),
    };
    read.map_err(|e| format!("rules: {e}; give a list as in the instructions"))
}

/// Whether these changes are few and small enough to be shown and kept.
pub(super) fn fits(changes: &[ProposedChange]) -> Result<(), String> {
    if changes.len() > MAX_CHANGES {
        return Err(format!("a proposal has at most {MAX_CHANGES} changes"));
    }
    let bytes = serde_json::to_string(changes).map_or(0, |text| text.len());
    if bytes > MAX_BYTES {
        return Err(format!(
            "the proposal has {bytes} bytes of definitions; at most {MAX_BYTES} are taken"
        ));
    }
    Ok(())
}
