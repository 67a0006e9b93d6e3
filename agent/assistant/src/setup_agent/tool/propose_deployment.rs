//! Proposes to deploy a draft.
//!
//! - A draft with lines or zones is proposed only after the language model saw them on the camera's
//!   picture. A preview and a proposal in one answer are not enough.
//! - What the arguments leave open stays unchanged in the pipeline that is replaced.
//! - A user must be able to read every step before the confirmation, so their number is bounded.
//! - Not here: the deployment, which a user confirms (`proposal`).

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_engine::templates::annotate::with_drawing;
use watchkeeper_engine::workflow::{Overlay, compile};

use super::super::facts::{ModelWords, Preview, ToolFact};
use super::super::tool_context::ToolContext;
use super::chosen_draft::{ChosenDraft, RUNNING};
use super::definition::{Tool, ToolInput, ToolOutcome, first_message, schema, text};
use super::draft_edit::{DraftEdit, short_schema_of_edits};
use super::draft_spec::{rules, spec};
use crate::permissions::Effect;
use crate::proposal::checks::check_draft;
use crate::proposal::describe::all_steps;
use crate::proposal::difference::difference;
use crate::proposal::llm_proposal::{MAX_BYTES, MAX_CHANGES, ProposedChange};
use crate::redact::restore_secrets;

/// Maximum steps of a proposed workflow, with those of inner workflows.
const MAX_STEPS: usize = 60;

pub(super) const TOOL: Tool = Tool {
    name: "propose_deployment",
    description: "Proposes a draft for the user's yes, under a new name or under that of a \
        pipeline that it replaces. A draft with lines or zones must be previewed on that camera \
        first. For other rules of a pipeline alone give \"running\" as the draft, without \
        preview. Send all rules whole; with an empty list it only counts.",
    schema: || {
        let properties = json!({
            "draft": text("such as d1, or running"), "edits": short_schema_of_edits(),
            "camera": text("name of the camera"),
            "pipeline": text("name of the pipeline: a-z, 0-9 and -"),
            "rules": text("the rules as JSON text: a list as in the instructions, or []"),
            "says": text("one or two sentences for the user: what will be watched, and when they \
                are notified"),
            "assumed": {"type": "array", "items": {"type": "string"}, "description": "what the \
                user did not say and you assumed"},
            "not_possible": {"type": "array", "items": {"type": "string"}, "description": "what \
                they asked for and is missing, and why"},
            "stop_after_s": {"type": "number", "description": "ends by itself after so many \
                seconds, counted from each change; 0: never; leave out: unchanged"},
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
    max_uses: 8,
    run: |given| async move { propose(given).await.into() }.boxed(),
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    draft: String,
    #[serde(default)]
    edits: Vec<DraftEdit>,
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
    let here = given.context.snapshot().await?;
    let camera = ToolContext::camera(&arguments.camera, &here)?;
    // A display name such as "Ramp watch" means the existing pipeline.
    let id = match ToolContext::pipeline(&arguments.pipeline, &here) {
        Ok(known) => known,
        Err(_) => PipelineId::new(arguments.pipeline.as_str()).map_err(|e| e.to_string())?,
    };
    let replaced = here.pipeline(id.as_str()).map(|p| &p.spec);
    let is_running = is_running(&arguments, &id, given);
    let chosen = match is_running {
        true => running(&id, &camera, replaced, &arguments.edits)?,
        false => ChosenDraft::new(given, arguments.draft, &arguments.edits).await?,
    };
    let workflow = match is_running {
        true => chosen.workflow.clone(),
        false => drafted(&chosen, &camera, replaced, given)?,
    };
    check_length(&workflow)?;
    let mut spec = keep_settings(
        replaced,
        spec(id, camera, &workflow, rules(arguments.rules)?),
    );
    if let Some(seconds) = arguments.stop_after_s {
        // `check` rejects invalid times.
        spec.stop_after_s = (seconds != 0.0).then_some(seconds);
    }
    let kept = replaced.filter(|_| is_running);
    spec.model = kept.and_then(|old| old.model.clone());
    let checked = check_draft(&spec, &here);
    if !checked.errors.is_empty() {
        return Err(checked.errors.join("; "));
    }
    let mut mind = all_warnings(checked.warnings, &chosen, given);
    mind.extend(
        replaced
            .into_iter()
            .flat_map(|old| lost_settings(old, &spec)),
    );
    let spec = Box::new(spec);
    let change = match replaced {
        Some(_) => ProposedChange::Replace { spec },
        None => ProposedChange::Deploy { spec },
    };
    add_change(&mut given.facts.changes(), &change)?;
    let result = json!({
        "put_up": change.pipeline(), "mind": mind, "rules": checked.rules,
        "difference": difference(&change.change(), &here).lines(),
        "next": "Nothing has changed. The user sees this and says yes or no. If mind names a \
            mistake, propose the corrected one under this name. End with one short sentence, or \
            propose more first.",
    });
    let outcome = ToolOutcome::json(&result).with_optional_fact(chosen.fact);
    Ok(outcome.with_fact(ToolFact::Proposed {
        change: Box::new(change),
        draft: Some(chosen.name),
        words: ModelWords {
            says: arguments.says,
            assumed: arguments.assumed,
            not_possible: arguments.not_possible,
        },
    }))
}

/// The warnings of the check, and what speaks against the draft, each once.
fn all_warnings(
    mut warnings: Vec<String>,
    chosen: &ChosenDraft,
    given: ToolInput<'_>,
) -> Vec<String> {
    let mut seen = BTreeSet::new();
    warnings.extend(chosen.warnings(given));
    warnings.retain(|warning| seen.insert(warning.clone()));
    warnings
}

/// Warns about settings of rules that keep their name: what the new rule does not have has its
/// default.
fn lost_settings(old: &PipelineSpec, new: &PipelineSpec) -> Vec<String> {
    // Plain data with string keys always serialises.
    let fields = |rule: &RuleSpec| serde_json::to_value(rule).unwrap_or_default();
    let mut lost = Vec::new();
    for rule in new.rules.iter().flatten() {
        let mut before = old.rules.iter().flatten();
        let Some(before) = before.find(|before| before.name == rule.name) else {
            continue;
        };
        let usual = fields(&RuleSpec::new(rule.name.clone(), rule.when.clone()));
        let (before, now) = (fields(before), fields(rule));
        let settings = before.as_object().into_iter().flatten();
        let settings = settings.filter(|(field, value)| {
            let [usual, now] = [&usual[field], &now[field]];
            *field != "when" && now == usual && *value != usual
        });
        let settings: Vec<String> = settings.map(|(f, value)| format!("{f} {value}")).collect();
        if !settings.is_empty() {
            lost.push(format!(
                "rule {:?} loses what it has now: {}; give these too if they are to stay",
                rule.name,
                settings.join(", ")
            ));
        }
    }
    lost
}

/// Whether the current workflow of the pipeline is meant: by [`RUNNING`], or by its own name where
/// no draft has that.
fn is_running(arguments: &Arguments, pipeline: &PipelineId, given: ToolInput<'_>) -> bool {
    let draft = arguments.draft.as_str();
    let names_pipeline = [pipeline.as_str(), arguments.pipeline.as_str()].contains(&draft);
    draft == RUNNING || names_pipeline && given.facts.draft(draft).is_none()
}

/// The workflow of a draft that was previewed on this camera, with the secrets of the replaced
/// pipeline. It has drawing steps unless they make it too long.
fn drafted(
    chosen: &ChosenDraft,
    camera: &SourceId,
    replaced: Option<&PipelineSpec>,
    given: ToolInput<'_>,
) -> Result<Value, String> {
    let workflow = &chosen.workflow;
    let draft = &chosen.name;
    let places = places(workflow)?;
    if !places.is_empty() {
        let previews = previews(&places, camera, given);
        let last = previews.first().map(|preview| preview.wrong);
        match last {
            None if chosen.fact.is_some() => {
                return Err(format!(
                    "these edits move lines or zones: make them with validate_workflow, and look \
                        at the new draft with preview_workflow on {camera}"
                ));
            }
            None => {
                return Err(format!(
                    "{draft} has lines or zones: look at it with preview_workflow on {camera} first"
                ));
            }
            Some([first, ..]) => {
                return Err(format!(
                    "the preview showed that {first}: correct it in a new draft"
                ));
            }
            Some([]) if !previews.iter().any(|preview| preview.is_answered) => {
                return Err(format!(
                    "you have not seen the preview of {draft} yet: look at the picture, and propose \
                        it in your next answer"
                ));
            }
            Some([]) => {}
        }
    }
    let workflow = restore_secrets(workflow, replaced.map(|spec| &spec.workflow))?;
    // Without drawing steps an event has no annotated picture.
    let drawn = with_drawing(workflow.clone());
    Ok(if check_length(&drawn).is_ok() {
        drawn
    } else {
        workflow
    })
}

/// The lines and zones of a workflow.
fn places(workflow: &Value) -> Result<Vec<Overlay>, String> {
    let compiled = compile(workflow, &BTreeMap::new()).map_err(|e| first_message(&e))?;
    Ok(compiled.overlays())
}

/// The previews on the camera of drafts with exactly these lines and zones, the latest draft first.
fn previews<'f>(places: &[Overlay], camera: &SourceId, given: ToolInput<'f>) -> Vec<Preview<'f>> {
    let names = (1..=given.facts.draft_count())
        .rev()
        .map(|n| format!("d{n}"));
    let with_places = |name: &String| {
        let other = given.facts.draft(name).map(self::places);
        other.is_some_and(|other| other.is_ok_and(|other| other == places))
    };
    let same = names.filter(with_places);
    same.filter_map(|name| given.facts.preview(&name, camera))
        .collect()
}

/// The current workflow of a pipeline, which the user confirmed on this camera.
fn running(
    id: &PipelineId,
    camera: &SourceId,
    replaced: Option<&PipelineSpec>,
    edits: &[DraftEdit],
) -> Result<ChosenDraft, String> {
    match replaced {
        _ if !edits.is_empty() => Err("edits need a draft of validate_workflow".to_owned()),
        None => Err(format!(
            "there is no pipeline {id} whose workflow can stay: make a draft with validate_workflow"
        )),
        Some(spec) if spec.source != *camera => Err(format!(
            "{id} watches {}: its lines and zones lie elsewhere on {camera}, so make a draft and \
                look at it there",
            spec.source
        )),
        Some(spec) => Ok(ChosenDraft::running(spec)),
    }
}

/// Checks that a user can read every step before the confirmation.
fn check_length(workflow: &Value) -> Result<(), String> {
    match all_steps(workflow).len() {
        steps if steps > MAX_STEPS => Err(format!(
            "the draft has {steps} steps; a proposal has at most {MAX_STEPS}, so that the user \
                can read them before the yes"
        )),
        _ => Ok(()),
    }
}

/// Keeps of the replaced pipeline what the arguments leave open: display name, recording, motion
/// filter, pause, end, and the parameters that are still inputs. The new workflow names its models.
fn keep_settings(replaced: Option<&PipelineSpec>, new: PipelineSpec) -> PipelineSpec {
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

/// Adds a change to those of the proposal so far, in place of an earlier one of its kind.
///
/// # Errors
/// When another kind of change of the pipeline is proposed, which would be dropped without a word,
/// or the proposal becomes too large.
pub(super) fn add_change(
    changes: &mut Vec<ProposedChange>,
    change: &ProposedChange,
) -> Result<(), String> {
    let pipeline = change.pipeline();
    changes.retain(|other| {
        other.pipeline() != pipeline || discriminant(other) != discriminant(change)
    });
    if changes.iter().any(|other| other.pipeline() == pipeline) {
        return Err(format!(
            "you proposed another change of {pipeline} in this request, and a proposal has one for each \
             pipeline: withdraw that with propose_control, or end and say what the user has to ask for \
             after the yes"
        ));
    }
    changes.push(change.clone());
    check_size(changes)
}

fn check_size(changes: &[ProposedChange]) -> Result<(), String> {
    if changes.len() > MAX_CHANGES {
        return Err(format!("a proposal has at most {MAX_CHANGES} changes"));
    }
    let bytes = serde_json::to_string(changes).map_or(0, |text| text.len());
    if bytes > MAX_BYTES {
        return Err(format!(
            "the proposal has {bytes} bytes of definitions; the maximum is {MAX_BYTES}"
        ));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn setting_that_a_rule_would_lose_is_named() {
        let spec = |rules: Value| -> PipelineSpec {
            let spec = json!({"id": "p", "source": "s", "workflow": {}, "rules": rules});
            serde_json::from_value(spec).unwrap()
        };
        let when = json!({"kind": "enters", "zone": "z"});
        let old = spec(json!([
            {"name": "alarm", "when": when, "cooldown_s": 10, "severity": "warning"},
            {"name": "other", "when": when, "severity": "warning"},
        ]));
        let new = json!([
            {"name": "alarm", "when": when, "severity": "critical", "notify": ["boss"]},
            {"name": "third", "when": when},
        ]);
        assert_eq!(
            lost_settings(&old, &spec(new)),
            [
                "rule \"alarm\" loses what it has now: cooldown_s 10.0; give these too if they are to stay"
            ]
        );
        assert_eq!(lost_settings(&old, &old), [""; 0]);
    }

    #[test]
    fn correction_replaces_proposal_and_other_change_is_refused() {
        let pipeline = PipelineId::new("hall").unwrap();
        let until = |text: &str| ProposedChange::Pause {
            pipeline: pipeline.clone(),
            until: Some(text.parse().unwrap()),
        };
        let mut changes = Vec::new();
        add_change(&mut changes, &until("2026-05-04T08:00:00Z")).unwrap();
        let corrected = until("2026-05-04T09:00:00Z");
        add_change(&mut changes, &corrected).unwrap();
        assert_eq!(changes, std::slice::from_ref(&corrected));
        let stop = ProposedChange::Stop {
            pipeline: pipeline.clone(),
        };
        let refused = add_change(&mut changes, &stop).unwrap_err();
        assert!(refused.contains("another change of hall"), "{refused}");
        assert_eq!(changes, [corrected]);
    }
}
