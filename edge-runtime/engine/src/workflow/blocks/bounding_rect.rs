//! Fits rotated rectangles to masks.

use serde_json::json;
use watchkeeper_vision::outline::{around, min_area_rect};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/bounding_rect@v1",
    summary: "Fits the smallest rotated rectangle to each mask.",
    properties: &[
        Property::data("predictions", &[Kind::InstanceSegmentation]).about("detections with masks")
    ],
    outputs: &[Output::new(
        "detections_with_rect",
        &[Kind::InstanceSegmentation],
    )],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("predictions"))?;
    let mut out = Detections::clone(all);
    for d in &mut out.boxes {
        let mask = d
            .mask()
            .ok_or("the detections have no masks; use those of a segmentation model")?;
        let outline = mask.bitmap(all.size).longest_outline();
        let Some(r) = outline.and_then(|o| min_area_rect(&o)) else {
            return Err("a mask is empty".to_owned());
        };
        let corners = r.corners().map(|p| Point::new(p.x.trunc(), p.y.trunc()));
        let whole = |n: f64| if n == 0.0 { 0.0 } else { n };
        let rect: Vec<[f64; 2]> = corners.iter().map(|p| [whole(p.x), whole(p.y)]).collect();
        d.bbox = around(&corners);
        d.set_mask(Bitmap::fill(&corners, all.size));
        d.set_data("rect", json!(rect));
        d.set_data("width", r.width);
        d.set_data("height", r.height);
        d.set_data("angle", r.angle);
    }
    call.finish(out)
}
