//! Small definitions: what runs, what is skipped, what the outputs are.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::geometry::Point;

use super::super::{
    Compiled, DetectRequest, Host, Overlay, Pictures, RuntimeInput, Value, blocks, compile,
    details, validate,
};
use super::{FixedBoxes, detection, frame};
use crate::workflow::catalogue;
use crate::workflow::language::types;

const STREET: &str = include_str!("golden/street.json");

fn street() -> Json {
    serde_json::from_str(STREET).unwrap()
}

fn compiled(definition: &Json) -> Compiled {
    compile(definition, &BTreeMap::new()).unwrap()
}

fn workflow(inputs: Json, steps: Json, outputs: Json) -> Json {
    json!({"version": "1.0", "inputs": inputs, "steps": steps, "outputs": outputs})
}

fn output(name: &str, selector: &str) -> Json {
    json!({"type": "JsonField", "name": name, "selector": selector})
}

#[test]
fn video_workflow_runs_from_end_to_end() {
    let compiled = compiled(&street());
    let mut run = compiled.instantiate();
    let mut host = FixedBoxes::three();
    for number in 1..=30 {
        let now = Duration::from_millis(number * 33);
        let report = run.run(frame(number, [640, 480]), &[], now, &mut host);
        assert_eq!(report.errors, [], "frame {number}");
        assert!(report.skipped.is_empty(), "frame {number}: {report:?}");
    }
    let outputs = run.outputs_json();
    assert_eq!(outputs["in"], json!(0));
    assert_eq!(outputs["text"], json!("2"));
    assert_eq!(
        outputs["picture"],
        json!({"type": "image", "width": 640, "height": 480})
    );
    let timed = &outputs["timed"]["predictions"];
    assert_eq!(timed.as_array().unwrap().len(), 1);
    assert!((timed[0]["time_in_zone"].as_f64().unwrap() - 29.0 / 30.0).abs() < 1e-9);
    let slot = compiled.slot("$steps.how_many.output").unwrap();
    assert_eq!(run.number(slot), Some(2.0));
}

#[test]
fn compiled_workflow_lists_models_geometry_and_rules() {
    let compiled = compiled(&street());
    assert_eq!(compiled.model_ids(), ["motion"]);
    assert_eq!(compiled.image_input(), Some("image"));
    assert_eq!(compiled.tracker_steps(), ["tracker"]);
    assert_eq!(compiled.line_steps(), ["door"]);
    assert_eq!(compiled.zone_steps(), ["dock"]);
    assert_eq!(compiled.sink_rules().len(), 1);
    let overlays = compiled.overlays();
    assert_eq!(
        overlays[0],
        Overlay::Line {
            name: "door".to_owned(),
            start: Point::new(320.0, 0.0),
            end: Point::new(320.0, 480.0)
        }
    );
    assert!(
        matches!(&overlays[1], Overlay::Zone { name, polygon } if name == "dock" && polygon.len() == 4)
    );
}

#[test]
fn parameter_given_at_compilation_replaces_the_default() {
    let parameters = BTreeMap::from([("model".to_owned(), json!("yolox-nano"))]);
    let compiled = compile(&street(), &parameters).unwrap();
    assert_eq!(compiled.model_ids(), ["yolox-nano"]);
    let wrong = BTreeMap::from([("modell".to_owned(), json!("x"))]);
    let errors = compile(&street(), &wrong).unwrap_err();
    assert_eq!(errors[0].class, "RuntimeInputError");
    assert_eq!(errors[0].nearest.as_deref(), Some("model"));
}

#[test]
fn visualization_renders_on_demand_on_a_copy() {
    let mut run = compiled(&street()).instantiate();
    let image = frame(1, [640, 480]);
    let before = image.pixels.rgb();
    run.run(image, &[], Duration::ZERO, &mut FixedBoxes::three());
    let drawn = run.output_image().unwrap().rgb();
    assert_eq!((drawn.width, drawn.height), (640, 480));
    assert_ne!(drawn.data, before.data);
    assert!(before.data.iter().all(|b| *b == 128));
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
fn batch_lengths_must_match_and_single_values_broadcast() {
    let definition = workflow(
        json!([{"type": "WorkflowBatchInput", "name": "a"}, {"type": "WorkflowBatchInput", "name": "b"}]),
        json!([{"type": "test/pair@v1", "name": "pair", "data": "$inputs.a", "other": "$inputs.b"}]),
        json!([output("a", "$steps.pair.output")]),
    );
    let mut run = compiled(&definition).instantiate();
    let mut go = |a: usize, b: usize| {
        let many = |n: usize| RuntimeInput::Many(vec![Value::Int(7); n]);
        let inputs = BTreeMap::from([("a".to_owned(), many(a)), ("b".to_owned(), many(b))]);
        run.run_batch(inputs, Duration::ZERO, &mut FixedBoxes::three())
            .map(|_| run.rows_json(Pictures::Size).len())
            .map_err(|e| e.class)
    };
    assert_eq!(go(3, 1), Ok(3));
    assert_eq!(go(1, 3), Ok(3));
    assert_eq!(go(3, 2), Err("RuntimeInputError".to_owned()));
    assert_eq!(go(0, 1), Err("RuntimeInputError".to_owned()));
}

#[test]
fn batch_keeps_its_shape_through_depth_changes() {
    let definition = workflow(
        json!([{"type": "WorkflowBatchInput", "name": "lists"}]),
        json!([
            {"type": "test/split@v1", "name": "split", "data": "$inputs.lists"},
            {"type": "PropertyDefinition", "name": "double", "data": "$steps.split.output", "operations": [{"type": "Multiply", "other": 2}]},
            {"type": "DimensionCollapse", "name": "collapse", "data": "$steps.double.output"}
        ]),
        json!([
            output("double", "$steps.double.output"),
            output("all", "$steps.collapse.output")
        ]),
    );
    let report = validate(&definition);
    assert_eq!(
        serde_json::to_value(&report.steps).unwrap(),
        json!({
            "split": {"exec_dim": 1, "out_dim": 2},
            "double": {"exec_dim": 2, "out_dim": 2},
            "collapse": {"exec_dim": 1, "out_dim": 1}
        })
    );
    let mut run = compiled(&definition).instantiate();
    let lists = vec![
        Value::from(json!([1, 2])),
        Value::from(json!([])),
        Value::from(json!([3])),
    ];
    let inputs = BTreeMap::from([("lists".to_owned(), RuntimeInput::Many(lists))]);
    run.run_batch(inputs, Duration::ZERO, &mut FixedBoxes::three())
        .unwrap();
    assert_eq!(
        run.rows_json(Pictures::Size),
        [
            json!({"double": [2, 4], "all": [2, 4]}),
            // Without elements to collapse the step did not run.
            json!({"double": [], "all": null}),
            json!({"double": [6], "all": [6]}),
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

/// Categories of Roboflow's blocks.
const CATEGORIES: [&str; 12] = [
    "analytics",
    "classical_computer_vision",
    "flow_control",
    "formatter",
    "fusion",
    "math",
    "model",
    "secrets_provider",
    "sink",
    "transformation",
    "video",
    "visualization",
];

#[test]
fn every_block_is_known_and_has_a_schema() {
    let mut names = std::collections::BTreeSet::new();
    for block in blocks::all().filter(|m| m.category != "test") {
        let ours = block.name.starts_with("watchkeeper/");
        let known = types::find(block.name).is_some_and(|k| k.name == block.name);
        assert!(
            ours || known,
            "{} is not in language/types.tsv; a block of our own is watchkeeper/NAME@vN",
            block.name
        );
        assert!(names.insert(block.name), "{} is declared twice", block.name);
        assert!(
            CATEGORIES.contains(&block.category),
            "category {:?} of {}: allowed are {CATEGORIES:?}",
            block.category,
            block.name
        );
        for name in block.batch.iter().chain(block.mixed) {
            assert!(block.property(name).is_some(), "{}.{name}", block.name);
        }
    }
    for summary in catalogue() {
        let details = details(&summary.r#type).unwrap();
        assert!(
            summary.summary.ends_with('.'),
            "the summary of {} is not a sentence",
            summary.r#type
        );
        let properties = details.schema["properties"].as_object().unwrap();
        for required in details.schema["required"].as_array().unwrap() {
            assert!(properties.contains_key(required.as_str().unwrap()));
        }
    }
}

/// Rows of a workflow on one picture, with other inputs given as JSON.
fn rows(definition: &Json, given: &Json) -> Json {
    let compiled = compiled(definition);
    let given = given.as_object().unwrap();
    let given = given.iter().map(|(name, v)| (name.clone(), v.clone()));
    let mut inputs = compiled
        .inputs_from_json(&given.collect(), u64::MAX)
        .unwrap();
    for name in compiled.image_inputs() {
        let picture = Value::Image(frame(1, [640, 480]).into());
        inputs.insert(name.to_owned(), RuntimeInput::One(picture));
    }
    let mut run = compiled.instantiate();
    let report = run
        .run_batch(inputs, Duration::ZERO, &mut FixedBoxes::three())
        .unwrap();
    assert!(report.errors.is_empty(), "{report:?}");
    Json::Array(run.rows_json(Pictures::Size))
}

#[test]
fn all_outputs_are_one_dictionary_per_element() {
    let definition = workflow(
        json!([{"type": "WorkflowImage", "name": "image"}]),
        json!([
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"},
            {"type": "Crop", "name": "crop", "image": "$inputs.image", "predictions": "$steps.model.predictions"},
            {"type": "PropertyDefinition", "name": "height", "data": "$steps.crop.crops",
             "operations": [{"type": "ExtractImageProperty", "property_name": "height"}]},
            {"type": "DimensionCollapse", "name": "all", "data": "$steps.height.output"}
        ]),
        json!([
            output("height", "$steps.height.*"),
            output("all", "$steps.all.*")
        ]),
    );
    assert_eq!(
        rows(&definition, &json!({})),
        json!([{
            "height": [{"output": 120}, {"output": 60}, {"output": 140}],
            "all": {"output": [120, 60, 140]},
        }])
    );
}

/// Steps that find three boxes, crop them (80, 100 and 60 pixels wide) and continue with crops
/// wider than `least`.
fn wider_than(least: u32) -> Vec<Json> {
    let width = json!([{"type": "ExtractImageProperty", "property_name": "width"}]);
    let is_wide = json!({"type": "StatementGroup", "statements": [{
        "type": "BinaryStatement",
        "left_operand": {"type": "DynamicOperand", "operand_name": "crop", "operations": width},
        "comparator": {"type": "(Number) >"},
        "right_operand": {"type": "StaticOperand", "value": least}}]});
    vec![
        json!({"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"}),
        json!({"type": "Crop", "name": "crop", "image": "$inputs.image", "predictions": "$steps.model.predictions"}),
        json!({"type": "ContinueIf", "name": "gate", "condition_statement": is_wide,
            "evaluation_parameters": {"crop": "$steps.crop.crops"}, "next_steps": ["$steps.inner"]}),
        json!({"type": "ObjectDetectionModel", "name": "inner", "image": "$steps.crop.crops", "model_id": "x"}),
        json!({"type": "DimensionCollapse", "name": "all", "data": "$steps.inner.predictions"}),
        json!({"type": "roboflow_core/detections_stitch@v1", "name": "stitch", "reference_image": "$inputs.image",
            "predictions": "$steps.inner.predictions"}),
        json!({"type": "Crop", "name": "cut", "image": "$steps.crop.crops", "predictions": "$steps.inner.predictions"}),
        json!({"type": "PropertyDefinition", "name": "width", "data": "$steps.cut.crops",
            "operations": [{"type": "ExtractImageProperty", "property_name": "width"}]}),
    ]
}

#[test]
fn gated_crops_collapse_to_an_empty_list() {
    let image = json!([{"type": "WorkflowImage", "name": "image"}]);
    let outputs = json!([
        output("all", "$steps.all.output"),
        output("stitch", "$steps.stitch.predictions")
    ]);
    let held_back = workflow(
        image.clone(),
        Json::Array(wider_than(1000)),
        outputs.clone(),
    );
    assert_eq!(
        rows(&held_back, &json!({})),
        json!([{"all": [], "stitch": {"image": {"width": null, "height": null}, "predictions": []}}])
    );
    let mut steps = wider_than(0);
    steps[0]["confidence"] = json!(1.0);
    steps[1]["predictions"] = json!("$steps.none.predictions");
    steps.push(json!({"type": "DetectionsFilter", "name": "none", "predictions": "$steps.model.predictions",
        "operations": [{"type": "DetectionsFilter", "filter_operation": {"type": "StatementGroup", "statements": [{
            "type": "BinaryStatement",
            "left_operand": {"type": "DynamicOperand", "operations": [{"type": "ExtractDetectionProperty", "property_name": "class_name"}]},
            "comparator": {"type": "=="},
            "right_operand": {"type": "StaticOperand", "value": "zebra"}}]}}]}));
    let no_crop = workflow(image, Json::Array(steps), outputs);
    assert_eq!(
        rows(&no_crop, &json!({})),
        json!([{"all": null, "stitch": null}])
    );
}

#[test]
fn list_of_lists_ends_with_the_last_non_empty_one() {
    let widths = |least: u32| {
        let definition = workflow(
            json!([{"type": "WorkflowImage", "name": "image"}]),
            Json::Array(wider_than(least)),
            json!([output("widths", "$steps.width.output")]),
        );
        rows(&definition, &json!({}))[0]["widths"].take()
    };
    // The three boxes lie outside of every crop, so each element is missing.
    let missing = json!([null, null, null]);
    assert_eq!(widths(50), json!([missing, missing, missing]));
    assert_eq!(widths(70), json!([missing, missing]));
    assert_eq!(widths(90), json!([[], missing]));
    assert_eq!(widths(1000), json!([[]]));
}

/// A step that reads the cache may be written before the one that fills it: the order follows the
/// distance from the inputs.
#[test]
fn steps_run_level_by_level() {
    let get = json!({"type": "roboflow_core/cache_get@v1", "name": "get", "image": "$inputs.image", "key": "k"});
    let set = json!({"type": "roboflow_core/cache_set@v1", "name": "set", "image": "$inputs.image", "key": "k", "value": "$steps.n.output"});
    let n = json!({"type": "PropertyDefinition", "name": "n", "data": "$inputs.image",
        "operations": [{"type": "ExtractImageProperty", "property_name": "width"}]});
    for steps in [json!([n, set, get]), json!([get, set, n])] {
        let definition = workflow(
            json!([{"type": "WorkflowImage", "name": "image"}]),
            steps,
            json!([output("got", "$steps.get.output")]),
        );
        assert_eq!(rows(&definition, &json!({})), json!([{"got": false}]));
    }
}

#[test]
fn parameters_pass_unchanged_and_secrets_are_hidden() {
    let parameter =
        |name: &str, kind: &str| json!({"type": "WorkflowParameter", "name": name, "kind": [kind]});
    let definition = workflow(
        json!([parameter("many", "integer"), parameter("key", "secret")]),
        json!([]),
        json!([output("many", "$inputs.many"), output("key", "$inputs.key")]),
    );
    assert_eq!(
        rows(&definition, &json!({"many": "3", "key": "hush"})),
        json!([{"many": "3", "key": "********"}])
    );
}

#[test]
fn batch_may_lack_elements_but_not_all() {
    let definition = workflow(
        json!([{"type": "WorkflowBatchInput", "name": "n", "kind": ["integer"]}]),
        json!([{"type": "PropertyDefinition", "name": "double", "data": "$inputs.n", "operations": [{"type": "Multiply", "other": 2}]}]),
        json!([output("double", "$steps.double.output")]),
    );
    assert_eq!(
        rows(&definition, &json!({"n": [1, null, true]})),
        json!([{"double": 2}, {"double": null}, {"double": 2}])
    );
    let nothing = BTreeMap::from([("n".to_owned(), Json::Null)]);
    assert!(
        compiled(&definition)
            .inputs_from_json(&nothing, u64::MAX)
            .is_err()
    );
}

#[test]
fn detections_in_a_padded_crop_have_their_origin() {
    let definition = workflow(
        json!([{"type": "WorkflowImage", "name": "image"}]),
        json!([
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"},
            {"type": "DetectionOffset", "name": "padded", "predictions": "$steps.model.predictions", "offset_width": 4, "offset_height": 6}
        ]),
        json!([output("padded", "$steps.padded.predictions")]),
    );
    let rows = rows(&definition, &json!({}));
    let first = &rows[0]["padded"]["predictions"][0];
    let whole = json!({"offset_x": 0, "offset_y": 0, "width": 640, "height": 480});
    assert_eq!(first["parent_id"], "a", "{first}");
    assert_eq!(first["parent_origin"], whole, "{first}");
    assert_eq!(first["root_parent_id"], "image", "{first}");
    assert_eq!([&first["x"], &first["width"]], [160.0, 84.0], "{first}");
}

/// Applies a chain of operations to the three boxes, or to a value.
fn made(operations: &Json, of: Json) -> Json {
    let (inputs, data, given) = if of.is_null() {
        (
            json!([{"type": "WorkflowImage", "name": "image"}]),
            "$steps.model.predictions",
            json!({}),
        )
    } else {
        (
            json!([{"type": "WorkflowBatchInput", "name": "v"}]),
            "$inputs.v",
            json!({"v": [of]}),
        )
    };
    let mut steps = vec![
        json!({"type": "PropertyDefinition", "name": "p", "data": data, "operations": operations}),
    ];
    if data.starts_with("$steps") {
        steps.push(json!({"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"}));
    }
    let definition = workflow(
        inputs,
        Json::Array(steps),
        json!([output("o", "$steps.p.output")]),
    );
    rows(&definition, &given)[0]["o"].take()
}

#[test]
fn operations_on_boxes_match_the_peer() {
    let ids = |out: Json| -> Vec<String> {
        let rows = out["predictions"].as_array().unwrap().iter();
        rows.map(|d| d["detection_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let pick = |class: &str| {
        made(
            &json!([{"type": "PickDetectionsByParentClass", "parent_class": class}]),
            Json::Null,
        )
    };
    assert_eq!(ids(pick("person")), ["a", "c"], "parents stay");
    assert_eq!(
        pick("dog"),
        json!({"image": {"width": null, "height": null}, "predictions": []})
    );
    let sort = json!([{"type": "SortDetections", "mode": "confidence", "ascending": false}]);
    assert_eq!(ids(made(&sort, Json::Null)), ["a", "b", "c"]);
    let grown = made(
        &json!([{"type": "DetectionsOffset", "offset_x": 400, "offset_y": 0}]),
        Json::Null,
    );
    assert_eq!(
        grown["predictions"][0]["width"], 480.0,
        "boxes grow beyond the picture"
    );
    let corner = json!([
        {"type": "DetectionsOffset", "offset_x": 1, "offset_y": 3},
        {"type": "DetectionsPropertyExtract", "property_name": "top_left"}
    ]);
    assert_eq!(
        made(&corner, Json::Null)[0],
        json!([120, 58]),
        "whole pixels, a half to the even one"
    );
}

#[test]
fn operations_on_values_match_python() {
    for (operation, of, gives) in [
        (
            json!({"type": "SequenceAggregate", "mode": "least_common"}),
            json!([3, 1, 1, 2]),
            json!(2),
        ),
        (
            json!({"type": "SequenceAggregate", "mode": "first"}),
            json!("abc"),
            json!("a"),
        ),
        (
            json!({"type": "NumericSequenceAggregate", "function": "max"}),
            json!(["a", "c", "b"]),
            json!("c"),
        ),
        (
            json!({"type": "SequenceJoin", "separator": "-"}),
            json!("abc"),
            json!("a-b-c"),
        ),
        (
            json!({"type": "StringMatches", "regex": "l{2}o"}),
            json!("Hello"),
            json!(true),
        ),
        (
            json!({"type": "ToNumber", "cast_to": "int"}),
            json!("12.7"),
            json!(12),
        ),
        (
            json!({"type": "ConvertDictionaryToJSON"}),
            json!({"a": [1, 2.0]}),
            json!("{\"a\": [1, 2.0]}"),
        ),
    ] {
        assert_eq!(
            made(&json!([operation]), of.clone()),
            gives,
            "{operation} of {of}"
        );
    }
}

#[test]
fn list_of_texts_accepts_only_enough_texts() {
    let told = |steps: Json| {
        let report = validate(&workflow(
            json!([{"type": "WorkflowImage", "name": "image"}]),
            steps,
            json!([]),
        ));
        let told = report.errors.into_iter().map(|e| e.message);
        told.collect::<Vec<_>>().join("; ")
    };
    let model = |classes: Json| {
        told(
            json!([{"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x", "class_filter": classes}]),
        )
    };
    assert_eq!(model(json!(["car"])), "");
    assert_eq!(model(json!([])), "");
    let wrong = model(json!(["car", 1]));
    assert!(wrong.contains("a list of strings, but has 1"), "{wrong}");
    let wrong = model(json!("car"));
    assert!(wrong.contains("a list of strings, not \"car\""), "{wrong}");
    let none = told(
        json!([{"type": "roboflow_core/environment_secrets_store@v1", "name": "secrets", "variables_storing_secrets": []}]),
    );
    assert!(none.contains("at least 1"), "{none}");
}

#[test]
fn misspelt_operation_is_reported_with_its_position() {
    let chain = json!([{"type": "SequenceApply", "operations": [{"type": "SequenceLenght"}]}]);
    let report = validate(&workflow(
        json!([{"type": "WorkflowParameter", "name": "n"}]),
        json!([{"type": "PropertyDefinition", "name": "p", "data": "$inputs.n", "operations": chain}]),
        json!([]),
    ));
    let error = &report.errors[0];
    assert_eq!(error.nearest.as_deref(), Some("SequenceLength"));
    assert!(error.allowed.iter().any(|a| a == "SequenceLength"));
    assert!(
        error
            .message
            .contains("\"SequenceLenght\" in [0].operations[0].type"),
        "{error:?}"
    );
}

#[test]
fn unknown_property_is_a_warning() {
    let report = validate(&workflow(
        json!([{"type": "WorkflowImage", "name": "image"}]),
        json!([{"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x", "confidense": 0.9}]),
        json!([]),
    ));
    assert!(report.ok);
    assert_eq!(report.warnings[0].property, "confidense");
    assert_eq!(report.warnings[0].nearest.as_deref(), Some("confidence"));
}

#[test]
fn parameter_must_be_valid_for_its_property() {
    let detect = |property: &str| {
        let mut step = json!({"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"});
        step[property] = json!("$inputs.v");
        compiled(&workflow(
            json!([{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "v", "default_value": 0.4}]),
            json!([step]),
            json!([]),
        ))
    };
    let told = |property: &str, value: Json| {
        let given = BTreeMap::from([("v".to_owned(), value)]);
        let read = detect(property).inputs_from_json(&given, u64::MAX);
        read.map(drop)
            .map_err(|error| (error.class, error.step, error.property))
    };
    let refused = |property: &str| {
        let place = (Some("model".to_owned()), Some(property.to_owned()));
        Err(("RuntimeInputError".to_owned(), place.0, place.1))
    };
    for good in [json!(0.5), json!("0.5"), json!(1), json!(true)] {
        assert_eq!(told("confidence", good), Ok(()));
    }
    for wrong in [json!("x"), json!(7), json!([0.5]), json!(null)] {
        assert_eq!(told("confidence", wrong), refused("confidence"));
    }
    for good in [json!(["car"]), json!([]), json!(null)] {
        assert_eq!(told("class_filter", good), Ok(()));
    }
    for wrong in [json!("car"), json!([1])] {
        assert_eq!(told("class_filter", wrong), refused("class_filter"));
    }
}

#[test]
fn unusable_value_is_reported_with_property_and_input() {
    let told = |default: Json| {
        let mut definition = compiled(&workflow(
            json!([{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "which", "default_value": default}]),
            json!([{"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "$inputs.which"}]),
            json!([]),
        ))
        .instantiate();
        let image = frame(1, [64, 48]);
        let report = definition.run(image, &[], Duration::ZERO, &mut FixedBoxes::three());
        report.errors.into_iter().map(|e| e.message).next()
    };
    assert_eq!(told(json!("x")), None);
    let nothing = told(json!(null)).unwrap_or_default();
    assert!(
        nothing.starts_with("model_id: a string expected, got nothing")
            && nothing.contains("give input which a value, or a default_value"),
        "{nothing}"
    );
    let number = told(json!(3)).unwrap_or_default();
    assert!(number.contains("the value is from input which"), "{number}");
}

#[test]
fn unknown_input_is_reported_with_the_nearest() {
    let definition = compiled(&workflow(
        json!([{"type": "WorkflowParameter", "name": "confidence"}]),
        json!([]),
        json!([]),
    ));
    let names = ["confidense".to_owned(), "confidence".to_owned()];
    assert_eq!(
        definition.unknown_inputs(&names),
        [("confidense", Some("confidence".to_owned()))]
    );
}
