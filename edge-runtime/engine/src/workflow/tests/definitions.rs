//! Small definitions: what runs, what is skipped, what the outputs are.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_contract::pipeline::WarningKind;
use watchkeeper_vision::geometry::Point;

use super::super::{
    Compiled, Overlay, Pictures, RuntimeInput, Value, blocks, compile, details, validate,
};
use super::{FixedBoxes, frame};
use crate::deploy;
use crate::templates::watch::{self, Watch};
use crate::workflow::catalogue;
use crate::workflow::language::types;

const STREET: &str = include_str!("golden/street.json");

pub(super) fn street() -> Json {
    serde_json::from_str(STREET).unwrap()
}

pub(super) fn compiled(definition: &Json) -> Compiled {
    compile(definition, &BTreeMap::new()).unwrap()
}

pub(super) fn workflow(inputs: Json, steps: Json, outputs: Json) -> Json {
    json!({"version": "1.0", "inputs": inputs, "steps": steps, "outputs": outputs})
}

pub(super) fn output(name: &str, selector: &str) -> Json {
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
fn region_of_interest_outside_the_picture_is_reported() {
    let watch = Watch {
        regions: vec!["700,0,900,0,900,300".parse().unwrap()],
        ..Watch::default()
    };
    let compiled = compiled(&watch::workflow(&watch, "motion"));
    let warnings = deploy::outside(&compiled.filter_zones(), [640, 480]);
    let kinds: Vec<WarningKind> = warnings.iter().map(|warning| warning.kind).collect();
    assert_eq!(kinds, [WarningKind::OutsidePicture]);
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
        for property in block.properties {
            let name = property.name;
            assert!(
                !property.about.is_empty(),
                "{}.{name}: describe it by .about(…)",
                block.name
            );
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
pub(super) fn rows(definition: &Json, given: &Json) -> Json {
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
