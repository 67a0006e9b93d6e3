//! Draws boxes.

use std::sync::Arc;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::ink::Ink;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/bounding_box_visualization@v1",
    summary: "Draws the boxes of detections.",
    properties: drawing::palette_properties![
        Property::integer("thickness", 2).about("width of the outline in pixels"),
        Property::share("roundness", 0.0).about("kept for compatibility: corners are square"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let ink = Ink::Boxes {
        detections: Arc::clone(call.detections(arg!("predictions"))?),
        by: drawing::color_by(call)?,
        thickness: call.number(arg!("thickness"))?,
    };
    drawing::put(call, ink)
}
