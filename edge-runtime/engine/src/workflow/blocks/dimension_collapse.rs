//! Collapses a batch to a list: the way back from crops to their picture.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dimension_collapse@v1",
    summary: "Collapses a batch level into one list.",
    properties: &[Property::data("data", &[Kind::Any]).about("the batch to collapse")],
    outputs: &[Output::new("output", &[Kind::ListOfValues])],
    depth: Depth::Shallower,
    batch: &["data"],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("fusion")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    call.finish(call.arg(arg!("data")).clone())
}
