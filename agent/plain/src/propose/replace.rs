//! Changes of a deployed pipeline.

use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};
use watchkeeper_english::several;

use super::ChangeSet;
use crate::answer::Change;
use crate::new_watch::Objects;
use crate::refusal::{Notes, Refusal};
use crate::settings::{Settings, seconds};

/// Type of the step whose classes and confidence an edit changes.
const DETECTION: &str = "object_detection_model";

const NO_DETECTION: &str = "Its workflow has no detection step whose classes or confidence I could change; edit the workflow instead.";
const NO_RULES: &str = "It has no rules of its own, so there is no duration, cool-down, schedule, channel or clip to change. Set a new watch instead.";
const SEVERAL_SPANS: &str =
    "It has several spans of hours. Set a new watch with the hours instead, and delete it.";
const NO_DURATION: &str = "No rule of it waits for a time, so there is no duration to change. Say \"cool-down\" for the time of quiet after an event, or ask for a new watch with the time.";
const OTHER_WAY: &str = "The new value is the present one or goes the other way, so nothing is done. Say the value with \"set\".";

/// Gives a pipeline other classes and settings; what is absent stays.
pub(crate) fn replace(
    mut spec: PipelineSpec,
    objects: Option<&Objects>,
    settings: &Settings,
    notes: &mut Notes,
) -> Result<ChangeSet, Refusal> {
    let detects = edit_steps(&mut spec, objects, settings.confidence);
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
        (!detects && of_detection, NO_DETECTION),
        (about_rules && rules.is_empty(), NO_RULES),
        (settings.times.is_some() && has_spans, SEVERAL_SPANS),
    ];
    Refusal::first(&refused)?;
    let waits = edit_rules(rules, objects, settings);
    Refusal::first(&[(settings.hold_s.is_some() && !waits, NO_DURATION)])?;
    spec.stop_after_s = settings.stop_after_s.or(spec.stop_after_s);
    let only = objects.map(|objects| match &objects.said {
        said if said.starts_with("anything") => said.clone(),
        said => format!("only {}", several(said)),
    });
    let parts: Vec<String> = only.into_iter().chain(settings.describe()).collect();
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
        text: format!("Change {id} on {camera}: {}.", parts.join(", ")),
        changes: vec![Change::Replace(Box::new(spec))],
    })
}

/// Sets classes and confidence of the detection steps. Returns whether there is one.
fn edit_steps(spec: &mut PipelineSpec, objects: Option<&Objects>, confidence: Option<f64>) -> bool {
    let steps = spec.workflow.get_mut("steps").and_then(Value::as_array_mut);
    let mut any = false;
    for step in steps.into_iter().flatten() {
        if !step["type"].as_str().is_some_and(|t| t.contains(DETECTION)) {
            continue;
        }
        any = true;
        if let Some(objects) = objects {
            step["class_filter"] = json!(objects.labels);
        }
        if let Some(confidence) = confidence {
            step["confidence"] = json!(confidence);
        }
    }
    any
}

/// Refuses `lower the confidence to 80%` where it is 10 %. `more`: whether the numbers are to be
/// more or less than they are; absent: either.
pub(crate) fn check_direction(
    spec: &PipelineSpec,
    settings: &Settings,
    more: Option<bool>,
) -> Result<(), Refusal> {
    let steps = spec.workflow["steps"].as_array().into_iter().flatten();
    let confidences = steps.map(|step| settings.confidence.zip(step["confidence"].as_f64()));
    let times = spec.rules.iter().flatten().flat_map(|rule| {
        let hold_s = waits(&mut rule.when.clone()).copied();
        let cooldown_s = settings.cooldown_s.zip(Some(rule.cooldown_s));
        [settings.hold_s.zip(hold_s), cooldown_s]
    });
    let is_other_way =
        |(new, now)| more.is_some_and(|more| if more { new <= now } else { new >= now });
    let wrong = confidences.chain(times).flatten().any(is_other_way);
    Refusal::first(&[(wrong, OTHER_WAY)])
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
