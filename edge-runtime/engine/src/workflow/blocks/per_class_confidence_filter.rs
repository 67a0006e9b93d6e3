//! Filters detections by a minimum score per class.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/per_class_confidence_filter@v1",
    summary: "Keeps detections with the minimum score of their class.",
    properties: &[
        Property::data("predictions", DETECTIONS).about("the detections"),
        Property::value("class_thresholds", Shape::Dict)
            .about("minimum score of each class")
            .kinds(&[Kind::Dictionary]),
        Property::fraction("default_threshold", 0.3).about("minimum score of all other classes"),
    ],
    outputs: &[Output::new("predictions", DETECTIONS)],
    batch: &["predictions"],
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("transformation")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("predictions"))?;
    let default = call.number(arg!("default_threshold"))?;
    let Value::Dict(thresholds) = call.arg(arg!("class_thresholds")) else {
        return Err("class_thresholds has to be a dictionary".to_owned());
    };
    let least = |class: &str| match thresholds.get(class) {
        None => Ok(default),
        Some(Value::Text(text)) => text
            .trim()
            .parse()
            .map_err(|_| format!("{text:?} is not a threshold")),
        Some(value) => value
            .as_f64()
            .ok_or_else(|| format!("the threshold of {class} is not a number")),
    };
    let mut kept = Vec::new();
    for (i, d) in all.boxes.iter().enumerate() {
        if d.confidence >= least(&d.class)? {
            kept.push(i);
        }
    }
    call.finish(all.pick(kept))
}
