//! Checks a specification and compiles it to a [`Plan`].
//!
//! - A plan exists only for a specification without errors. All are reported together; those of
//!   rules once the workflow compiles.
//! - The rules in force are the specified ones and those of event sinks; without both, the derived
//!   ones.
//! - Not here: whether the installed models fit a plan (`fit`).

use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_contract::workflow::WorkflowError;

use super::error::SpecError;
use crate::rules::{
    Need, NeedKind, RuleError, RuleSet, SelectorKind, StepFacts, WorkflowFacts, derive,
};
use crate::workflow::{
    self, ANY_DETECTIONS, CODES, Compiled, InvalidParameter, Kind, KindSet, SlotId,
};

#[derive(Debug)]
pub struct Plan {
    pub compiled: Compiled,
    pub rules: RuleSet,
    /// The rules as specified or derived.
    pub rule_specs: Vec<RuleSpec>,
    /// Their names; empty if the pipeline makes no events.
    pub rule_names: Vec<String>,
    /// Slot of each input of the rules, in the order of [`RuleSet::needs`].
    pub needs: Vec<(SlotId, NeedKind)>,
    /// Line counters: step name, slot of `count_in`, slot of `count_out`.
    pub lines: Vec<(String, SlotId, SlotId)>,
    pub tracked: Vec<SlotId>,
    pub models: Vec<String>,
    /// Models of other steps.
    pub asked: Vec<String>,
}

/// Highest `target_fps`, in frames a second.
const MAX_TARGET_FPS: f64 = 1000.0;

/// Checks a specification.
///
/// # Errors
/// All errors; rules are checked only if the workflow compiles.
pub fn plan(spec: &PipelineSpec) -> Result<Plan, Vec<SpecError>> {
    let mut errors: Vec<SpecError> = check_detect_mode(spec).err().into_iter().collect();
    errors.extend(
        spec.stop_after_s
            .filter(|seconds| !(seconds.is_finite() && *seconds > 0.0))
            .map(SpecError::StopAfter),
    );
    errors.extend(
        spec.target_fps
            .filter(|fps| !(*fps > 0.0 && *fps <= MAX_TARGET_FPS))
            .map(SpecError::TargetFps),
    );
    let compiled = match workflow::compile(&spec.workflow, &spec.parameters) {
        Ok(compiled) => compiled,
        Err(wrong) => {
            errors.extend(wrong.into_iter().map(Box::new).map(SpecError::Workflow));
            return Err(errors);
        }
    };
    errors.extend(
        compiled
            .invalid_parameters(&spec.parameters)
            .into_iter()
            .map(invalid_parameter),
    );
    errors.extend(
        compiled
            .batch_inputs()
            .into_iter()
            .map(SpecError::Unsupplied),
    );
    if let Some(model) = &spec.model
        && compiled.detector_steps().is_empty()
    {
        errors.push(SpecError::ModelUnused(model.clone()));
    }
    let specs = rules(spec, &compiled);
    let rules = rule_set(&specs, &compiled);
    match rules {
        Ok(rules) if errors.is_empty() => {
            with_slots(compiled, rules, specs).map_err(|e| vec![SpecError::Workflow(e)])
        }
        Ok(_) => Err(errors),
        Err(wrong) => {
            errors.extend(wrong.into_iter().map(Box::new).map(SpecError::Rule));
            Err(errors)
        }
    }
}

fn invalid_parameter(found: InvalidParameter) -> SpecError {
    SpecError::Parameter {
        field: format!("parameters.{}", found.input),
        value: found.value.map(|value| value.to_string()),
        error: Box::new(found.error),
    }
}

/// Returns the specified rules, otherwise the derived ones; and those of event sinks.
fn rules(spec: &PipelineSpec, compiled: &Compiled) -> Vec<RuleSpec> {
    let sinks = compiled.sink_rules();
    let mut rules = match &spec.rules {
        Some(written) => written.clone(),
        // Rules in the workflow replace derived ones.
        None if !sinks.is_empty() => Vec::new(),
        None => derive(
            &compiled.line_steps(),
            &compiled.zone_steps(),
            &compiled.tracker_steps(),
        ),
    };
    rules.extend(sinks);
    rules
}

fn rule_set(specs: &[RuleSpec], compiled: &Compiled) -> Result<RuleSet, Vec<RuleError>> {
    let kind_of = |selector: &str| {
        let slot = compiled.slot(selector).ok()?;
        Some(selector_kind(compiled.kinds(slot)))
    };
    let is_read = |selector: &str| {
        let slot = compiled.slot(selector);
        slot.is_ok_and(|slot| compiled.may_be_read(slot))
    };
    let facts = WorkflowFacts {
        lines: step_facts(compiled, compiled.line_steps()),
        zones: step_facts(compiled, compiled.zone_steps()),
        selectors: compiled.selectors().map(|(selector, _)| selector).collect(),
        kind_of: &kind_of,
        is_read: &is_read,
    };
    RuleSet::new(specs, &facts)
}

fn with_slots(
    compiled: Compiled,
    rules: RuleSet,
    rule_specs: Vec<RuleSpec>,
) -> Result<Plan, Box<WorkflowError>> {
    let slot = |selector: String| compiled.slot(&selector).map_err(Box::new);
    let lines = compiled
        .line_steps()
        .into_iter()
        .map(|name| {
            let count_in = slot(format!("$steps.{name}.count_in"))?;
            let count_out = slot(format!("$steps.{name}.count_out"))?;
            Ok((name, count_in, count_out))
        })
        .collect::<Result<Vec<_>, Box<WorkflowError>>>()?;
    let tracked = compiled
        .tracker_steps()
        .into_iter()
        .map(|name| slot(format!("$steps.{name}.tracked_detections")))
        .collect::<Result<Vec<_>, Box<WorkflowError>>>()?;
    let needs = rules
        .needs()
        .iter()
        .map(|Need { selector, kind }| Ok((slot(selector.clone())?, *kind)))
        .collect::<Result<Vec<_>, Box<WorkflowError>>>()?;
    let models = compiled.model_ids();
    let asked = compiled.asked_ids();
    Ok(Plan {
        compiled,
        rules,
        rule_names: rule_specs.iter().map(|rule| rule.name.clone()).collect(),
        rule_specs,
        needs,
        lines,
        tracked,
        models,
        asked,
    })
}

fn step_facts(compiled: &Compiled, steps: Vec<String>) -> Vec<StepFacts> {
    let of = |name: String| StepFacts {
        detections: compiled.selector_in(&name, "detections").map(str::to_owned),
        name,
    };
    steps.into_iter().map(of).collect()
}

fn selector_kind(kinds: KindSet) -> SelectorKind {
    const NUMBERS: [Kind; 3] = [Kind::Integer, Kind::Float, Kind::FloatZeroToOne];
    let boxes = ANY_DETECTIONS.iter().chain(&CODES).any(|k| kinds.has(*k));
    let number = NUMBERS.iter().any(|k| kinds.has(*k));
    let boolean = kinds.has(Kind::Boolean);
    let is_text = kinds.has(Kind::Text);
    match (boxes, number, boolean) {
        _ if kinds.has(Kind::Any) => SelectorKind::Any,
        (true, false, false) => SelectorKind::Detections,
        (false, true, false) => SelectorKind::Number,
        (false, false, true) => SelectorKind::Boolean,
        (false, false, false) if is_text => SelectorKind::Text,
        (false, false, false) => SelectorKind::Other,
        _ => SelectorKind::Any,
    }
}

fn check_detect_mode(spec: &PipelineSpec) -> Result<(), SpecError> {
    let (field, seconds) = match spec.detect {
        DetectMode::Always => return Ok(()),
        DetectMode::OnMotion { refresh_s } => ("detect.refresh_s", refresh_s),
        DetectMode::Periodic { every_s } => ("detect.every_s", every_s),
    };
    if seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0 {
        Ok(())
    } else {
        Err(SpecError::Detect { field, seconds })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn step(block: &str, name: &str, extra: Value) -> Value {
        let mut step = json!({"type": block, "name": name, "image": "$inputs.image",
            "detections": "$steps.track.tracked_detections"});
        for (key, value) in extra.as_object().unwrap() {
            step[key] = value.clone();
        }
        step
    }

    /// Detection and tracking, followed by `more` steps.
    fn workflow(more: &[Value]) -> Value {
        let mut steps = vec![
            json!({"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect",
                "images": "$inputs.image", "model_id": "motion"}),
            json!({"type": "roboflow_core/byte_tracker@v3", "name": "track", "image": "$inputs.image",
                "detections": "$steps.detect.predictions"}),
        ];
        steps.extend_from_slice(more);
        json!({"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": steps,
            "outputs": [{"type": "JsonField", "name": "o", "selector": "$steps.track.tracked_detections"}]})
    }

    fn road() -> Value {
        let line = json!({"line_segment": [[0, 5], [9, 5]]});
        step("roboflow_core/line_counter@v2", "road", line)
    }

    fn desk() -> Value {
        let zone = json!({"zone": [[0, 0], [9, 0], [9, 9]]});
        step("roboflow_core/time_in_zone@v3", "desk", zone)
    }

    fn spec(workflow: Value, more: Value) -> PipelineSpec {
        let mut spec = json!({"id": "p", "source": "s", "workflow": workflow});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn rule_names(workflow: Value, more: Value) -> Vec<String> {
        plan(&spec(workflow, more)).unwrap().rule_names
    }

    fn said(workflow: Value, more: Value) -> Vec<String> {
        let errors = plan(&spec(workflow, more)).unwrap_err();
        errors.iter().map(ToString::to_string).collect()
    }

    fn arrival(text: &str) -> Value {
        json!({"rules": [{
            "name": "arrival",
            "when": {"kind": "appears", "detections": "$steps.track.tracked_detections"},
            "decide": {"chain": ["text", "members"], "text": text},
        }]})
    }

    #[test]
    fn boxes_that_no_step_read_are_no_text_of_a_chain() {
        let steps = [
            json!({"type": "roboflow_core/qr_code_detector@v1", "name": "codes",
                "images": "$inputs.image"}),
            json!({"type": "roboflow_core/detections_consensus@v1", "name": "both",
                "predictions_batches": ["$steps.plate.predictions"], "required_votes": 1}),
            json!({"type": "roboflow_core/ocr_model@v1", "name": "plate",
                "images": "$inputs.image"}),
        ];
        for selector in [
            "$steps.track.tracked_detections",
            "$steps.detect.predictions",
        ] {
            let errors = plan(&spec(workflow(&steps), arrival(selector))).unwrap_err();
            assert_eq!(errors.len(), 1, "{errors:?}");
            // With the outputs that are allowed.
            let shown = format!("{errors:?}");
            assert!(shown.contains("decide.text"), "{shown}");
            assert!(shown.contains("$steps.plate.predictions"), "{shown}");
        }
        for selector in [
            "codes.predictions",
            "both.predictions",
            "plate.predictions",
            "plate.result",
        ] {
            let named = rule_names(workflow(&steps), arrival(&format!("$steps.{selector}")));
            assert_eq!(named, ["arrival"], "{selector}");
        }
    }

    #[test]
    fn pipeline_without_rules_derives_them() {
        assert_eq!(
            rule_names(workflow(&[road(), desk()]), json!({})),
            ["road", "desk-enters", "desk-stays"]
        );
        assert_eq!(rule_names(workflow(&[]), json!({})), ["appears"]);
    }

    #[test]
    fn empty_rule_list_means_no_rules() {
        let none = rule_names(workflow(&[road()]), json!({"rules": []}));
        assert_eq!(none, [""; 0]);
    }

    #[test]
    fn event_sink_rules_replace_derived_ones() {
        let sink = json!({"type": "watchkeeper/event_sink@v1", "name": "sink", "detections": "$steps.track.tracked_detections",
            "rules": [{"name": "own", "when": {"kind": "crosses", "line": "road"}}]});
        let names = rule_names(workflow(&[road(), sink]), json!({}));
        assert_eq!(names, ["own"]);
    }

    #[test]
    fn event_sink_in_a_branch_is_refused() {
        let sink = json!({"type": "watchkeeper/event_sink@v1", "name": "sink", "detections": "$steps.track.tracked_detections",
            "rules": [{"name": "own", "when": {"kind": "crosses", "line": "road"}}]});
        let limit = json!({"type": "roboflow_core/rate_limiter@v1", "name": "limit", "cooldown_seconds": 5,
            "depends_on": "$steps.track.tracked_detections", "next_steps": ["$steps.sink"]});
        let said = said(workflow(&[road(), limit, sink]), json!({}));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("can't be a branch"), "{said:?}");
    }

    #[test]
    fn unknown_line_is_refused_with_the_nearest() {
        let rules = json!({"rules": [{"name": "a", "when": {"kind": "crosses", "line": "raod"}}]});
        let errors = plan(&spec(workflow(&[road()]), rules)).unwrap_err();
        let [SpecError::Rule(error)] = errors.as_slice() else {
            panic!("{errors:?}");
        };
        assert_eq!(error.field, "rules[0].when.line");
        assert_eq!(error.nearest.as_deref(), Some("road"));
    }

    #[test]
    fn batch_input_is_refused_by_name() {
        let mut workflow = workflow(&[]);
        workflow["inputs"] = json!([{"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowBatchInput", "name": "predictions", "kind": ["object_detection_prediction"]}]);
        let said = said(workflow, json!({}));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("\"predictions\"") && said[0].contains("camera"),
            "{said:?}"
        );
    }

    #[test]
    fn invalid_parameter_is_refused_with_field_and_remedy() {
        let mut workflow = workflow(&[]);
        workflow["inputs"] = json!([{"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "conf", "default_value": 0.4},
            {"type": "WorkflowParameter", "name": "model"},
            {"type": "WorkflowParameter", "name": "unused"}]);
        workflow["steps"][0]["confidence"] = json!("$inputs.conf");
        workflow["steps"][0]["model_id"] = json!("$inputs.model");
        let reported = |parameters: Value| {
            let spec = spec(workflow.clone(), json!({"parameters": parameters}));
            match plan(&spec).map_err(|errors| errors.into_iter().next()) {
                Ok(_) => None,
                Err(Some(SpecError::Parameter {
                    field,
                    value,
                    error,
                })) => {
                    assert_eq!(error.class, "RuntimeInputError");
                    Some((field, value, error.message))
                }
                Err(other) => panic!("{other:?}"),
            }
        };
        for good in [json!(0.5), json!("0.5"), json!(1)] {
            assert_eq!(reported(json!({"model": "motion", "conf": good})), None);
        }
        assert_eq!(reported(json!({"model": "motion"})), None);
        for (wrong, remedy) in [
            (json!(7), "from 0 to 1"),
            (json!("high"), "has to be a number"),
            (json!(null), "has to be a number"),
        ] {
            let (field, value, message) =
                reported(json!({"model": "motion", "conf": wrong.clone()})).unwrap();
            assert_eq!(field, "parameters.conf");
            assert_eq!(value, Some(wrong.to_string()));
            assert!(
                message.starts_with("input conf, which is confidence of step detect, ")
                    && message.contains(remedy),
                "{message}"
            );
        }
        let (field, value, message) = reported(json!({})).unwrap();
        assert_eq!((field.as_str(), value), ("parameters.model", None));
        assert!(
            message.contains("model_id of step detect, has no value; give it one"),
            "{message}"
        );
    }

    #[test]
    fn model_without_detection_step_is_refused() {
        let nothing = json!({"version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": [], "outputs": []});
        let said = said(nothing, json!({"model": "motion"}));
        assert!(said[0].contains("no detection step"), "{said:?}");
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let said = said(
            workflow(&[]),
            json!({"detect": {"mode": "periodic", "every_s": 0.0}, "rules": [
                {"name": "a", "when": {"kind": "enters", "zone": "x"}},
                {"name": "b", "when": {"kind": "crosses", "line": "y"}}]}),
        );
        assert_eq!(said.len(), 3, "{said:?}");
    }
}
