//! Classes and rules that a pipeline watches, for its coverage spans.
//!
//! - It is computed from the specification and the detectors alone, so it is the same in each run.
//! - Where in doubt a rule *may drop* events: no span promises an event that a gate, a filter or
//!   an hourly limit could keep back.
//! - Not here: when the pipeline watched.

use watchkeeper_contract::coverage::{Watched, WatchedDetector, WatchedRule};
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::rule::{Condition, CrossDirection, Gates, RuleSpec, Severity};

use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::plan::Plan;

/// Classes and rules that a pipeline watches.
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
            || !rule.ignore.is_empty()
            || (rule.max_per_hour.is_some() && !is_critical)
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::{Value, json};
    use watchkeeper_detect::{DetectorPool, OpenRequest};
    use watchkeeper_engine::templates::shape::{NamedLine, NamedZone};
    use watchkeeper_engine::templates::watch;

    use super::*;
    use crate::pipeline::plan::plan;

    /// Watched rules of a pipeline: motion, all of it and in the left half.
    fn rules(rules: &Value) -> Vec<WatchedRule> {
        let spec: PipelineSpec = serde_json::from_value(json!({
            "id": "p", "source": "cam", "model": "motion", "rules": rules,
            "workflow": {
                "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
                "steps": [
                    {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect",
                        "images": "$inputs.image", "model_id": "yolox-nano"},
                    {"type": "watchkeeper/tracker@v1", "name": "all", "image": "$inputs.image",
                        "detections": "$steps.detect.predictions"},
                    {"type": "roboflow_core/detections_filter@v1", "name": "half",
                        "predictions": "$steps.all.tracked_detections",
                        "operations": [{"type": "DetectionsFilter", "filter_operation": {
                            "type": "StatementGroup", "operator": "and", "statements": [{
                                "type": "BinaryStatement",
                                "left_operand": {"type": "DynamicOperand", "operand_name": "_"},
                                "comparator": {"type": "(Detection) in zone"},
                                "right_operand": {"type": "StaticOperand",
                                    "value": [[0, 0], [9, 0], [9, 9]]},
                            }],
                        }}]},
                    {"type": "watchkeeper/line_counter@v1", "name": "line", "image": "$inputs.image",
                        "detections": "$steps.all.tracked_detections", "line_segment": [[0, 0], [9, 9]]},
                ],
                "outputs": [],
            },
        }))
        .unwrap();
        let plan = plan(&spec).unwrap();
        let motion = OpenRequest {
            model: "motion".to_owned(),
            ..OpenRequest::default()
        };
        let pool = DetectorPool::default();
        let open = |_: &str| Ok(pool.open(&motion).unwrap());
        let detectors = Detectors::open(&spec, &plan, &open).unwrap();
        watched(&spec, &plan, &detectors).rules
    }

    #[test]
    fn rule_has_its_detectors_and_what_may_drop_objects() {
        let found = rules(&json!([
            {"name": "a", "when": {"kind": "appears", "detections": "$steps.all.tracked_detections"}},
            {"name": "f", "when": {"kind": "appears", "detections": "$steps.half.predictions"}},
            {"name": "l", "when": {"kind": "crosses", "line": "line", "direction": "in"},
                "cooldown_s": 60, "shared_cooldown": true},
            {"name": "c", "when": {"kind": "crosses", "line": "line"}, "severity": "critical",
                "cooldown_s": 60, "shared_cooldown": true, "confidence": {"min": 0.9}},
            {"name": "i", "when": {"kind": "crosses", "line": "line"},
                "ignore": [[0, 0, 0.5, 0.5]]},
            {"name": "h", "when": {"kind": "crosses", "line": "line"}, "max_per_hour": 5},
        ]));
        let models = |rule: &WatchedRule| -> Vec<(String, usize)> {
            let of = rule.detectors.iter();
            of.map(|d| (d.model.clone(), d.classes.len())).collect()
        };
        for rule in &found {
            assert_eq!(models(rule), [("motion".to_owned(), 0)], "{}", rule.name);
        }
        let facts = found.iter().map(|r| (r.may_drop, r.direction, r.quiet_ms));
        let facts: Vec<_> = facts.collect();
        assert_eq!(
            facts,
            [
                (false, None, 0),
                (true, None, 0),
                (false, Some(CrossDirection::In), 60_000),
                (true, None, 0),
                (true, None, 0),
                (true, None, 0),
            ]
        );
    }

    /// The watches that people ask for can report a class of the detector.
    #[test]
    fn watch_of_the_template_tells_the_classes_of_its_detector() {
        let point = |x: f64, y: f64| [x, y];
        let mut watch = watch::Watch {
            lines: vec![NamedLine {
                name: "line".to_owned(),
                from: point(0.0, 0.0),
                to: point(9.0, 9.0),
            }],
            zones: vec![NamedZone {
                name: "zone".to_owned(),
                points: vec![point(0.0, 0.0), point(9.0, 0.0), point(9.0, 9.0)],
            }],
            ..watch::Watch::default()
        };
        let may_drop = |watch: &watch::Watch| {
            let spec: PipelineSpec = serde_json::from_value(json!({
                "id": "p", "source": "cam", "workflow": watch::workflow(watch, "motion"),
            }))
            .unwrap();
            let plan = plan(&spec).unwrap();
            let found = watched(&spec, &plan, &Detectors::default());
            assert!(!found.renames_classes);
            let rules = found.rules.into_iter().map(|r| (r.name, r.may_drop));
            rules.collect::<Vec<_>>()
        };
        let names = ["line", "zone-enters", "zone-stays"];
        let all = |drops: bool| names.map(|name| (name.to_owned(), drops)).to_vec();
        assert_eq!(may_drop(&watch), all(false));
        watch.confidence = Some(0.97);
        assert_eq!(may_drop(&watch), all(true), "a raised threshold");
    }
}
