//! Draws the outlines of masks.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

const V1: Manifest = Manifest {
    name: "roboflow_core/polygon_visualization@v1",
    summary: "Draws the outline of the mask of each detection.",
    properties: drawing::palette_properties![of drawing::MASKS; drawing::THICKNESS],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/polygon_visualization@v2",
        ..V1
    },
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let thickness = call.number(arg!("thickness"))?;
    drawing::each(call, move |canvas, d, size, color| {
        let Some(mask) = d.mask() else { return };
        for outline in mask.bitmap(size).outlines() {
            canvas.outline_polygon(&outline.points, color, thickness);
        }
    })
}
