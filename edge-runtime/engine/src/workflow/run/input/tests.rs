//! Values of each kind, and the round trip of detections.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Json, Value};
use crate::workflow::compile;
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::values::json;
use watchkeeper_vision::detections::Detections;

fn value(name: &str, json: &Json, kinds: KindSet) -> Result<Value, String> {
    super::value(name, json, kinds, &mut { super::PixelBudget::UNBOUNDED })
}

fn detections(name: &str, json: &Json) -> Result<Detections, String> {
    super::detections::detections(name, json, &mut { u64::MAX })
}

fn whole() -> Json {
    json!({
        "image": {"width": 640, "height": 480},
        "predictions": [{
            "x": 10.0, "y": 20.0, "width": 4.0, "height": 6.0, "confidence": 0.5, "class_id": 3, "class": "cat",
            "detection_id": "a", "tracker_id": 7, "parent_id": "crop.1", "time_in_zone": 1.5,
            "parent_origin": {"offset_x": 5, "offset_y": 6, "width": 640, "height": 480},
            "root_parent_id": "image",
            "root_parent_origin": {"offset_x": 5, "offset_y": 6, "width": 640, "height": 480},
            "points": [{"x": 8.0, "y": 17.0}, {"x": 12.0, "y": 17.0}, {"x": 10.0, "y": 23.0}],
            "keypoints": [{"class_id": 0, "class": "nose", "confidence": 0.9, "x": 9.0, "y": 18.0}],
            "velocity": [1.0, -2.0]
        }]
    })
}

#[test]
fn detections_round_trip() {
    let all = detections("boxes", &whole()).unwrap();
    assert_eq!(json::detections(&all, "image"), whole());
}

#[test]
fn boxes_of_a_crop_move_into_the_uncropped_picture() {
    let all = detections("boxes", &whole()).unwrap().in_root();
    let out = json::detections(&all, "image");
    let row = &out["predictions"][0];
    assert_eq!((&row["x"], &row["y"]), (&json!(15.0), &json!(26.0)));
    assert_eq!(row["parent_id"], "image");
    assert_eq!(row.get("parent_origin"), None);
    assert_eq!(row["points"][0], json!({"x": 13.0, "y": 23.0}));
    assert_eq!(row["keypoints"][0]["x"], json!(14.0));
}

#[test]
fn value_is_read_as_the_first_kind_that_fits() {
    let kinds = KindSet::of(&[Kind::ObjectDetection, Kind::Text]);
    let text = value("in", &json!("hello"), kinds).unwrap();
    assert_eq!(text.as_str(), Some("hello"));
    let boxes = value("in", &whole(), kinds).unwrap();
    assert_eq!(boxes.what(), "detections");
    assert!(value("in", &json!(3), kinds).is_err());
}

#[test]
fn time_without_offset_is_utc_and_a_zone_is_refused() {
    let read = |written: &str| {
        let time = value("in", &json!(written), KindSet::of(&[Kind::Timestamp]));
        time.map(|time| time.to_json())
    };
    let utc = read("2027-03-29T08:00:00Z").unwrap();
    assert_eq!(read("2027-03-29T08:00").unwrap(), utc);
    assert_eq!(read("2027-03-29T17:00+09:00[Asia/Tokyo]").unwrap(), utc);
    assert!(read("2027-03-29T17:00[Asia/Tokyo]").is_err());
}

#[test]
fn missing_member_of_a_detection_is_named() {
    let why = detections("in", &json!({"image": {}, "predictions": [{"x": 1}]})).unwrap_err();
    assert_eq!(why, "detection 0: y has to be a number");
}

#[test]
fn array_rows_must_have_one_length() {
    let kinds = KindSet::of(&[Kind::NumpyArray]);
    let array = value("in", &json!([[1, 2, 3], [4, 5, 6]]), kinds).unwrap();
    assert_eq!(array.to_json(), json!([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]));
    assert!(value("in", &json!([[1, 2], [3]]), kinds).is_err());
}

#[test]
fn masks_share_a_pixel_budget_and_fit_their_picture() {
    let row = json!({"x": 1, "y": 1, "width": 1, "height": 1, "confidence": 0.5, "class": "cat",
        "rle_mask": {"size": [4, 8], "counts": [0, 32]}});
    let of =
        |width: u32| json!({"image": {"width": width, "height": 4}, "predictions": [row, row]});
    let read = |json: &Json, budget: u64| {
        super::detections::detections("in", json, &mut { budget }).map(|all| all.boxes.len())
    };
    assert_eq!(read(&of(8), 64), Ok(2));
    let why = read(&of(8), 63).unwrap_err();
    assert!(
        why.starts_with("detection 1: a mask of 8x4 is too large: 31 pixels are left"),
        "{why}"
    );
    let why = read(&of(9), 64).unwrap_err();
    assert!(
        why.starts_with("detection 0: rle_mask is 8x4 in a picture of 9x4"),
        "{why}"
    );
}

#[test]
fn kinds_that_do_not_fit_take_nothing_from_the_budget() {
    let row = json!({"x": 1, "y": 1, "width": 1, "height": 1, "confidence": 0.5, "class": "cat",
        "rle_mask": {"size": [4, 8], "counts": [0, 32]}});
    let broken = json!({"x": 1});
    let json = json!({"image": {"width": 8, "height": 4}, "predictions": [row, broken]});
    let kinds = KindSet::of(&[Kind::ObjectDetection, Kind::InstanceSegmentation]);
    let mut budget = super::PixelBudget {
        pictures: 0,
        masks: 32,
    };
    let why = super::value("in", &json, kinds, &mut budget).unwrap_err();
    assert_eq!(why, "detection 1: y has to be a number");
    assert_eq!(budget.masks, 32);
}

#[test]
fn mask_of_a_parameter_that_does_not_fit_is_refused() {
    let definition = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowParameter", "name": "boxes",
            "kind": ["instance_segmentation_prediction"]}],
        "steps": [{"type": "roboflow_core/property_definition@v1", "name": "count",
            "data": "$inputs.boxes", "operations": [{"type": "SequenceLength"}]}],
        "outputs": []
    });
    let compiled = compile(&definition, &BTreeMap::new()).unwrap();
    let row = json!({"x": 1, "y": 1, "width": 1, "height": 1, "confidence": 0.5, "class": "cat",
        "rle_mask": {"size": [4, 8], "counts": [0, 32]}});
    let boxes = json!({"image": {"width": 9, "height": 4}, "predictions": [row]});
    let given = BTreeMap::from([("boxes".to_owned(), boxes)]);
    let why = compiled.inputs_from_json(&given, 0).unwrap_err().message;
    assert!(
        why.starts_with("input boxes: detection 0: rle_mask is 8x4"),
        "{why}"
    );
}
