//! Measures which detections cover which others.

use watchkeeper_vision::geometry::{intersection_area, polygon_area};

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/overlap_analysis@v1",
    summary: "Measures which detections cover which others, and the covered share.",
    properties: &[
        Property::data("reference_predictions", BOXES).about("the detections that are covered"),
        Property::data("candidate_predictions", BOXES).about("the detections that cover them"),
        Property::share("min_overlap", 0.1).about("minimum covered share to report"),
    ],
    outputs: &[Output::new("overlaps", &[Kind::DetectionsOverlaps])],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("fusion")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let covered = call.detections(arg!("reference_predictions"))?;
    let covering = call.detections(arg!("candidate_predictions"))?;
    let least = call.number(arg!("min_overlap"))?;
    let outlines: Vec<Vec<Point>> = covering.boxes.iter().map(outline).collect();
    let mut overlaps = Vec::new();
    for a in &covered.boxes {
        let around = outline(a);
        let area = polygon_area(&around);
        if area <= 0.0 {
            continue;
        }
        for (b, other) in covering.boxes.iter().zip(&outlines) {
            if a.bbox.iou(&b.bbox) <= 0.0 {
                continue;
            }
            let share = intersection_area(&around, other) / area;
            if share >= least {
                overlaps.push(Value::dict([
                    ("reference_class", a.class.clone().into()),
                    ("reference_confidence", a.confidence.into()),
                    ("reference_detection_id", detection_id(&a.id).into()),
                    ("candidate_class", b.class.clone().into()),
                    ("candidate_confidence", b.confidence.into()),
                    ("candidate_detection_id", detection_id(&b.id).into()),
                    ("overlap_ratio", share.into()),
                ]));
            }
        }
    }
    call.finish(overlaps)
}

/// The outline of the mask, or the corners of the box.
fn outline(d: &Detection) -> Vec<Point> {
    let mask = d.mask().and_then(|m| m.polygon()).filter(|p| p.len() >= 3);
    mask.unwrap_or_else(|| d.bbox.corners().to_vec())
}
