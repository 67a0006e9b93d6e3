//! Tests of steps that decide which others run, and of steps that fail.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_vision::detections::Detections;

use super::super::{DetectRequest, Host, Pictures, RuntimeInput, Value, validate};
use super::definitions::{compiled, output, street, workflow};
use super::{FixedBoxes, detection, frame};

/// Finds as many people as the picture is wide.
struct AsManyAsWide;

impl Host for AsManyAsWide {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let size = request.image.size();
        Ok(Detections {
            boxes: (0..size[0])
                .map(|i| detection("person", 0, 0.9, [0.0, 0.0, 5.0, 5.0], &i.to_string()))
                .collect(),
            size,
        })
    }
}

#[test]
fn failing_step_skips_only_its_dependants() {
    let mut run = compiled(&street()).instantiate();
    let mut host = FixedBoxes(Err("the network is broken".to_owned()));
    let report = run.run(frame(1, [640, 480]), &[], Duration::ZERO, &mut host);
    assert_eq!(report.errors.len(), 1);
    assert_eq!(report.errors[0].step, "detect");
    assert_eq!(report.errors[0].message, "the network is broken");
    let skipped: Vec<&str> = report.skipped.iter().map(|s| &**s).collect();
    assert!(skipped.contains(&"tracker") && skipped.contains(&"draw_boxes"));
    assert!(!skipped.contains(&"draw_zone") && !skipped.contains(&"text"));
    assert_eq!(run.outputs_json()["text"], json!("quiet"));
    assert_eq!(run.outputs_json()["in"], Json::Null);
    // The next frame is not affected.
    let report = run.run(
        frame(2, [640, 480]),
        &[],
        Duration::ZERO,
        &mut FixedBoxes::three(),
    );
    assert!(report.errors.is_empty());
}

#[test]
fn step_that_needs_tracks_fails_without_them() {
    let definition = workflow(
        json!([{"type": "WorkflowImage", "name": "image"}]),
        json!([
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"},
            {"type": "roboflow_core/line_counter@v2", "name": "line", "image": "$inputs.image",
             "detections": "$steps.model.predictions", "line_segment": [[0, 0], [9, 9]]}
        ]),
        json!([]),
    );
    let mut run = compiled(&definition).instantiate();
    let report = run.run(
        frame(1, [9, 9]),
        &[],
        Duration::ZERO,
        &mut FixedBoxes::three(),
    );
    assert_eq!(report.errors[0].step, "line");
    assert!(report.errors[0].message.contains("byte_tracker"));
}

#[test]
fn flow_control_decides_per_element() {
    let definition = workflow(
        json!([{"type": "WorkflowImage", "name": "image"}]),
        json!([
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"},
            {"type": "PropertyDefinition", "name": "n", "data": "$steps.model.predictions", "operations": [{"type": "SequenceLength"}]},
            {"type": "ContinueIf", "name": "gate", "next_steps": ["$steps.many", "$steps.constant"],
             "condition_statement": {"type": "StatementGroup", "statements": [{
                 "type": "BinaryStatement",
                 "left_operand": {"type": "DynamicOperand", "operand_name": "n"},
                 "comparator": {"type": "(Number) >"},
                 "right_operand": {"type": "StaticOperand", "value": 1}}]},
             "evaluation_parameters": {"n": "$steps.n.output"}},
            {"type": "PropertyDefinition", "name": "many", "data": "$steps.n.output", "operations": [{"type": "Multiply", "other": 10}]},
            {"type": "Expression", "name": "constant", "data": {}, "switch": {"type": "CasesDefinition", "cases": [],
             "default": {"type": "StaticCaseResult", "value": "gated"}}},
            {"type": "FirstNonEmptyOrDefault", "name": "join", "data": ["$steps.many.output", "$steps.n.output"]}
        ]),
        json!([
            output("many", "$steps.many.output"),
            output("constant", "$steps.constant.output"),
            output("join", "$steps.join.output")
        ]),
    );
    let report = validate(&definition);
    assert!(report.ok, "{report:?}");
    assert_eq!(
        report.steps["constant"].exec_dim, 1,
        "it takes the lineage of its gate"
    );
    let mut run = compiled(&definition).instantiate();
    let images = [1, 3, 2].map(|w| Value::Image(frame(1, [w, 9]).into()));
    let inputs = BTreeMap::from([("image".to_owned(), RuntimeInput::Many(images.to_vec()))]);
    let report = run
        .run_batch(inputs, Duration::ZERO, &mut AsManyAsWide)
        .unwrap();
    assert!(report.errors.is_empty(), "{report:?}");
    assert_eq!(
        run.rows_json(Pictures::Size),
        [
            json!({"many": null, "constant": null, "join": 1}),
            json!({"many": 30, "constant": "gated", "join": 30}),
            json!({"many": 20, "constant": "gated", "join": 20}),
        ]
    );
}

#[test]
fn limiters_pass_by_time_and_by_change() {
    let definition = workflow(
        json!([{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "value"}]),
        json!([
            {"type": "roboflow_core/rate_limiter@v1", "name": "rate", "cooldown_seconds": 1.0, "depends_on": "$inputs.value", "next_steps": ["$steps.a"]},
            {"type": "roboflow_core/delta_filter@v1", "name": "delta", "image": "$inputs.image", "value": "$inputs.value", "next_steps": ["$steps.b"]},
            {"type": "PropertyDefinition", "name": "a", "data": "$inputs.value", "operations": []},
            {"type": "PropertyDefinition", "name": "b", "data": "$inputs.value", "operations": []}
        ]),
        json!([
            output("a", "$steps.a.output"),
            output("b", "$steps.b.output")
        ]),
    );
    let mut run = compiled(&definition).instantiate();
    let mut passes = |ms: u64, value: i64| {
        let inputs = BTreeMap::from([
            (
                "image".to_owned(),
                RuntimeInput::One(Value::Image(frame(1, [9, 9]).into())),
            ),
            ("value".to_owned(), RuntimeInput::One(Value::Int(value))),
        ]);
        let now = Duration::from_millis(ms);
        run.run_batch(inputs, now, &mut FixedBoxes::three())
            .unwrap();
        let row = run.outputs_json();
        (!row["a"].is_null(), !row["b"].is_null())
    };
    assert_eq!(passes(0, 1), (true, true));
    assert_eq!(passes(500, 1), (false, false));
    assert_eq!(passes(999, 2), (false, true));
    assert_eq!(passes(1000, 2), (true, false));
}

#[test]
fn cool_down_counts_frames() {
    let definition = workflow(
        json!([{"type": "WorkflowImage", "name": "image"}]),
        json!([
            {"type": "roboflow_core/rate_limiter@v1", "name": "rate", "cooldown_seconds": 0.3, "depends_on": "$inputs.image",
             "video_reference_image": "$inputs.image", "next_steps": ["$steps.a"]},
            {"type": "PropertyDefinition", "name": "a", "data": "$inputs.image",
             "operations": [{"type": "ExtractImageProperty", "property_name": "width"}]}
        ]),
        json!([output("a", "$steps.a.output")]),
    );
    let mut run = compiled(&definition).instantiate();
    let passed = (1..=300).filter(|number| {
        run.run(
            frame(*number, [8, 8]),
            &[],
            Duration::ZERO,
            &mut FixedBoxes::three(),
        );
        !run.outputs_json()["a"].is_null()
    });
    let every_ninth: Vec<u64> = (1..=300).step_by(9).collect();
    assert_eq!(passed.collect::<Vec<_>>(), every_ninth);
}

#[test]
fn continue_if_continues_for_its_stop_delay() {
    let definition = workflow(
        json!([{"type": "WorkflowParameter", "name": "on"}]),
        json!([
            {"type": "ContinueIf", "name": "gate", "next_steps": ["$steps.a"], "stop_delay": 2,
             "condition_statement": {"type": "StatementGroup", "statements": [{"type": "UnaryStatement",
                 "operand": {"type": "DynamicOperand", "operand_name": "on"}, "operator": {"type": "(Boolean) is True"}}]},
             "evaluation_parameters": {"on": "$inputs.on"}},
            {"type": "PropertyDefinition", "name": "a", "data": "$inputs.on", "operations": [{"type": "ToString"}]}
        ]),
        json!([output("a", "$steps.a.output")]),
    );
    let mut run = compiled(&definition).instantiate();
    let mut passes = |seconds: u64, on: bool| {
        let inputs = BTreeMap::from([("on".to_owned(), RuntimeInput::One(Value::Bool(on)))]);
        let now = Duration::from_secs(seconds);
        run.run_batch(inputs, now, &mut FixedBoxes::three())
            .unwrap();
        !run.outputs_json()["a"].is_null()
    };
    assert!(!passes(0, false));
    assert!(passes(10, true));
    assert!(passes(12, false));
    assert!(!passes(13, false));
}
