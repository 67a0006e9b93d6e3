//! Draws triangles that point at detections.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/triangle_visualization@v1",
    summary: "Draws a triangle that points at each detection from above.",
    properties: drawing::palette_properties![
        Property::anchor("position", "TOP_CENTER").about("the point of the box that it points at"),
        Property::integer("base", 10).about("width of the triangle in pixels"),
        Property::integer("height", 10).about("height of the triangle in pixels"),
        Property::integer("outline_thickness", 0)
            .about("width of a dark outline in pixels; 0 for none"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let anchor = call.anchor(arg!("position"))?;
    let (base, height) = (call.number(arg!("base"))?, call.number(arg!("height"))?);
    let outline = call.number(arg!("outline_thickness"))?;
    drawing::each(call, move |canvas, d, size, color| {
        let tip = d.anchor(anchor, size);
        let top = tip.y - height;
        let corners = [
            Point::new(tip.x - base / 2.0, top),
            Point::new(tip.x + base / 2.0, top),
            tip,
        ];
        canvas.fill_polygon(&corners, color, 1.0);
        if outline > 0.0 {
            canvas.outline_polygon(&corners, Color::INK, outline);
        }
    })
}
