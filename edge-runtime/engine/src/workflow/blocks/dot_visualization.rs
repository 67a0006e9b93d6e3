//! Draws a dot at each detection.

use std::sync::Arc;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::ink::Ink;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dot_visualization@v1",
    summary: "Draws a dot at a point of each detection.",
    properties: drawing::palette_properties![
        Property::anchor("position", "CENTER").about("the point of the box"),
        Property::integer("radius", 4).about("radius in pixels"),
        Property::integer("outline_thickness", 0)
            .about("kept for compatibility: dots have no outline"),
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
