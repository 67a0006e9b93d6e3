//! Drawing blocks, tested by which pixels change.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::{RuntimeInput, Value, compile};
use super::FixedBoxes;
use super::bench::{Bench, boxes, picture};
use crate::workflow::language::kinds::Kind;

const SIZE: [u32; 2] = [120, 80];

/// A picture of fine squares, so that blurring is visible.
fn chequered() -> Value {
    picture(1, SIZE, |x, y| [if (x + y) % 2 == 0 { 200 } else { 40 }; 3])
}

/// One object in the middle: its box from (40, 30) to (80, 50), a mask without the right half, two
/// keypoints.
fn object() -> Value {
    let corner = |x: f64, y: f64| json!({"x": x, "y": y});
    let keypoint = |x: f64, y: f64, class: &str| json!({"x": x, "y": y, "confidence": 0.9, "class_id": 0, "class": class});
    let row = json!({
        "x": 60.0, "y": 40.0, "width": 40.0, "height": 20.0, "tracker_id": 1,
        "points": [corner(40.0, 30.0), corner(60.0, 30.0), corner(60.0, 50.0), corner(40.0, 50.0)],
        "keypoints": [keypoint(45.0, 35.0, "nose"), keypoint(75.0, 45.0, "tail")]
    });
    boxes(SIZE, &[row])
}

/// Returns a test whether a step changed a pixel.
fn drawn(step: &Json) -> impl Fn(u32, u32) -> bool + use<> {
    let mut full = json!({"image": "$inputs.image", "predictions": "$inputs.boxes"});
    for (key, value) in step.as_object().unwrap() {
        full[key] = value.clone();
    }
    let kinds = [
        ("image", Kind::Image),
        ("boxes", Kind::InstanceSegmentation),
        ("keypoints", Kind::Keypoints),
    ];
    let mut bench = Bench::new(full, &kinds);
    let inputs = [
        ("image", chequered()),
        ("boxes", object()),
        ("keypoints", object()),
    ];
    bench
        .feed(&inputs)
        .unwrap_or_else(|e| panic!("{step}: {e}"));
    changes(bench.value("image").as_ref())
}

/// Returns a test whether a pixel differs from [`chequered`].
fn changes(image: Option<&Value>) -> impl Fn(u32, u32) -> bool + use<> {
    let (Some(Value::Image(image)), Value::Image(before)) = (image, chequered()) else {
        panic!("no picture");
    };
    assert_eq!(image.size(), SIZE);
    let (after, before) = (image.pixels.rgb(), before.pixels.rgb());
    move |x, y| {
        let at = ((y * SIZE[0] + x) * 3) as usize;
        after.data[at..at + 3] != before.data[at..at + 3]
    }
}

/// Steps with points that they must draw and points that they must not.
#[test]
fn drawings_are_at_the_right_place() {
    type Places = &'static [(u32, u32)];
    let cases: &[(Json, Places, Places)] = &[
        (
            json!({"type": "roboflow_core/circle_visualization@v1"}),
            &[(60, 18), (60, 62)],
            &[(60, 40), (5, 5)],
        ),
        (
            json!({"type": "roboflow_core/corner_visualization@v1", "corner_length": 6}),
            &[(42, 30), (78, 50)],
            &[(60, 30), (60, 40)],
        ),
        (
            json!({"type": "roboflow_core/ellipse_visualization@v1"}),
            &[(60, 64)],
            &[(60, 40), (60, 36)],
        ),
        (
            json!({"type": "roboflow_core/triangle_visualization@v1", "base": 12, "height": 12}),
            &[(60, 22)],
            &[(60, 40), (30, 20)],
        ),
        (
            json!({"type": "roboflow_core/color_visualization@v1"}),
            &[(45, 35), (75, 45)],
            &[(38, 40), (82, 40)],
        ),
        (
            json!({"type": "roboflow_core/mask_visualization@v1"}),
            &[(45, 35)],
            &[(75, 45), (38, 40)],
        ),
        (
            json!({"type": "roboflow_core/polygon_visualization@v1"}),
            &[(50, 30), (60, 40)],
            &[(50, 40), (80, 40)],
        ),
        (
            json!({"type": "roboflow_core/polygon_visualization@v2"}),
            &[(50, 30)],
            &[(50, 40)],
        ),
        (
            json!({"type": "roboflow_core/halo_visualization@v1", "kernel_size": 12}),
            &[(38, 40), (62, 40)],
            &[(50, 40), (100, 40)],
        ),
        (
            json!({"type": "roboflow_core/background_color_visualization@v1"}),
            &[(5, 5), (75, 40)],
            &[(50, 40)],
        ),
        (
            json!({"type": "roboflow_core/blur_visualization@v1", "padding": 5}),
            &[(45, 35), (75, 45), (37, 40)],
            &[(32, 40), (90, 40)],
        ),
        (
            json!({"type": "roboflow_core/pixelate_visualization@v1"}),
            &[(45, 35), (75, 45)],
            &[(38, 40)],
        ),
        (
            json!({"type": "roboflow_core/crop_visualization@v1", "scale_factor": 1.0, "position": "TOP_LEFT"}),
            &[(1, 10), (39, 11)],
            &[(60, 40), (60, 60)],
        ),
        (
            json!({"type": "roboflow_core/keypoint_visualization@v1", "predictions": "$inputs.keypoints", "radius": 3,
                   "annotator_type": "vertex"}),
            &[(45, 35), (75, 45)],
            &[(60, 40)],
        ),
        (
            json!({"type": "roboflow_core/keypoint_visualization@v1", "predictions": "$inputs.keypoints",
                   "annotator_type": "edge", "edges": [[1, 2]]}),
            &[(60, 40)],
            &[(60, 30)],
        ),
        (
            json!({"type": "roboflow_core/reference_path_visualization@v1", "reference_path": [[10, 10], [100, 10]]}),
            &[(50, 10)],
            &[(50, 40)],
        ),
        (
            json!({"type": "roboflow_core/model_comparison_visualization@v1", "predictions_a": "$inputs.boxes",
                   "predictions_b": "$inputs.keypoints"}),
            &[(5, 5)],
            &[(50, 40)],
        ),
        (
            json!({"type": "roboflow_core/text_display@v1", "text": "n = {{ $parameters.n }}", "text_parameters": {"n": 3},
                   "anchor": "bottom_right", "offset_x": 2, "offset_y": 2}),
            &[(115, 70)],
            &[(10, 10), (60, 10)],
        ),
        (
            json!({"type": "roboflow_core/icon_visualization@v1", "icon": "$inputs.image", "icon_width": 10,
                   "icon_height": 10, "mode": "static", "x_position": -5, "y_position": -5}),
            &[(108, 68)],
            &[(60, 40)],
        ),
        (
            json!({"type": "roboflow_core/icon_visualization@v1", "icon": "$inputs.image", "icon_width": 10,
                   "icon_height": 10, "position": "CENTER"}),
            &[(60, 40)],
            &[(108, 68)],
        ),
        (
            json!({"type": "roboflow_core/label_visualization@v2", "text": "Tracker Id"}),
            &[(42, 25)],
            &[(60, 60)],
        ),
        (
            json!({"type": "roboflow_core/polygon_zone_visualization@v1", "opacity": 0.0,
                   "zone": [[30, 20], [90, 20], [90, 60], [30, 60]]}),
            &[(60, 20), (30, 40)],
            &[(60, 16), (60, 40)],
        ),
        (
            json!({"type": "roboflow_core/polygon_zone_visualization@v1", "opacity": 0.5,
                   "zone": [[30, 20], [90, 20], [90, 60], [30, 60]]}),
            &[(60, 40)],
            &[(60, 16), (95, 40)],
        ),
        (
            json!({"type": "roboflow_core/bounding_box_visualization@v1"}),
            &[(60, 30), (40, 40)],
            &[(60, 40), (30, 20)],
        ),
        (
            json!({"type": "roboflow_core/dot_visualization@v1"}),
            &[(60, 40)],
            &[(45, 35), (30, 20)],
        ),
    ];
    for (step, inside, outside) in cases {
        let changed = drawn(step);
        for (x, y) in *inside {
            assert!(changed(*x, *y), "{step} draws nothing at {x}, {y}");
        }
        for (x, y) in *outside {
            assert!(!changed(*x, *y), "{step} draws at {x}, {y}");
        }
    }
}

#[test]
fn classes_of_a_picture_are_drawn_in_its_corner() {
    // The language accepts only a step's classes.
    let definition = json!({
        "version": "1.0",
        "inputs": [
            {"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowBatchInput", "name": "said", "kind": ["language_model_output"]}
        ],
        "steps": [
            {"type": "roboflow_core/vlm_as_classifier@v2", "name": "read", "image": "$inputs.image",
             "vlm_output": "$inputs.said", "classes": ["yard"]},
            {"type": "roboflow_core/classification_label_visualization@v1", "name": "draw", "image": "$inputs.image",
             "predictions": "$steps.read.predictions", "text_position": "BOTTOM_LEFT"}
        ],
        "outputs": [{"type": "JsonField", "name": "out", "selector": "$steps.draw.image"}]
    });
    let mut run = compile(&definition, &BTreeMap::new())
        .unwrap()
        .instantiate();
    let said = Value::from("{\"class_name\": \"yard\", \"confidence\": 0.7}");
    let inputs = [("image", chequered()), ("said", said)];
    let inputs = inputs.map(|(name, value)| (name.to_owned(), RuntimeInput::One(value)));
    run.run_batch(inputs.into(), Duration::ZERO, &mut FixedBoxes::three())
        .unwrap();
    let changed = changes(run.output_of("draw", "image"));
    assert!(changed(5, 75) && !changed(5, 5) && !changed(115, 75));
    let mut refused = definition;
    refused["steps"][1]["predictions"] = json!("$inputs.said");
    assert!(compile(&refused, &BTreeMap::new()).is_err());
}

#[test]
fn grid_draws_pictures_side_by_side() {
    let step = json!({
        "type": "roboflow_core/grid_visualization@v1", "images": ["$inputs.image", "$inputs.image", "$inputs.image"],
        "width": 60, "height": 40
    });
    let mut bench = Bench::new(step, &[("image", Kind::Image)]);
    bench
        .feed(&[("image", picture(1, [30, 20], |_, _| [255, 0, 0]))])
        .unwrap();
    let Some(Value::Image(image)) = bench.value("image") else {
        panic!("no picture");
    };
    let rgb = image.pixels.rgb();
    let red = |x: usize, y: usize| rgb.data[(y * 60 + x) * 3];
    assert_eq!((rgb.width, rgb.height), (60, 40));
    assert_eq!(
        [red(10, 10), red(45, 10), red(10, 30), red(45, 30)],
        [255, 255, 255, 0]
    );
}

#[test]
fn heatmap_ignores_standing_objects() {
    let step = json!({
        "type": "roboflow_core/heatmap_visualization@v1", "image": "$inputs.image", "predictions": "$inputs.boxes",
        "radius": 8, "position": "CENTER", "motion_threshold": 10, "opacity": 1.0
    });
    let mut bench = Bench::new(
        step,
        &[("image", Kind::Image), ("boxes", Kind::ObjectDetection)],
    );
    for (number, x) in [(1, 20.0), (2, 40.0), (3, 41.0), (4, 60.0)] {
        let rows = [
            json!({"x": x, "y": 20.0, "width": 4.0, "height": 4.0, "tracker_id": 1}),
            json!({"x": 60.0, "y": 60.0, "width": 4.0, "height": 4.0, "tracker_id": 2}),
        ];
        let frame = picture(number, SIZE, |_, _| [0; 3]);
        bench
            .feed(&[("image", frame), ("boxes", boxes(SIZE, &rows))])
            .unwrap();
    }
    let Some(Value::Image(image)) = bench.value("image") else {
        panic!("no picture");
    };
    let rgb = image.pixels.rgb();
    let lit = |x: usize, y: usize| {
        rgb.data[(y * SIZE[0] as usize + x) * 3..][..3]
            .iter()
            .any(|c| *c > 0)
    };
    assert!(lit(40, 20) && lit(60, 20));
    assert!(!lit(20, 20) && !lit(60, 60));
}
