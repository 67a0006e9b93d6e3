//! Draws boxes.

use std::sync::Arc;

use crate::workflow::block_api::block::{Block, Call};
use crate::workflow::block_api::manifest::{Default as Or, INTEGER, Manifest, Property, SHARE};
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::ink::Ink;
use crate::workflow::language::kinds::Kind;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/bounding_box_visualization@v1",
    summary: "Draws the boxes of detections.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        drawing::PREDICTIONS,
        drawing::PALETTE,
        drawing::PALETTE_SIZE,
        drawing::CUSTOM_COLORS,
        drawing::COLOR_AXIS,
        Property::value(
            "thickness",
            "width of the outline in pixels",
            INTEGER,
            &[Kind::Integer],
        )
        .or(Or::Int(2)),
        Property::value(
            "roundness",
            "kept for compatibility: corners are square",
            SHARE,
            &[Kind::FloatZeroToOne],
        )
        .or(Or::Float(0.0)),
    ],
    build: |_| Ok(Box::new(Draw)),
    ..drawing::BASE
}];

struct Draw;

impl Block for Draw {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let ink = Ink::Boxes {
            detections: Arc::clone(call.detections(drawing::PREDICTIONS_INDEX)?),
            by: drawing::color_by(call)?,
            thickness: call.number(7, 2.0)?,
        };
        drawing::put(call, ink)
    }
}
