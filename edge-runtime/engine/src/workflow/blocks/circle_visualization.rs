//! Draws circles around detections.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/circle_visualization@v1",
    summary: "Draws a circle around each detection.",
    properties: drawing::palette_properties![drawing::THICKNESS],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let thickness = call.number(arg!("thickness"))?;
    drawing::each(call, move |canvas, d, _, color| {
        let radius = d.bbox.width().hypot(d.bbox.height()) / 2.0;
        canvas.arc(d.bbox.center(), [radius; 2], [0.0, 360.0], color, thickness);
    })
}
