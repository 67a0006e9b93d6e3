//! Draws the corners of boxes.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/corner_visualization@v1",
    summary: "Draws the corners of each box.",
    properties: drawing::palette_properties![
        drawing::THICKNESS.or(Or::Int(4)),
        Property::integer("corner_length", 15).about("length of each line in pixels"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let thickness = call.number(arg!("thickness"))?;
    let length = call.number(arg!("corner_length"))?;
    drawing::each(call, move |canvas, d, _, color| {
        let b = &d.bbox;
        for (x, y, dx, dy) in [
            (b.x1, b.y1, 1.0, 1.0),
            (b.x2, b.y1, -1.0, 1.0),
            (b.x1, b.y2, 1.0, -1.0),
            (b.x2, b.y2, -1.0, -1.0),
        ] {
            let arms = [
                Point::new(x + dx * length, y),
                Point::new(x, y),
                Point::new(x, y + dy * length),
            ];
            canvas.polyline(&arms, color, thickness);
        }
    })
}
