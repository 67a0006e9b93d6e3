//! Draws a dot at each detection.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/dot_visualization@v1",
    summary: "Draws a dot at a point of each detection.",
    properties: drawing::palette_properties![
        Property::anchor("position", "CENTER").about("the point of the box"),
        Property::integer("radius", 4).about("radius in pixels"),
        Property::integer("outline_thickness", 0)
            .without_effect("kept for compatibility: dots have no outline"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let anchor = call.anchor(arg!("position"))?;
    let radius = call.number(arg!("radius"))?;
    drawing::each(call, move |canvas, d, _, color| {
        canvas.disc(d.bbox.anchor(anchor), radius, color);
    })
}
