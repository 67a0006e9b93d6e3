//! Draws a path.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/reference_path_visualization@v1",
    summary: "Draws a path, such as that of a path deviation.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::value("reference_path", Shape::Points).about("the path, [[x, y], …] in pixels"),
        Property::text("color", "#5bb573").about("the colour"),
        Property {
            shape: COUNT,
            ..drawing::THICKNESS
        },
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let path = call.arg(arg!("reference_path")).as_points();
    let path = path.ok_or("reference_path has to be a list of points [x, y]")?;
    let color = drawing::color_of_value(call.arg(arg!("color")))?;
    let thickness = call.number(arg!("thickness"))?;
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        canvas.polyline(&path, color, thickness)
    })
}
