//! What a pipeline watches and can tell, for its coverage spans.

use watchkeeper_contract::coverage::{Watched, WatchedDetector, WatchedRule};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, CrossDirection, Gates, RuleSpec, Severity};

use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::plan::Plan;

/// What a pipeline watches and can tell.
#[must_use]
pub(super) fn watched(spec: &PipelineSpec, plan: &Plan, detectors: &Detectors) -> Watched {
    let rule = |rule: &RuleSpec| watched_rule(rule, spec, plan, detectors);
    Watched {
        source: spec.source.clone(),
        pipeline: spec.id.clone(),
        renames_classes: !plan.compiled.classes_are_of_models(),
        rules: plan.rule_specs.iter().map(rule).collect(),
    }
}

fn watched_rule(
    rule: &RuleSpec,
    spec: &PipelineSpec,
    plan: &Plan,
    detectors: &Detectors,
) -> WatchedRule {
    let (condition, place, step) = match &rule.when {
        Condition::Appears { detections } => ("appears", None, step_of(detections)),
        Condition::Enters { zone } => ("enters", Some(zone), zone.as_str()),
        Condition::Leaves { zone } => ("leaves", Some(zone), zone.as_str()),
        Condition::Stays { zone, .. } => ("stays", Some(zone), zone.as_str()),
        Condition::Crosses { line, .. } => ("crosses", Some(line), line.as_str()),
        Condition::Count { detections, .. } => ("count", None, step_of(detections)),
        Condition::Value { value, .. } => ("value", None, step_of(value)),
    };
    let direction = match &rule.when {
        Condition::Crosses { direction, .. } => Some(*direction),
        _ => None,
    };
    let (behind, drops) = plan.compiled.detectors_behind(step);
    let steps = plan.compiled.detections().into_iter();
    let steps = steps.filter(|step| behind.contains(&step.name));
    let seen = steps.filter_map(|step| {
        let model = spec.model.as_ref().or(step.model.as_ref())?;
        let known = detectors.classes(model)?;
        let kept = |class: &String| step.classes.is_empty() || step.classes.contains(class);
        Some(WatchedDetector {
            model: model.clone(),
            classes: known.into_iter().filter(kept).collect(),
        })
    });
    let is_critical = rule.severity == Severity::Critical;
    WatchedRule {
        name: rule.name.clone(),
        condition: condition.to_owned(),
        place: place.cloned(),
        direction: direction.filter(|direction| *direction != CrossDirection::Any),
        detectors: seen.collect(),
        may_drop: drops
            || rule.confidence.is_some()
            || rule.gates.escalate > Gates::default().escalate,
        quiet_ms: if rule.shared_cooldown && !is_critical {
            (rule.cooldown_s * 1e3).ceil() as u64
        } else {
            0
        },
        classes: rule.classes.clone(),
        schedule: rule.schedule.clone(),
    }
}

/// The step of a selector such as `$steps.tracker.tracked_detections`.
fn step_of(selector: &str) -> &str {
    selector.split('.').nth(1).unwrap_or_default()
}
