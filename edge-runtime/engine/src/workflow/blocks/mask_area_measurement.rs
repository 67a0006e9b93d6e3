//! Measures the area of detections.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/mask_area_measurement@v1",
    summary: "Measures the area of detections in pixels and in square units, by the mask if there \
              is one.",
    properties: &[
        Property::data("predictions", BOXES).about("the detections"),
        Property::number("pixels_per_unit", 1.0).about("pixels per unit of length"),
    ],
    outputs: &[Output::new("predictions", BOXES)],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("predictions"))?;
    let scale = call.number(arg!("pixels_per_unit"))?;
    let scale = if scale > 0.0 { scale * scale } else { 1.0 };
    let mut out = Detections::clone(all);
    for d in &mut out.boxes {
        let pixels = d.mask().map_or(0, |m| m.area(all.size));
        let area = if pixels > 0 {
            pixels as f64
        } else {
            d.bbox.width() * d.bbox.height()
        };
        d.set_data("area_px", area);
        d.set_data("area_converted", area / scale);
    }
    call.finish(out)
}
