//! Fills boxes with colour.

use watchkeeper_vision::draw;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/color_visualization@v1",
    summary: "Fills each box with its colour.",
    properties: drawing::palette_properties![drawing::OPACITY],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let detections = Arc::clone(call.detections(arg!("predictions"))?);
    let by = drawing::color_by(call)?;
    let opacity = call.number(arg!("opacity"))?;
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        draw::tints(canvas, &detections, by, opacity)
    })
}
