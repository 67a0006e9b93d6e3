//! Concatenates two sets of detections.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_combine@v1",
    summary: "Concatenates two sets of detections of one picture.",
    properties: &[
        Property::data("prediction_one", BOXES).about("the first detections"),
        Property::data("prediction_two", BOXES).about("the detections that follow them"),
    ],
    outputs: &[Output::new("predictions", BOXES)],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let one = call.detections(arg!("prediction_one"))?;
    let two = call.detections(arg!("prediction_two"))?;
    let mut all = Detections::clone(one);
    all.boxes.extend(two.boxes.iter().cloned());
    if one.boxes.is_empty() {
        all.size = two.size;
    }
    call.finish(all)
}
