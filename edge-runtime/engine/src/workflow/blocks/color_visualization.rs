//! Fills boxes with colour.

use std::sync::Arc;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;
use crate::workflow::blocks::common::ink::Ink;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/color_visualization@v1",
    summary: "Fills each box with its colour.",
    properties: drawing::palette_properties![drawing::OPACITY],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let ink = Ink::Tints {
        detections: Arc::clone(call.detections(arg!("predictions"))?),
        by: drawing::color_by(call)?,
        opacity: call.number(arg!("opacity"))?,
    };
    drawing::put(call, ink)
}
