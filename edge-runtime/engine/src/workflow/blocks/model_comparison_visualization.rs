//! Draws where two models agree.

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/model_comparison_visualization@v1",
    summary: "Draws the detections of two models, and covers what neither detected.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::data("predictions_a", ANY_DETECTIONS).about("detections of the first model"),
        Property::text("color_a", "GREEN").about("colour of detections of the first model only"),
        Property::data("predictions_b", ANY_DETECTIONS).about("detections of the second model"),
        Property::text("color_b", "RED").about("colour of detections of the second model only"),
        Property::text("background_color", "BLACK").about("colour of what neither detected"),
        drawing::OPACITY.or(Or::Float(0.7)),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let a = drawing::color_of_value(call.arg(arg!("color_a")))?;
    let b = drawing::color_of_value(call.arg(arg!("color_b")))?;
    let background = drawing::color_of_value(call.arg(arg!("background_color")))?;
    let opacity = call.number(arg!("opacity"))?;
    let one = Arc::clone(call.detections(arg!("predictions_a"))?);
    let other = Arc::clone(call.detections(arg!("predictions_b"))?);
    let size = call.image(arg!("image"))?.size();
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        let cover = |all: &Detections| {
            let shapes = all.boxes.iter().map(|d| drawing::covered(d, size));
            shapes.fold(Bitmap::empty(size), |all, one| all.union(&one))
        };
        let (in_a, in_b) = (cover(&one), cover(&other));
        for (color, wanted) in [
            (a, (true, false)),
            (b, (false, true)),
            (background, (false, false)),
        ] {
            let part = Bitmap::from_fn(size, |x, y| (in_a.at(x, y), in_b.at(x, y)) == wanted);
            canvas.fill_bitmap(&part, color, opacity);
        }
    })
}
