//! Tests of workflow parameters: defaults, checks, secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::{compile, validate};
use super::definitions::{compiled, output, rows, street, workflow};
use super::{FixedBoxes, frame};

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
fn value_of_a_property_without_effect_is_a_warning() {
    for (thickness, told) in [
        (json!(1), 0),
        (json!(1.0), 0),
        (json!(3), 1),
        (json!("$inputs.n"), 0),
    ] {
        let report = validate(&workflow(
            json!([
                {"type": "WorkflowImage", "name": "image"},
                {"type": "WorkflowParameter", "name": "n", "default_value": 3},
            ]),
            json!([
                {"type": "ObjectDetectionModel", "name": "model", "image": "$inputs.image", "model_id": "x"},
                {"type": "roboflow_core/trace_visualization@v1", "name": "paths", "image": "$inputs.image",
                    "predictions": "$steps.model.predictions", "thickness": thickness},
            ]),
            json!([]),
        ));
        let warned = report
            .warnings
            .iter()
            .map(|warning| warning.property.as_str());
        assert_eq!(
            warned.collect::<Vec<_>>(),
            vec!["thickness"; told],
            "{report:?}"
        );
    }
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
