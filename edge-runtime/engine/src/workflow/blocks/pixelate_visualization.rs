//! Pixelates detections.

use image::imageops::{self, FilterType};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/pixelate_visualization@v1",
    summary: "Pixelates the box of each detection, such as faces or number plates.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        drawing::PREDICTIONS,
        Property::integer("pixel_size", 20).about("size of the squares in pixels"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let square: u32 = call.clamped(arg!("pixel_size"), 1..=u32::MAX.into())?;
    let detections = Arc::clone(call.detections(arg!("predictions"))?);
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        for d in &detections.boxes {
            canvas.change(&d.bbox, |part| {
                let (width, height) = part.dimensions();
                let few = |n: u32| (n / square).max(1);
                let small = imageops::thumbnail(part, few(width), few(height));
                imageops::resize(&small, width, height, FilterType::Nearest)
            });
        }
    })
}
