//! Fills masks with colour.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

const MASKS: Property = drawing::MASKS
    .about("detections with masks")
    .and_kind(Kind::SemanticSegmentation);

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/mask_visualization@v1",
    summary: "Fills the mask of each detection with its colour.",
    properties: drawing::palette_properties![of MASKS; drawing::OPACITY],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let opacity = call.number(arg!("opacity"))?;
    drawing::each(call, move |canvas, d, size, color| {
        if let Some(mask) = d.mask() {
            canvas.fill_bitmap(&mask.bitmap(size), color, opacity);
        }
    })
}
