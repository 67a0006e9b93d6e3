//! Warnings about rules and steps that can never report anything.
//!
//! Every name in them is valid, so nothing refuses them. Examples are a rule about a class that the
//! detection leaves out, and a zone that reads boxes without track ids.

use std::collections::BTreeSet;

use watchkeeper_contract::pipeline::{PipelineWarning, WarningKind};
use watchkeeper_contract::rule::Condition;

use super::plan::Plan;

/// Finds rules and steps without effect. `left_out` are the classes of the models that no class
/// filter keeps.
pub(super) fn without_effect(plan: &Plan, left_out: &BTreeSet<&str>) -> Vec<PipelineWarning> {
    let messages = filtered_classes(plan, left_out).into_iter();
    let messages = messages.chain(low_scores(plan));
    messages
        .chain(boxes_without_tracks(plan))
        .map(|message| PipelineWarning {
            kind: WarningKind::WithoutEffect,
            message,
        })
        .collect()
}

/// Classes of rules that the class filters leave out.
fn filtered_classes(plan: &Plan, left_out: &BTreeSet<&str>) -> Vec<String> {
    let named = plan.rule_specs.iter().flat_map(|rule| {
        let classes = rule.classes.iter().map(String::as_str);
        classes.map(|class| (&rule.name, class))
    });
    let lost = named.filter(|(_, class)| left_out.contains(class));
    let said = lost.map(|(rule, class)| {
        format!(
            "rule {rule:?} never reports {class:?}, because the class_filter of the detection \
             leaves it out; add it there, or remove it from the rule"
        )
    });
    said.collect()
}

/// Rules for scores below those of all detections.
fn low_scores(plan: &Plan) -> Vec<String> {
    let steps = plan.compiled.detections();
    let lowest: Option<Vec<f64>> = steps.iter().map(|step| step.confidence).collect();
    let Some(lowest) = lowest.and_then(|all| all.into_iter().reduce(f64::min)) else {
        return Vec::new();
    };
    let banded = plan.rule_specs.iter();
    let banded = banded.filter_map(|rule| Some((&rule.name, rule.confidence?.max)));
    let never = banded.filter(|(_, max)| *max < lowest);
    let said = never.map(|(rule, max)| {
        format!(
            "rule {rule:?} never holds, because it is about scores up to {max} and the detection \
             keeps those from {lowest}; lower the confidence of the detection step"
        )
    });
    said.collect()
}

/// Lines, zones and rules `appears` that read boxes without track ids.
fn boxes_without_tracks(plan: &Plan) -> Vec<String> {
    let compiled = &plan.compiled;
    let trackers = compiled.tracker_steps();
    let is_untracked = |selector: &str| {
        let Ok(slot) = compiled.slot(selector) else {
            return false;
        };
        let behind = compiled.steps_behind([slot]);
        !behind.is_empty() && !trackers.iter().any(|tracker| behind.contains(tracker))
    };
    let steps = compiled.line_steps().into_iter();
    let steps = steps.chain(compiled.zone_steps()).filter_map(|step| {
        let read = compiled.selector_in(&step, "detections")?;
        is_untracked(read).then(|| format!("step {step:?} fails on every frame, because {read}"))
    });
    let rules = plan.rule_specs.iter().filter_map(|rule| match &rule.when {
        Condition::Appears { detections } if is_untracked(detections) => Some(format!(
            "rule {:?} never holds, because {detections}",
            rule.name
        )),
        _ => None,
    });
    let said = steps.chain(rules);
    said.map(|about| format!("{about} has no track ids; put a tracker step before it"))
        .collect()
}
