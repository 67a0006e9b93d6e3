//! What a pipeline watches and can tell, for its spans.

use watchkeeper_contract::coverage::{Watched, WatchedDetector, WatchedRule};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, RuleSpec};

use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::plan::Plan;

/// What a pipeline watches and can tell.
#[must_use]
pub(super) fn watched(spec: &PipelineSpec, plan: &Plan, detectors: &Detectors) -> Watched {
    let steps = plan.compiled.detections().into_iter();
    let steps = steps.filter_map(|step| {
        let model = spec.model.as_ref().or(step.model.as_ref())?;
        let known = detectors.classes(model)?;
        let kept = |class: &String| step.classes.is_empty() || step.classes.contains(class);
        Some(WatchedDetector {
            model: model.clone(),
            classes: known.into_iter().filter(kept).collect(),
        })
    });
    Watched {
        source: spec.source.clone(),
        pipeline: spec.id.clone(),
        detectors: steps.collect(),
        renames_classes: !plan.compiled.classes_are_of_models(),
        rules: plan.rule_specs.iter().map(watched_rule).collect(),
    }
}

fn watched_rule(rule: &RuleSpec) -> WatchedRule {
    let (condition, place) = match &rule.when {
        Condition::Appears { .. } => ("appears", None),
        Condition::Enters { zone } => ("enters", Some(zone)),
        Condition::Leaves { zone } => ("leaves", Some(zone)),
        Condition::Stays { zone, .. } => ("stays", Some(zone)),
        Condition::Crosses { line, .. } => ("crosses", Some(line)),
        Condition::Count { .. } => ("count", None),
        Condition::Value { .. } => ("value", None),
    };
    WatchedRule {
        name: rule.name.clone(),
        condition: condition.to_owned(),
        place: place.cloned(),
        classes: rule.classes.clone(),
        schedule: rule.schedule.clone(),
    }
}
