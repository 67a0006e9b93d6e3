//! Draws a dot at each detection.

use std::sync::Arc;

use crate::workflow::block_api::block::{Block, Call};
use crate::workflow::block_api::manifest::{ANCHORS, Default as Or, INTEGER, Manifest, Property};
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::ink::Ink;
use crate::workflow::language::kinds::Kind;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dot_visualization@v1",
    summary: "Draws a dot at a point of each detection.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        drawing::PREDICTIONS,
        drawing::PALETTE,
        drawing::PALETTE_SIZE,
        drawing::CUSTOM_COLORS,
        drawing::COLOR_AXIS,
        Property::value("position", "the point of the box", ANCHORS, &[Kind::Text])
            .or(Or::Text("CENTER")),
        Property::value("radius", "radius in pixels", INTEGER, &[Kind::Integer]).or(Or::Int(4)),
        Property::value(
            "outline_thickness",
            "kept for compatibility: dots have no outline",
            INTEGER,
            &[Kind::Integer],
        )
        .or(Or::Int(0)),
    ],
    build: |_| Ok(Box::new(Draw)),
    ..drawing::BASE
}];

struct Draw;

impl Block for Draw {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let ink = Ink::Dots {
            detections: Arc::clone(call.detections(drawing::PREDICTIONS_INDEX)?),
            by: drawing::color_by(call)?,
            anchor: call.anchor(7)?.unwrap_or_default(),
            radius: call.number(8, 4.0)?,
        };
        drawing::put(call, ink)
    }
}
