//! Tests of operations on boxes and values.

use serde_json::{Value as Json, json};

use super::super::validate;
use super::definitions::{output, rows, workflow};

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
fn replaced_class_is_that_of_the_crop_of_the_box() {
    let class = |parent: &str, class: &str| {
        json!({"parent_id": parent, "predictions": [
            {"class": class, "class_id": 7, "confidence": 0.5}
        ]})
    };
    let definition = workflow(
        json!([
            {"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowBatchInput", "name": "classes", "dimensionality": 2,
             "kind": ["classification_prediction"]},
        ]),
        json!([
            {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image",
             "model_id": "x"},
            {"type": "DetectionsClassesReplacement", "name": "replaced",
             "object_detection_predictions": "$steps.model.predictions",
             "classification_predictions": "$inputs.classes"},
        ]),
        json!([output("o", "$steps.replaced.predictions")]),
    );
    // Only two of the three boxes were cropped, in another order.
    let classes = json!([[class("c", "child"), class("a", "adult")]]);
    let rows = rows(&definition, &json!({ "classes": classes }));
    let found = rows[0]["o"]["predictions"].as_array().unwrap().iter();
    let found: Vec<_> = found.map(|d| (&d["detection_id"], &d["class"])).collect();
    assert_eq!(
        found,
        [
            (&json!("a"), &json!("adult")),
            (&json!("c"), &json!("child"))
        ]
    );
}
