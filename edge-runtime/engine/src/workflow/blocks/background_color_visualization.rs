//! Fills everything outside of detections with a colour.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/background_color_visualization@v1",
    summary: "Fills everything outside of the detections with a colour.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        drawing::PREDICTIONS,
        Property::text("color", "BLACK").about("the colour"),
        drawing::OPACITY,
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let color = drawing::color_of_value(call.arg(arg!("color")))?;
    let opacity = call.number(arg!("opacity"))?;
    let detections = Arc::clone(call.detections(arg!("predictions"))?);
    let [width, height] = call.image(arg!("image"))?.size();
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        let size = [width, height];
        let shapes = detections.boxes.iter().map(|d| drawing::covered(d, size));
        let shown = shapes.fold(Bitmap::empty(size), |all, one| all.union(&one));
        canvas.fill_bitmap(
            &Bitmap::from_fn(size, |x, y| !shown.at(x, y)),
            color,
            opacity,
        );
    })
}
