//! Tests of the readers of a call: declared defaults, bounds, and choices.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::{Value, compile};
use super::bench::{Bench, boxes, picture};
use super::{FixedBoxes, frame};
use crate::workflow::language::kinds::Kind;

/// Runs a step whose property reads a workflow parameter of this value; returns its count, or why
/// it failed.
fn run(step: &Json, property: &str, value: Json) -> Result<Value, String> {
    let mut step = step.clone();
    step["name"] = json!("step");
    step[property] = json!("$inputs.given");
    let definition = json!({
        "version": "1.0",
        "inputs": [
            {"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "given", "default_value": value}
        ],
        "steps": [
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "m"},
            step
        ],
        "outputs": []
    });
    let compiled = compile(&definition, &BTreeMap::new());
    let mut run = compiled.unwrap_or_else(|e| panic!("{e:#?}")).instantiate();
    let report = run.run(
        frame(1, [64, 48]),
        &[],
        Duration::ZERO,
        &mut FixedBoxes::three(),
    );
    match report.errors.first() {
        Some(failure) => Err(failure.message.clone()),
        None => {
            let count = run.output_of("step", "matching_pixels_count");
            Ok(count.cloned().unwrap_or_default())
        }
    }
}

fn blur() -> Json {
    json!({"type": "roboflow_core/image_blur@v1", "image": "$inputs.image"})
}

#[test]
fn null_is_the_declared_default() {
    // The picture is nine levels darker; the default tolerance is ten.
    let step = json!({
        "type": "roboflow_core/pixel_color_count@v1", "image": "$inputs.image", "target_color": [137, 137, 137]
    });
    let count = |tolerance: Json| run(&step, "tolerance", tolerance).unwrap().as_i64();
    assert_eq!(count(json!(null)), Some(64 * 48));
    assert_eq!(count(json!(10)), Some(64 * 48));
    assert_eq!(count(json!(8)), Some(0));
}

#[test]
fn null_of_a_required_number_is_refused_with_its_input() {
    let step = json!({"type": "roboflow_core/threshold@v1", "image": "$inputs.image"});
    let refused = run(&step, "thresh_value", json!(null)).unwrap_err();
    assert!(
        refused.starts_with("thresh_value: a whole number expected, got nothing; give input given"),
        "{refused}"
    );
}

#[test]
fn null_of_an_ignored_threshold_is_accepted() {
    for (method, is_read) in [("otsu", false), ("adaptive_mean", false), ("trunc", true)] {
        let step = json!({
            "type": "roboflow_core/threshold@v1", "image": "$inputs.image", "threshold_type": method
        });
        let told = run(&step, "thresh_value", json!(null));
        assert_eq!(told.is_err(), is_read, "{method}: {told:?}");
    }
}

#[test]
fn null_of_a_choice_or_text_is_the_declared_default() {
    assert_eq!(run(&blur(), "blur_type", json!(null)).err(), None);
    let chart =
        json!({"type": "roboflow_core/text_display@v1", "image": "$inputs.image", "text": "a"});
    for property in ["text_align", "anchor", "position_mode"] {
        assert_eq!(run(&chart, property, json!(null)).err(), None, "{property}");
    }
}

/// A step that reads the picture and the boxes of the model.
fn on_boxes(block: &str, boxes: &str) -> Json {
    let mut step = json!({"type": format!("roboflow_core/{block}"), "image": "$inputs.image"});
    step[boxes] = json!("$steps.model.predictions");
    step
}

/// Runs the step with each value of the property; a message is the beginning of the refusal.
fn check(step: &Json, property: &str, cases: &[(Json, Option<&str>)]) {
    for (value, refused) in cases {
        let told = run(step, property, value.clone()).err();
        let context = format!("{property} = {value}: {told:?}");
        assert_eq!(told.is_some(), refused.is_some(), "{context}");
        let (told, refused) = (told.unwrap_or_default(), refused.unwrap_or_default());
        assert!(told.starts_with(refused), "{context}");
    }
}

#[test]
fn readers_of_numbers_and_booleans_name_what_they_found() {
    let rotate = json!({"type": "roboflow_core/auto_rotate_on_edges@v1", "image": "$inputs.image"});
    let found =
        "skip_below_degrees: a number expected, got a string; the value is from input given";
    let cases = [(json!(null), None), (json!("steep"), Some(found))];
    check(&rotate, "skip_below_degrees", &cases);
    let hook = json!({
        "type": "roboflow_core/webhook_sink@v1", "url": "https://host/in", "method": "POST"
    });
    let found = "disable_sink: a boolean expected, got a string";
    check(&hook, "disable_sink", &[(json!("yes"), Some(found))]);
    let found = "cooldown_seconds is -1 and has to be 0 or more";
    let cases = [(json!(-1), Some(found)), (json!(2.5), None)];
    check(&hook, "cooldown_seconds", &cases);
    let model = json!({
        "type": "roboflow_core/roboflow_object_detection_model@v2", "images": "$inputs.image",
        "model_id": "m",
    });
    let found = "iou_threshold: a number expected, got a string";
    let cases = [(json!(" 0.5 "), None), (json!("half"), Some(found))];
    check(&model, "iou_threshold", &cases);
}

#[test]
fn clamped_number_beyond_its_bounds_is_accepted() {
    let pixelate = on_boxes("pixelate_visualization@v1", "predictions");
    let found = "pixel_size: a whole number expected";
    let cases = [(json!(-5), None), (json!(0.5), Some(found))];
    check(&pixelate, "pixel_size", &cases);
    let track = on_boxes("byte_tracker@v3", "detections");
    check(&track, "lost_track_buffer", &[(json!(-1), None)]);
}

#[test]
fn readers_of_pictures_tracks_and_anchors_name_what_they_found() {
    let track = on_boxes("byte_tracker@v3", "detections");
    let found = "image: an image expected, got a number";
    check(&track, "image", &[(json!(3), Some(found))]);
    let mut zone = on_boxes("time_in_zone@v3", "detections");
    zone["zone"] = json!([[0, 0], [9, 0], [9, 9]]);
    let found = "the detections have no track ids";
    check(
        &zone,
        "triggering_anchor",
        &[(json!("CENTER"), Some(found))],
    );
    let dots = on_boxes("dot_visualization@v1", "predictions");
    let found = "\"MIDDLE\" is not an anchor; use one such as CENTER";
    let cases = [(json!(null), None), (json!("MIDDLE"), Some(found))];
    check(&dots, "position", &cases);
}

#[test]
fn optional_number_may_be_null_but_no_text() {
    let mut track = on_boxes("byte_tracker@v3", "detections");
    track["type"] = json!("watchkeeper/tracker@v1");
    let found = "minimum_consecutive_frames: a whole number expected, got a string";
    let cases = [(json!(null), None), (json!("two"), Some(found))];
    check(&track, "minimum_consecutive_frames", &cases);
}

#[test]
fn item_of_a_list_of_numbers_that_is_no_number_is_named() {
    let alike = json!({
        "type": "roboflow_core/cosine_similarity@v1", "embedding_2": "$inputs.given"
    });
    let item = "embedding_1: a list of numbers expected, but it contains a string";
    let whole = "embedding_1: a list of numbers expected, got a string";
    let cases = [(json!([1, "a"]), Some(item)), (json!("a"), Some(whole))];
    check(&alike, "embedding_1", &cases);
}

#[test]
fn item_of_a_list_of_texts_that_is_no_text_is_named() {
    let step = json!({
        "type": "roboflow_core/yolo_world_model@v1", "images": "$inputs.image", "class_names": ["a"]
    });
    let refused = run(&step, "class_names", json!(["a", 1])).unwrap_err();
    assert!(
        refused.starts_with("class_names: a list of texts expected, but it contains a number"),
        "{refused}"
    );
}

#[test]
fn fraction_within_the_bounds_of_an_edge_search_is_accepted() {
    let kinds = [
        ("image", Kind::Image),
        ("masks", Kind::InstanceSegmentation),
        ("given", Kind::Any),
    ];
    for (property, given, refused) in [
        ("pixel_tolerance", 15.5, None),
        ("adaptive_window_size", 41.5, None),
        (
            "pixel_tolerance",
            100.5,
            Some("pixel_tolerance is 100.5 and has to be from 1 to 100"),
        ),
        (
            "sigma",
            0.001,
            Some("sigma is 0.001 and has to be from 0.01 to 10"),
        ),
    ] {
        let mut step = json!({
            "type": "roboflow_core/mask_edge_snap@v1", "image": "$inputs.image",
            "segmentation": "$inputs.masks",
        });
        step[property] = json!("$inputs.given");
        let fed = Bench::new(step, &kinds).feed(&[
            ("image", picture(1, [8, 8], |_, _| [0; 3])),
            ("masks", boxes([8, 8], &[])),
            ("given", Value::Float(given)),
        ]);
        assert_eq!(fed.err().as_deref(), refused, "{property}");
    }
}

#[test]
fn votes_beyond_the_bound_are_refused() {
    let step = json!({
        "type": "roboflow_core/track_class_lock@v1", "image": "$inputs.image",
        "detections": "$steps.model.predictions",
    });
    for property in ["min_votes", "lead_margin", "switch_after", "state_ttl"] {
        let refused = run(&step, property, json!(1_000_001)).unwrap_err();
        assert!(
            refused.starts_with(&format!("{property} is 1000001 and has to be from"))
                && refused.ends_with("to 1000000"),
            "{refused}"
        );
    }
}

#[test]
fn refused_name_gets_the_names_of_its_own_version() {
    let step = json!({
        "type": "roboflow_core/morphological_transformation@v1", "image": "$inputs.image"
    });
    let refused = run(&step, "operation", json!("Opening then Closing")).unwrap_err();
    assert!(
        refused.contains("not one of Erosion, Dilation, Opening, Closing, Gradient"),
        "{refused}"
    );
    let step = json!({
        "type": "roboflow_core/perspective_correction@v1", "images": "$inputs.image",
        "predictions": "$steps.model.predictions",
        "perspective_polygons": [[0, 0], [9, 0], [9, 9], [0, 9]],
    });
    let anchor = "extend_perspective_polygon_by_detections_anchor";
    let refused = run(&step, anchor, json!("all")).unwrap_err();
    assert!(
        refused.contains("is not an anchor") && refused.ends_with("or ALL"),
        "{refused}"
    );
}

#[test]
fn number_beyond_the_bounds_is_refused_with_both() {
    for (value, is_good) in [(1, true), (255, true), (0, false), (256, false)] {
        let told = run(&blur(), "kernel_size", json!(value));
        let refused = format!("kernel_size is {value} and has to be from 1 to 255");
        assert_eq!(told.err(), (!is_good).then_some(refused));
    }
}

#[test]
fn number_beyond_its_shape_is_refused_with_both_bounds() {
    let step = json!({"type": "roboflow_core/dominant_color@v1", "image": "$inputs.image"});
    for (value, refused) in [
        (json!(10), None),
        (
            json!(11),
            Some("color_clusters is 11 and has to be from 1 to 10"),
        ),
        (json!(1.5), Some("color_clusters: a whole number expected")),
    ] {
        let told = run(&step, "color_clusters", value).err();
        assert_eq!(told.is_some(), refused.is_some(), "{told:?}");
        assert!(
            told.unwrap_or_default()
                .starts_with(refused.unwrap_or_default())
        );
    }
}

#[test]
fn unknown_choice_is_refused_with_all_choices() {
    let refused = run(&blur(), "blur_type", json!("box")).unwrap_err();
    assert_eq!(
        refused,
        "blur_type: \"box\" is not one of average, gaussian, median, bilateral"
    );
}
