//! Moves detections of tiles back into their picture.

use watchkeeper_vision::detections::Place;

use crate::workflow::block_api::prelude::*;

type Merge = fn(Detections, f64) -> Detections;

const STRATEGIES: [(&str, Merge); 3] = [("none", |all, _| all), ("nms", suppress), ("nmm", join)];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_stitch@v1",
    summary: "Moves detections from the crops or tiles of a picture back into it, without \
              duplicates.",
    properties: &[
        Property::data("reference_image", &[Kind::Image]).about("the picture that was cropped"),
        Property::data("predictions", BOXES)
            .about("what was found in each part")
            .deeper(),
        Property::choice("overlap_filtering_strategy", &names_of(&STRATEGIES), "nms").about(
            "overlapping boxes: keep both (none), drop the weaker (nms), or merge them (nmm)",
        ),
        Property::share("iou_threshold", 0.3)
            .about("overlap above which boxes are the same object"),
    ],
    outputs: &[Output::new("predictions", BOXES)],
    depth: Depth::Reference("reference_image"),
    build: |_| Ok(Box::new(run)),
    keeps_classes: true,
    ..Manifest::of("fusion")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("reference_image"))?;
    let threshold = call.number(arg!("iou_threshold"))?;
    let merge = call.choice(arg!("overlap_filtering_strategy"), &STRATEGIES)?;
    let mut whole = Detections::none([0, 0]);
    for part in call.arg(arg!("predictions")).as_list().unwrap_or_default() {
        let Value::Detections(part) = part else {
            return Err(format!("detections expected, got {}", part.what()));
        };
        for d in &part.boxes {
            whole.size = image.size();
            whole.boxes.push(put_back(d, image)?);
        }
    }
    call.finish(merge(whole, threshold))
}

/// Returns a box of a part in the coordinates of the picture.
fn put_back(d: &Detection, image: &ImageValue) -> Result<Detection, String> {
    let place = d.place().ok_or("a detection has no position of its crop")?;
    let mut moved = d.moved(place.parent.offset, place.parent.size);
    let extra = moved.extra_mut();
    extra.parent_id = (&*image.id != "image").then(|| Arc::clone(&image.id));
    extra.place = image.place.as_deref().map(|p| Arc::new(Place::clone(p)));
    Ok(moved)
}

/// Drops each box that overlaps a stronger one of its class; of equally strong ones the later is
/// stronger.
fn suppress(all: Detections, threshold: f64) -> Detections {
    let mut order: Vec<usize> = (0..all.boxes.len()).rev().collect();
    let score = |i: &usize| all.boxes.get(*i).map_or(0.0, |d| d.confidence);
    order.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let mut kept: Vec<usize> = Vec::new();
    for i in order {
        let Some(d) = all.boxes.get(i) else { continue };
        let doubles = |k: &usize| {
            all.boxes
                .get(*k)
                .is_some_and(|k| k.class_id == d.class_id && k.bbox.iou(&d.bbox) > threshold)
        };
        if !kept.iter().any(doubles) {
            kept.push(i);
        }
    }
    // In their original order.
    kept.sort_unstable();
    all.pick(kept)
}

/// Merges the boxes of a class that overlap the strongest one, class by class; of equally strong
/// ones the later is stronger. Scores are averaged, weighted by area.
fn join(all: Detections, threshold: f64) -> Detections {
    let mut rest: Vec<Detection> = all.boxes.into_iter().rev().collect();
    rest.sort_by(|a, b| {
        let by_class = a.class_id.cmp(&b.class_id);
        by_class.then(b.confidence.total_cmp(&a.confidence))
    });
    let mut out = Vec::new();
    while !rest.is_empty() {
        let mut d = rest.remove(0);
        let (strongest, class) = (d.bbox, d.class_id);
        let covers =
            |other: &Detection| other.class_id == class && other.bbox.iou(&strongest) >= threshold;
        let (joined, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(covers);
        rest = others;
        let (mut area, mut weighed) = (strongest.area(), strongest.area() * d.confidence);
        for other in &joined {
            d.bbox = d.bbox.union(&other.bbox);
            area += other.bbox.area();
            weighed += other.bbox.area() * other.confidence;
        }
        if !joined.is_empty() && area > 0.0 {
            d.confidence = weighed / area;
        }
        out.push(d);
    }
    Detections {
        boxes: out,
        size: all.size,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::boxes;
    use super::{Detections, Value, join, suppress};

    fn two() -> Detections {
        let at = |x: f64, confidence: f64| json!({"x": x, "y": 10.0, "width": 10.0, "height": 10.0, "confidence": confidence});
        match boxes([100, 100], &[at(10.0, 0.5), at(12.0, 0.9), at(60.0, 0.4)]) {
            Value::Detections(all) => Detections::clone(&all),
            other => panic!("{other:?}"),
        }
    }

    fn centres(all: &Detections) -> Json {
        all.boxes.iter().map(|d| json!(d.bbox.center().x)).collect()
    }

    #[test]
    fn of_two_overlapping_boxes_the_stronger_stays() {
        assert_eq!(centres(&suppress(two(), 0.3)), json!([12.0, 60.0]));
        assert_eq!(centres(&suppress(two(), 0.9)), json!([10.0, 12.0, 60.0]));
    }

    #[test]
    fn overlapping_boxes_are_merged() {
        let all = join(two(), 0.3);
        assert_eq!(centres(&all), json!([11.0, 60.0]));
        assert!((all.boxes[0].bbox.width() - 12.0).abs() < 1e-9);
        // Both have one size.
        assert!((all.boxes[0].confidence - 0.7).abs() < 1e-9);
    }

    #[test]
    fn box_is_compared_with_the_strongest_not_the_merged_one() {
        let at = |x: f64, confidence: f64| json!({"x": x, "y": 10.0, "width": 10.0, "height": 10.0, "confidence": confidence});
        let Value::Detections(row) =
            boxes([100, 100], &[at(10.0, 0.9), at(14.0, 0.8), at(18.0, 0.7)])
        else {
            panic!("no detections");
        };
        assert_eq!(
            centres(&join(Detections::clone(&row), 0.3)),
            json!([12.0, 18.0])
        );
    }

    #[test]
    fn of_equally_strong_boxes_the_last_stays() {
        let at =
            |x: f64| json!({"x": x, "y": 10.0, "width": 10.0, "height": 10.0, "confidence": 0.5});
        let Value::Detections(two) = boxes([100, 100], &[at(10.0), at(12.0)]) else {
            panic!("no detections");
        };
        assert_eq!(
            centres(&suppress(Detections::clone(&two), 0.3)),
            json!([12.0])
        );
    }
}
