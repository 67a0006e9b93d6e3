//! Keeps detections that satisfy statements.

use super::super::uql::{Budget, Chain, Env, OPERATIONS, apply};
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[FILTER];

/// Common manifest of blocks that apply operations to detections.
pub(super) const FILTER: Manifest = Manifest {
    name: "roboflow_core/detections_filter@v1",
    summary: "Keeps the detections that meet conditions: class, score, size, place and so on.",
    properties: &[
        Property::data("predictions", DETECTIONS).about("the detections to work on"),
        Property::literal("operations", OPERATIONS).about("operations to apply to the detections"),
        Property::value_or("operations_parameters", Shape::Dict, Or::EmptyDict)
            .about("values that the operations refer to by name")
            .of_selectors(),
    ],
    outputs: &[Output::new("predictions", DETECTIONS)],
    build,
    batch: &["predictions"],
    mixed: &["operations_parameters"],
    keeps_classes: true,
    ..Manifest::of("transformation")
};

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    let operations = setup.parse("operations")?;
    Ok(Box::new(move |call: &mut Call<'_>| {
        operate(call, &operations)
    }))
}

/// Applies operations to detections and expects detections.
fn operate(call: &mut Call<'_>, operations: &Chain) -> Result<(), String> {
    let env = Env {
        parameters: call.arg(arg!("operations_parameters")),
        element: &Value::Null,
        budget: &Budget::default(),
        ids: call.ids,
    };
    call.detections(arg!("predictions"))?;
    let result = apply(operations, call.arg(arg!("predictions")).clone(), &env)?;
    if !matches!(result, Value::Detections(_)) {
        return Err(format!(
            "the operations have to return detections, not {}",
            result.what()
        ));
    }
    call.finish(result)
}
