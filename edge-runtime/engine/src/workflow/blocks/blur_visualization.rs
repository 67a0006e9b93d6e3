//! Blurs detections.

use image::imageops;

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::drawing;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/blur_visualization@v1",
    summary: "Blurs the box of each detection, such as faces or number plates.",
    properties: &[
        drawing::IMAGE,
        drawing::COPY,
        drawing::PREDICTIONS,
        Property::integer("kernel_size", 15).about("width of the blur in pixels"),
        Property::integer("padding", 0).about("extra pixels to blur around each box"),
    ],
    build: |_| Ok(Box::new(run)),
    ..drawing::BASE
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let kernel = call.number(arg!("kernel_size"))?.clamp(1.0, 512.0);
    let padding = call.number(arg!("padding"))?;
    let detections = Arc::clone(call.detections(arg!("predictions"))?);
    drawing::put(call, move |canvas: &mut Canvas<'_>| {
        for d in &detections.boxes {
            // A Gaussian of this width blurs as much as a mean over the kernel.
            let sigma = ((kernel * kernel - 1.0) / 12.0).sqrt().max(0.3) as f32;
            canvas.change(&d.bbox.grown(padding, padding), |part| {
                imageops::fast_blur(part, sigma)
            });
        }
    })
}
