//! Target `uql`: the query language, as `{"operations": […], "statement": {…}, "value": …}`.
//!
//! The operations are applied to the value and to hostile detections. The statement is evaluated on
//! the value and filters the detections.
//! - Operations and statements that do not fit are refused by their step.
//! - Evaluation is pure: a second instance gives the same answer on the same frame.
//! - The size of an answer is bounded by definition and input.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use watchkeeper_engine::workflow::compile;

use super::hostile::{Choices, text_and_choices};
use super::workflow::check_error;

/// Largest answer in bytes.
const MAX_ANSWER: usize = 16 << 20;

pub(super) fn uql(input: &[u8]) {
    let (text, choices) = text_and_choices(input);
    let Ok(Json::Object(query)) = serde_json::from_slice::<Json>(text) else {
        return;
    };
    let part = |name: &str| query.get(name).cloned();
    let definition = definition(part("operations"), part("statement"));
    let parameters = BTreeMap::from([("value".to_owned(), part("value").unwrap_or(Json::Null))]);
    match compile(&definition, &parameters) {
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in &errors {
                check_error(error);
                assert!(error.step.is_some(), "{error:?}");
            }
        }
        Ok(compiled) => {
            let rest = choices;
            let answer = |choices: &mut Choices<'_>| {
                let mut execution = compiled.instantiate();
                let image = choices.image();
                let report = execution.run(image, &[], Duration::ZERO, choices);
                (report, execution.outputs_json().to_string())
            };
            let first = answer(&mut rest.clone());
            assert!(first.1.len() <= MAX_ANSWER, "{} bytes", first.1.len());
            assert_eq!(first, answer(&mut rest.clone()), "evaluation is not pure");
        }
    }
}

/// Workflow that uses operations and statement wherever the language allows them.
fn definition(operations: Option<Json>, statement: Option<Json>) -> Json {
    let boxes = "$steps.detect.predictions";
    let mut steps = vec![json!({
        "type": "roboflow_core/roboflow_object_detection_model@v2", "name": "detect",
        "images": "$inputs.image", "model_id": "motion",
    })];
    let mut outputs = Vec::new();
    let mut derive = |name: &str, data: &str, operations: &Json| {
        steps.push(json!({
            "type": "roboflow_core/property_definition@v1", "name": name, "data": data, "operations": operations,
        }));
        outputs.push(format!("$steps.{name}.output"));
    };
    if let Some(operations) = &operations {
        derive("of_value", "$inputs.value", operations);
        derive("of_boxes", boxes, operations);
        derive("of_image", "$inputs.image", operations);
    }
    if let Some(statement) = &statement {
        let filter = json!([{"type": "DetectionsFilter", "filter_operation": statement}]);
        derive("kept", boxes, &filter);
        derive("told", "$inputs.value", &json!([{"type": "ToString"}]));
        steps.push(json!({
            "type": "roboflow_core/continue_if@v1", "name": "decide", "next_steps": ["$steps.told"],
            "condition_statement": statement,
            "evaluation_parameters": {"_": "$inputs.value", "v": "$inputs.value", "d": boxes},
        }));
    }
    let outputs: Vec<Json> = outputs
        .iter()
        .enumerate()
        .map(|(i, selector)| json!({"type": "JsonField", "name": format!("o{i}"), "selector": selector}))
        .collect();
    json!({
        "version": "1.0",
        "inputs": [
            {"type": "WorkflowImage", "name": "image"},
            {"type": "WorkflowParameter", "name": "value"},
        ],
        "steps": steps,
        "outputs": outputs,
    })
}
