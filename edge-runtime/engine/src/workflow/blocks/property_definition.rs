//! Computes a value from another one by a chain of operations.

use super::super::uql::{Chain, OPERATIONS, apply_alone};
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/property_definition@v1",
    summary: "Computes a value from another one, such as the number of detections, their classes, \
              or the size of a picture.",
    properties: &[
        Property::data("data", &[Kind::Any]).about("the value to begin with"),
        Property::literal("operations", OPERATIONS).about("operations to apply to it"),
    ],
    outputs: &[Output::new("output", &[Kind::Any])],
    build: |setup| {
        let operations: Chain = setup.parse("operations")?;
        Ok(Box::new(move |call: &mut Call<'_>| {
            let data = call.arg(arg!("data")).clone();
            call.finish(apply_alone(&operations, data, call.ids)?)
        }))
    },
    ..Manifest::of("formatter")
}];
