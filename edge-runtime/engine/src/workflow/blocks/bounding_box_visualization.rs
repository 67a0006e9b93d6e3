//! Draws boxes.

use watchkeeper_vision::draw;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/bounding_box_visualization@v1",
    summary: "Draws the boxes of detections.",
    properties: drawing::palette_properties![
        Property::integer("thickness", 2).about("width of the outline in pixels"),
        Property::share("roundness", 0.0)
            .without_effect("kept for compatibility: corners are square"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let detections = Arc::clone(call.detections(arg!("predictions"))?);
    let by = drawing::color_by(call)?;
    let thickness = call.number(arg!("thickness"))?;
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        draw::boxes(canvas, &detections, by, Some(thickness))
    })
}
