//! Draws ellipses at the feet of detections.

use watchkeeper_vision::geometry::Anchor;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/ellipse_visualization@v1",
    summary: "Draws part of an ellipse at the foot of each detection, as it would lie on the \
              ground.",
    properties: drawing::palette_properties![
        drawing::THICKNESS,
        Property::integer("start_angle", -45)
            .about("start of the line, in degrees clockwise from the right"),
        Property::integer("end_angle", 235)
            .about("end of the line, in degrees clockwise from the right"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let thickness = call.number(arg!("thickness"))?;
    let degrees = [
        call.number(arg!("start_angle"))?,
        call.number(arg!("end_angle"))?,
    ];
    drawing::each(call, move |canvas, d, _, color| {
        let width = d.bbox.width();
        let foot = d.bbox.anchor(Anchor::BottomCenter);
        canvas.arc(foot, [width, 0.35 * width], degrees, color, thickness);
    })
}
