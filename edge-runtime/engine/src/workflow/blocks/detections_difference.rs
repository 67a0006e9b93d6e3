//! Compares two sets of detections.

use std::collections::BTreeSet;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_difference@v1",
    summary: "Compares the detections of two pictures of one view: which are gone, which stayed \
              and which are new.",
    properties: &[
        Property::data("reference_predictions", &[Kind::ObjectDetection])
            .about("the earlier detections"),
        Property::data("candidate_predictions", &[Kind::ObjectDetection])
            .about("the later detections"),
        Property::share("spatial_weight", 0.4).about("weight of the distance"),
        Property::value_or("class_mismatch_penalty", NOT_NEGATIVE, Or::Float(0.15))
            .about("weight of a different class"),
        Property::value_or("reject_cost", NOT_NEGATIVE, Or::Float(0.75))
            .about("cost above which two boxes are not the same object"),
        Property::boolean("class_strict", false)
            .about("whether two boxes of different classes are never the same object"),
        Property::count("min_removed_to_verify", 1)
            .about("how many must be gone for the result to count"),
    ],
    outputs: &[
        Output::new("removed_detections", &[Kind::ObjectDetection]),
        Output::new("persisted_detections", &[Kind::ObjectDetection]),
        Output::new("new_detections", &[Kind::ObjectDetection]),
        Output::new("removed_count", &[Kind::Integer]),
        Output::new("new_count", &[Kind::Integer]),
        Output::new("verified", &[Kind::Boolean]),
    ],
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("fusion")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let before = call.detections(arg!("reference_predictions"))?;
    let after = call.detections(arg!("candidate_predictions"))?;
    let weight = call.number(arg!("spatial_weight"))?;
    let penalty = call.number(arg!("class_mismatch_penalty"))?;
    let strict = call.boolean(arg!("class_strict"))?;
    let reject = call.number(arg!("reject_cost"))?;
    let mut pairs = Vec::new();
    for (i, a) in before.boxes.iter().enumerate() {
        for (j, b) in after.boxes.iter().enumerate() {
            let differ = a.class != b.class;
            if differ && strict {
                continue;
            }
            let cost = weight * distance(&a.bbox, &b.bbox) + if differ { penalty } else { 0.0 };
            if cost <= reject {
                pairs.push((cost, i, j));
            }
        }
    }
    // The cheapest pair first; of equal ones, the first.
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut gone: BTreeSet<usize> = (0..before.boxes.len()).collect();
    let mut new: BTreeSet<usize> = (0..after.boxes.len()).collect();
    for (_, i, j) in pairs {
        if gone.contains(&i) && new.contains(&j) {
            gone.remove(&i);
            new.remove(&j);
        }
    }
    let stayed = (0..after.boxes.len()).filter(|j| !new.contains(j));
    let some = |all: &Detections, which: Vec<usize>| {
        let mut some = all.pick(which);
        if some.boxes.is_empty() {
            some.size = [0, 0];
        }
        some
    };
    call.put(1, some(after, stayed.collect()));
    call.put(3, gone.len());
    call.put(4, new.len());
    call.put(
        5,
        !before.boxes.is_empty()
            && i64::try_from(gone.len()).unwrap_or(i64::MAX)
                >= call.integer(arg!("min_removed_to_verify"))?,
    );
    call.put(0, some(before, gone.into_iter().collect()));
    call.put(2, some(after, new.into_iter().collect()));
    Ok(())
}

/// 0 for the same box, up to 1 for touching boxes, up to 2 for distant ones.
fn distance(a: &BBox, b: &BBox) -> f64 {
    let overlap = a.iou(b);
    if overlap > 0.0 {
        return 1.0 - overlap;
    }
    let (from, to) = (a.center(), b.center());
    let width = a.x2.max(b.x2) - a.x1.min(b.x1);
    let height = a.y2.max(b.y2) - a.y1.min(b.y1);
    let diagonal = width.hypot(height);
    if diagonal > 0.0 {
        1.0 + (from.x - to.x).hypot(from.y - to.y) / diagonal
    } else {
        1.0
    }
}
