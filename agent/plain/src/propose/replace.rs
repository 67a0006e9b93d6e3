//! Changes of a deployed pipeline.

use serde_json::{Value, json};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};

use crate::english;
use crate::intent::{Intent, Objects};
use crate::need::{Need, Notes};
use crate::settings::{Settings, seconds};

/// Type of the step whose classes and confidence an edit changes.
const DETECTION: &str = "object_detection_model";

/// What is to be different about a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Edit {
    pub(crate) objects: Option<Objects>,
    pub(crate) settings: Settings,
    /// Whether its numbers are to be more (`raise`) or less (`lower`) than they are; absent:
    /// either.
    pub(crate) more: Option<bool>,
}

/// Returns the pipeline as an edit changes it, and the sentence about it.
pub(crate) fn replace(
    mut spec: PipelineSpec,
    edit: &Edit,
    notes: &mut Notes,
) -> Result<Intent, Need> {
    check_direction(&spec, edit)?;
    edit_steps(&mut spec, edit)?;
    check_rules(&spec, edit)?;
    let waits = edit_rules(spec.rules.as_deref_mut().unwrap_or_default(), edit);
    if edit.settings.hold_s.is_some() && !waits {
        return Err(Need::meaning(format!(
            "No rule of {} waits for a time, so there is no duration to change. Say \"cool-down\" for the time of quiet after an event, or ask for a new watch with the time.",
            spec.id
        )));
    }
    spec.stop_after_s = edit.settings.stop_after_s.or(spec.stop_after_s);
    let only = edit.objects.iter().map(|objects| match &objects.said {
        said if said.starts_with("anything") => said.clone(),
        said => format!("only {}", english::several(said)),
    });
    let parts: Vec<String> = only.chain(edit.settings.describe()).collect();
    notes.assumed.push(match spec.stop_after_s {
        // The runtime counts it from the first frame of what is deployed.
        Some(time) => format!(
            "Everything else stays as it is, but its time of {} starts again.",
            seconds(time)
        ),
        None => "Everything else stays as it is.".to_owned(),
    });
    let text = format!(
        "Change {} on {}: {}.",
        spec.id,
        spec.source,
        parts.join(", ")
    );
    Ok(Intent::Change(Box::new(spec), text))
}

/// Sets classes and confidence of the detection steps.
fn edit_steps(spec: &mut PipelineSpec, edit: &Edit) -> Result<(), Need> {
    let mut touched = 0_usize;
    if let Some(steps) = spec.workflow.get_mut("steps").and_then(Value::as_array_mut) {
        let detects = |step: &&mut Value| {
            step.get("type")
                .and_then(Value::as_str)
                .is_some_and(|t| t.contains(DETECTION))
        };
        for step in steps.iter_mut().filter(detects) {
            touched += 1;
            if let Some(objects) = &edit.objects {
                step["class_filter"] = json!(objects.labels);
            }
            if let Some(confidence) = edit.settings.confidence {
                step["confidence"] = json!(confidence);
            }
        }
    }
    if touched == 0 && (edit.objects.is_some() || edit.settings.confidence.is_some()) {
        let text = format!(
            "The workflow of {} has no detection step whose classes or confidence I could change; edit its workflow instead.",
            spec.id
        );
        return Err(Need::meaning(text));
    }
    Ok(())
}

/// Refuses an edit of rules that a pipeline does not have.
fn check_rules(spec: &PipelineSpec, edit: &Edit) -> Result<(), Need> {
    let rules = spec.rules.as_deref().unwrap_or_default();
    let about_rules = Settings {
        confidence: None,
        stop_after_s: None,
        ..edit.settings.clone()
    } != Settings::default();
    if about_rules && rules.is_empty() {
        let text = format!(
            "{} has no rules of its own, so there is no duration, cool-down, schedule, channel or clip to change. Set a new watch instead.",
            spec.id
        );
        return Err(Need::meaning(text));
    }
    // Rules that differ only in their hours are spans of one watch, and would become copies.
    let is_span_of = |one: &RuleSpec, other: &RuleSpec| {
        one.when == other.when && one.classes == other.classes && one.schedule != other.schedule
    };
    let has_spans = rules
        .iter()
        .any(|one| rules.iter().any(|other| is_span_of(one, other)));
    let hours = edit.settings.awake.len();
    if hours > 1 || hours == 1 && has_spans {
        return Err(Need::meaning(format!(
            "A change can't set more than one span of hours, nor make one of several. Set a new watch with the hours instead, and delete {}.",
            spec.id
        )));
    }
    Ok(())
}

/// Refuses `lower the confidence to 80%` where it is 10 %.
fn check_direction(spec: &PipelineSpec, edit: &Edit) -> Result<(), Need> {
    let Some(more) = edit.more else {
        return Ok(());
    };
    let settings = &edit.settings;
    let steps = spec.workflow.get("steps").and_then(Value::as_array);
    let mut numbers: Vec<(Option<f64>, Option<f64>, bool)> = Vec::new();
    for step in steps.into_iter().flatten() {
        let now = step.get("confidence").and_then(Value::as_f64);
        numbers.push((settings.confidence, now, false));
    }
    for rule in spec.rules.iter().flatten() {
        let hold_s = waits(&mut rule.when.clone()).copied();
        numbers.push((settings.hold_s, hold_s, true));
        numbers.push((settings.cooldown_s, Some(rule.cooldown_s), true));
    }
    let other_way = numbers.into_iter().find_map(|(new, now, is_time)| {
        let (new, now) = (new?, now?);
        let is_so = if more { new > now } else { new < now };
        (!is_so).then(|| {
            if is_time {
                seconds(now)
            } else {
                now.to_string()
            }
        })
    });
    let Some(now) = other_way else {
        return Ok(());
    };
    Err(Need::meaning(format!(
        "{} has {now} now, and the new value is not {} than that, so nothing is done. Say the value with \"set\".",
        spec.id,
        if more { "more" } else { "less" }
    )))
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

/// Sets the rules. Where one rule is about who stays and another about a number, a duration is that
/// of who stays. Returns whether a rule waits for one.
fn edit_rules(rules: &mut [RuleSpec], edit: &Edit) -> bool {
    let stays = |rule: &RuleSpec| matches!(rule.when, Condition::Stays { .. });
    let any_stays = rules.iter().any(stays);
    let mut any_waits = false;
    for rule in rules {
        if let Some(objects) = &edit.objects
            && !rule.classes.is_empty()
        {
            rule.classes.clone_from(&objects.labels);
        }
        edit.settings.set_on(rule, edit.settings.awake.first());
        let is_it = !any_stays || stays(rule);
        if let Some(for_s) = waits(&mut rule.when).filter(|_| is_it) {
            any_waits = true;
            *for_s = edit.settings.hold_s.unwrap_or(*for_s);
        }
    }
    any_waits
}
