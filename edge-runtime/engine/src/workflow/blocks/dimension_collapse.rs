//! Makes one list of a batch: the way back from crops to their picture.

use super::super::block::{Block, Call};
use super::super::kinds::Kind;
use super::super::manifest::{Depth, Manifest, Output, Property, Role};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    types: &["roboflow_core/dimension_collapse@v1", "DimensionCollapse"],
    category: "fusion",
    summary: "Makes one list of the elements of a batch, one level up.",
    role: Role::Other,
    properties: &[Property::data(
        "data",
        "the batch to collapse",
        &[Kind::Any],
    )],
    outputs: &[Output::new("output", &[Kind::ListOfValues])],
    depth: Depth::Shallower,
    accepts_empty: false,
    build: |_| Ok(Box::new(Collapse)),
}];

struct Collapse;

impl Block for Collapse {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        call.put(0, call.arg(0).clone());
        Ok(())
    }
}
