//! Draws a dot at each detection.

use std::sync::Arc;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::ink::Ink;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dot_visualization@v1",
    summary: "Draws a dot at a point of each detection.",
    properties: drawing::palette_properties![
        Property::anchor("position", "the point of the box", "CENTER"),
        Property::integer("radius", "radius in pixels", 4),
        Property::integer(
            "outline_thickness",
            "kept for compatibility: dots have no outline",
            0
        ),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let ink = Ink::Dots {
        detections: Arc::clone(call.detections(arg!("predictions"))?),
        by: drawing::color_by(call)?,
        anchor: call.anchor(arg!("position"))?,
        radius: call.number(arg!("radius"))?,
    };
    drawing::put(call, ink)
}
