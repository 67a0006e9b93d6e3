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
        Ok(Box::new(Derive {
            operations: setup.parse("operations")?,
        }))
    },
    ..Manifest::of("formatter")
}];

struct Derive {
    operations: Chain,
}

impl Block for Derive {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let value = apply_alone(&self.operations, call.arg(arg!("data")).clone(), call.ids)?;
        call.put(0, value);
        Ok(())
    }
}
