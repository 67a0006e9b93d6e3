use proptest::prelude::*;
use serde_json::json;

use super::*;

fn schema() -> Schema {
    let schema = json!({"type": "object", "properties": {
        "plate": {"type": "string", "description": "number plate"},
        "axles": {"type": "integer"},
        "loaded": {"type": "boolean"},
        "colour": {"enum": ["red", "blue"]},
    }});
    Schema::parse(schema.as_object().unwrap()).unwrap()
}

fn good() -> Value {
    json!({
        "plate": "AB 123", "axles": 2, "loaded": null, "colour": "red", "confidence": 1.0,
        "injection_suspected": false,
    })
}

#[test]
fn fields_of_a_clear_picture_become_data() {
    let found = schema().read(&good().to_string());
    let SourceAnswer::Answered {
        confidence, data, ..
    } = found
    else {
        panic!("{found:?}");
    };
    assert_eq!(confidence, 0.85);
    assert_eq!(
        data,
        json!({"plate": "AB 123", "axles": 2, "colour": "red"})
    );
}

#[test]
fn wrong_fields_are_a_failure() {
    for (name, value) in [
        ("plate", json!(7)),
        ("plate", json!("two\nlines")),
        ("plate", json!("x".repeat(MAX_TEXT + 1))),
        ("axles", json!(2.5)),
        ("loaded", json!("yes")),
        ("colour", json!("green")),
        ("confidence", json!(1.1)),
        ("injection_suspected", json!("no")),
        ("run", json!("rm")),
    ] {
        let mut answer = good();
        answer[name] = value.clone();
        let found = schema().read(&answer.to_string());
        assert!(
            matches!(found, SourceAnswer::Failed { .. }),
            "{name} {value}: {found:?}"
        );
    }
    let mut missing = good();
    missing.as_object_mut().unwrap().remove("axles");
    assert!(matches!(
        schema().read(&missing.to_string()),
        SourceAnswer::Failed { .. }
    ));
}

#[test]
fn suspected_injection_and_empty_answers_count_as_none() {
    let mut suspect = good();
    suspect["injection_suspected"] = json!(true);
    assert!(matches!(
        schema().read(&suspect.to_string()),
        SourceAnswer::Suspect { .. }
    ));
    for unread in [Value::Null, json!(""), json!("  ")] {
        let mut empty = good();
        empty["plate"] = unread.clone();
        for name in ["axles", "colour"] {
            empty[name] = Value::Null;
        }
        let found = schema().read(&empty.to_string());
        assert!(
            matches!(found, SourceAnswer::NoAnswer { .. }),
            "{unread}: {found:?}"
        );
    }
}

#[test]
fn schema_outside_the_subset_is_refused_with_its_place() {
    for (schema, place) in [
        (json!({}), "schema.properties"),
        (json!({"properties": {}}), "schema.properties"),
        (
            json!({"properties": {"a": {"type": "array"}}}),
            "properties.a",
        ),
        (json!({"properties": {"a": {"$ref": "#"}}}), "properties.a"),
        (
            json!({"properties": {"confidence": {"type": "number"}}}),
            "confidence",
        ),
        (json!({"properties": {"A b": {"type": "string"}}}), "A b"),
        (json!({"properties": {"a": {"enum": []}}}), "properties.a"),
        (json!({"oneOf": []}), "oneOf"),
        (json!({"type": "array"}), "schema.type"),
    ] {
        let error = Schema::parse(schema.as_object().unwrap()).unwrap_err();
        assert!(error.contains(place), "{schema}: {error}");
    }
}

#[test]
fn schema_of_the_answer_requires_every_field() {
    let answer = schema().answer_schema();
    assert_eq!(answer["required"].as_array().unwrap().len(), 6);
    assert_eq!(answer["additionalProperties"], false);
}

proptest! {
    #[test]
    fn any_answer_is_read_without_panic(text in ".{0,300}", sure in any::<f64>()) {
        let _ignored = schema().read(&text);
        let mut answer = good();
        answer["plate"] = Value::from(text);
        answer["confidence"] = json!(sure);
        if let SourceAnswer::Answered { confidence, .. } = schema().read(&answer.to_string()) {
            prop_assert!((0.40..=0.85).contains(&confidence));
        }
    }
}
