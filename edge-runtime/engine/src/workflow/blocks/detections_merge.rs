//! Merges all detections into one box.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_merge@v1",
    summary: "Merges all detections into one box around them, with the lowest score.",
    properties: &[
        Property::data("predictions", DETECTIONS).about("the detections"),
        Property::literal("class_name", Shape::Text)
            .about("class of the box")
            .or(Or::Text("merged_detection")),
    ],
    outputs: &[Output::new("predictions", &[Kind::ObjectDetection])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("predictions"))?;
    let class = call.text(arg!("class_name"))?;
    let mut merged = Detections::none([0, 0]);
    let around = all.boxes.iter().map(|d| d.bbox).reduce(|a, b| a.union(&b));
    if let Some(bbox) = around {
        let scores = all.boxes.iter().map(|d| d.confidence);
        let least = scores.fold(f64::INFINITY, f64::min);
        let mut whole = Detection::new(bbox, least, 0, class, call.new_id());
        whole.extra_mut().parent_id = Some(Arc::from(""));
        merged.boxes.push(whole);
    }
    call.finish(merged)
}
