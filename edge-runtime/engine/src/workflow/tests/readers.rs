//! Tests of the readers of a call: declared defaults, bounds, and choices.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use super::super::{Value, compile};
use super::{FixedBoxes, frame};

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
        "steps": [step],
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
