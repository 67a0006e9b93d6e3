//! Draws where two models agree.

use std::sync::Arc;

use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::draw::Canvas;
use watchkeeper_vision::mask::Bitmap;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/model_comparison_visualization@v1",
    summary: "Draws the detections of two models, and covers what neither detected.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        Property::data("predictions_a", "what the one found", ANY_DETECTIONS),
        Property::text(
            "color_a",
            "colour of detections of the first model only",
            "GREEN",
        ),
        Property::data("predictions_b", "what the other found", ANY_DETECTIONS),
        Property::text(
            "color_b",
            "colour of detections of the second model only",
            "RED",
        ),
        Property::text(
            "background_color",
            "colour of what neither detected",
            "BLACK",
        ),
        drawing::OPACITY.or(Or::Float(0.7)),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let [a, b, background] = [
        drawing::color_of_value(call.arg(arg!("color_a")))?,
        drawing::color_of_value(call.arg(arg!("color_b")))?,
        drawing::color_of_value(call.arg(arg!("background_color")))?,
    ];
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
