//! Changes of a deployed pipeline.

use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};
use watchkeeper_engine::workflow::details;
use watchkeeper_english::several;

use super::ChangeSet;
use crate::answer::Change;
use crate::new_watch::Objects;
use crate::refusal::{Notes, Refusal};
use crate::scene::joined;
use crate::settings::{Settings, seconds};

// Why a pipeline is not changed so; its id stands before each.
const NO_DETECTION: &str = "has no detection step to change; edit its workflow instead.";
const SEVERAL_DETECTIONS: &str = "has several detection steps, so it is not clear which one to change; edit its workflow instead.";
const NO_RULES: &str = "has no rules of its own, so there is no duration, cool-down, schedule, channel or clip to change. Set a new watch instead.";
const SEVERAL_SPANS: &str = "has several spans of hours. Set a new watch, and delete this one.";
const NO_DURATION: &str = "has no rule that waits for a time, so there is no duration to change. Say \"cool-down\" for the time of quiet after an event, or ask for a new watch with the time.";

/// Gives a pipeline other classes and settings; what is absent stays.
pub(crate) fn replace(
    mut spec: PipelineSpec,
    objects: Option<&Objects>,
    settings: &Settings,
    notes: &mut Notes,
) -> Result<ChangeSet, Refusal> {
    let detections = edit_steps(&mut spec, objects, settings.confidence);
    let about_rules = Settings {
        confidence: None,
        stop_after_s: None,
        ..settings.clone()
    } != Settings::default();
    let rules = spec.rules.as_deref_mut().unwrap_or_default();
    let differ = |pair: &[RuleSpec]| matches!(pair, [a, b] if a.schedule != b.schedule);
    let has_spans = rules.windows(2).any(differ);
    let of_detection = objects.is_some() || settings.confidence.is_some();
    let refused = [
        (of_detection && detections == 0, NO_DETECTION),
        (of_detection && detections > 1, SEVERAL_DETECTIONS),
        (about_rules && rules.is_empty(), NO_RULES),
        (settings.times.is_some() && has_spans, SEVERAL_SPANS),
    ];
    let name_it = |why: Refusal| Refusal::meaning(format!("{} {}", spec.id, why.text));
    Refusal::first(&refused).map_err(name_it)?;
    let waits = edit_rules(rules, objects, settings);
    Refusal::first(&[(settings.hold_s.is_some() && !waits, NO_DURATION)]).map_err(name_it)?;
    spec.stop_after_s = settings.stop_after_s.or(spec.stop_after_s);
    let only = objects.map(|objects| match &objects.said {
        said if said.starts_with("anything") => said.clone(),
        said => format!("only {}", several(said)),
    });
    let parts = joined(only.into_iter().chain(settings.describe()), ", ");
    notes.assume(match spec.stop_after_s {
        // The runtime counts it from the first frame of what is deployed.
        Some(time) => format!(
            "Everything else stays as it is, but its time of {} starts again.",
            seconds(time)
        ),
        None => "Everything else stays as it is.".to_owned(),
    });
    let (id, camera) = (&spec.id, &spec.source);
    Ok(ChangeSet {
        text: format!("Change {id} on {camera}: {parts}."),
        changes: vec![Change::Replace(Box::new(spec))],
    })
}

/// Sets classes and confidence of the only step that detects. Returns the number of such steps.
fn edit_steps(
    spec: &mut PipelineSpec,
    objects: Option<&Objects>,
    confidence: Option<f64>,
) -> usize {
    let detects = |step: &&mut Value| {
        let block = step["type"].as_str().and_then(details);
        block.is_some_and(|block| !block.schema["properties"]["class_filter"].is_null())
    };
    let steps = spec.workflow.get_mut("steps").and_then(Value::as_array_mut);
    let mut detections: Vec<&mut Value> = steps.into_iter().flatten().filter(detects).collect();
    if let [step] = detections.as_mut_slice() {
        if let Some(objects) = objects {
            step["class_filter"] = json!(objects.labels);
        }
        if let Some(confidence) = confidence {
            step["confidence"] = json!(confidence);
        }
    }
    detections.len()
}

/// Refuses `lower the confidence to 80%` where it is 10 %. `more`: whether the new numbers have to
/// be larger or smaller than the present ones; absent: either.
pub(crate) fn check_direction(
    spec: &PipelineSpec,
    settings: &Settings,
    more: Option<bool>,
) -> Result<(), Refusal> {
    let steps = spec.workflow["steps"].as_array().into_iter().flatten();
    let show: fn(f64) -> String = |share| format!("{:.0} %", share * 100.0);
    let confidences = steps.map(|step| (settings.confidence, step["confidence"].as_f64(), show));
    let times = spec.rules.iter().flatten().flat_map(|rule| {
        let hold_s = waits(&mut rule.when.clone()).copied();
        let cooldown_s = (settings.cooldown_s, Some(rule.cooldown_s));
        [(settings.hold_s, hold_s), cooldown_s]
    });
    let times = times.map(|(new, now)| (new, now, seconds as fn(f64) -> String));
    for (new, now, show) in confidences.chain(times) {
        let (Some(new), Some(now), Some(more)) = (new, now, more) else {
            continue;
        };
        let (is_so, than) = if more {
            (new > now, "more")
        } else {
            (new < now, "less")
        };
        if !is_so {
            return Err(Refusal::meaning(format!(
                "{} is not {than} than the present {} of {}, so nothing is done. Say the value with \"set\".",
                show(new),
                show(now),
                spec.id
            )));
        }
    }
    Ok(())
}

/// The time for which a rule waits; one that waits for none has none.
fn waits(when: &mut Condition) -> Option<&mut f64> {
    match when {
        Condition::Stays { for_s, .. } => Some(for_s),
        Condition::Count { for_s, .. } | Condition::Value { for_s, .. } if *for_s > 0.0 => {
            Some(for_s)
        }
        _ => None,
    }
}

/// Sets the rules. If one rule is about stays and another about a number, a duration applies to the
/// stays. Returns whether a rule waits for one.
fn edit_rules(rules: &mut [RuleSpec], objects: Option<&Objects>, settings: &Settings) -> bool {
    let stays = |rule: &RuleSpec| matches!(rule.when, Condition::Stays { .. });
    let any_stays = rules.iter().any(stays);
    let mut any_waits = false;
    for rule in rules {
        if let Some(objects) = objects.filter(|_| !rule.classes.is_empty()) {
            rule.classes.clone_from(&objects.labels);
        }
        settings.set_on(rule);
        let is_it = !any_stays || stays(rule);
        if let Some(for_s) = waits(&mut rule.when).filter(|_| is_it) {
            any_waits = true;
            *for_s = settings.hold_s.unwrap_or(*for_s);
        }
    }
    any_waits
}
