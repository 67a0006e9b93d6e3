//! Keeps boxes that overlap a box of a class.

use watchkeeper_vision::set_order::Union;

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/overlap@v1",
    summary: "Keeps boxes that overlap a box of a class, such as people on a bicycle.",
    properties: &[
        Property::data("predictions", BOXES).about("the boxes"),
        Property::literal_one_of("overlap_type", &["Center Overlap", "Any Overlap"])
            .about("whether the centre must lie in the other box, or any part of it"),
        Property::literal("overlap_class_name", Shape::Text)
            .about("the class of the boxes to overlap, which are not kept themselves"),
    ],
    outputs: &[Output::new("overlaps", &[Kind::ObjectDetection])],
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("analytics")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let all = call.detections(arg!("predictions"))?;
    let class = call.text(arg!("overlap_class_name"))?;
    let by_center = call.text(arg!("overlap_type"))? == "Center Overlap";
    let (inner, mut others): (Vec<_>, Vec<_>) = all
        .boxes
        .iter()
        .enumerate()
        .partition(|(_, d)| &*d.class == class);
    // The peer's order, that of its set.
    let mut kept = Union::default();
    for (_, d) in inner {
        if others.is_empty() {
            break;
        }
        let (over, apart): (Vec<(usize, &Detection)>, _) = others
            .into_iter()
            .partition(|(_, other)| overlaps(&d.bbox, &other.bbox, by_center));
        others = apart;
        kept.add(over.into_iter().map(|(i, _)| i));
    }
    call.finish(all.pick(kept.iter()))
}

/// Returns whether a box overlaps another one: with its centre, or with any part of it.
fn overlaps(b: &BBox, other: &BBox, by_center: bool) -> bool {
    if by_center {
        let c = other.center();
        c.x > b.x1 && c.x < b.x2 && c.y > b.y1 && c.y < b.y2
    } else {
        !(other.x2 < b.x1 || other.x1 > b.x2 || other.y2 < b.y1 || other.y1 > b.y2)
    }
}
