//! Moves detections of crops back into the original picture.

use watchkeeper_vision::detections::Keypoint;
use watchkeeper_vision::mask::Mask;
use watchkeeper_vision::numbers::mean;

use super::detections_consensus::Mode;
use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/detections_list_rollup@v1",
    summary: "Moves detections found in crops back into the original picture, and merges \
              overlapping ones of one class.",
    properties: &[
        Property::data("parent_detection", DETECTIONS).about("the detections that were cropped"),
        Property::data("child_detections", &[Kind::ListOfValues])
            .about("detections found in each crop, as a list in the same order"),
        Property::value_or(
            "confidence_strategy",
            Shape::Choice(&names_of(&SCORES)),
            Or::Text("max"),
        )
        .about("score of merged detections")
        .kinds(&[Kind::ListOfValues]),
        Property::share("overlap_threshold", 0.0)
            .about("overlap from which two are merged; 0 merges all that touch"),
        Property::value_or("keypoint_merge_threshold", NOT_NEGATIVE, Or::Float(10.0))
            .about("mean distance in pixels below which two sets of keypoints are merged"),
    ],
    outputs: &[
        Output::new("rolled_up_detections", DETECTIONS),
        Output::new("crop_zones", &[Kind::ListOfValues]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("fusion")
}];

/// Score of merged detections.
const SCORES: [(&str, Mode); 3] = [
    ("max", Mode::Max),
    ("mean", Mode::Average),
    ("min", Mode::Min),
];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let parents = call.detections(arg!("parent_detection"))?;
    let children = call
        .arg(arg!("child_detections"))
        .as_list()
        .ok_or("child_detections has to be a list")?;
    if parents.boxes.len() != children.len() {
        return Err(format!(
            "there are {} crops but detections of {}; give a list with those of every crop",
            parents.boxes.len(),
            children.len()
        ));
    }
    let score = call.choice(arg!("confidence_strategy"), &SCORES)?;
    let threshold = call.number(arg!("overlap_threshold"))?;
    let near = call.number(arg!("keypoint_merge_threshold"))?;
    let root = |d: &Detection| d.place().map(|p| p.root.size);
    let size = parents.boxes.first().and_then(root).unwrap_or(parents.size);
    let mut zones = Vec::new();
    let mut classes = Classes::new();
    for (parent, found) in parents.boxes.iter().zip(children) {
        zones.push(corners(&parent.bbox));
        move_back(parent, found, size, &mut classes)?;
    }
    let each = || classes.iter().flat_map(|(_, list)| list);
    let has_masks = each().any(|d| d.mask().is_some());
    let has_keypoints = each().any(|d| d.keypoints().is_some());
    let mut out = Detections::none(if classes.is_empty() { [0, 0] } else { size });
    for (_, list) in classes {
        let joined = if has_keypoints {
            join_keypoints(list, near, score)
        } else if has_masks {
            join_masks(list, threshold, score, size)
        } else {
            join_boxes(list, threshold, score)
        };
        for mut d in joined {
            d.id = call.new_id();
            out.boxes.push(d);
        }
    }
    call.finish_all((out, zones))
}

/// Detections by class id, in the order of the first occurrence of the classes.
type Classes = Vec<(i64, Vec<Detection>)>;

/// The corners of a box as a zone.
fn corners(b: &BBox) -> Value {
    let corner = |p: Point| Value::list([p.x, p.y].map(Value::Float).to_vec());
    Value::list(b.corners().map(corner).to_vec())
}

/// Moves the detections of a crop into the picture of size `size`.
fn move_back(
    parent: &Detection,
    found: &Value,
    size: [u32; 2],
    classes: &mut Classes,
) -> Result<(), String> {
    let Value::Detections(found) = found else {
        return Err(format!(
            "child_detections contains {} instead of detections",
            found.what()
        ));
    };
    let offset = [parent.bbox.x1 as i64, parent.bbox.y1 as i64];
    for d in &found.boxes {
        let mut moved = d.moved(offset, size);
        if let Some(mask) = d.mask() {
            // In a crop an outline ends at the edge.
            let cut = Mask::Bitmap(mask.bitmap(found.size)).moved(offset, size);
            moved.extra_mut().mask = Some(Arc::new(cut));
        }
        let extra = moved.extra_mut();
        (extra.place, extra.parent_id) = (None, None);
        match classes.iter_mut().find(|(class, _)| *class == d.class_id) {
            Some((_, list)) => list.push(moved),
            None => classes.push((d.class_id, vec![moved])),
        }
    }
    Ok(())
}

/// Groups whose members touch at least one other, in the order of their first member.
fn groups(list: Vec<Detection>, touch: impl Fn(usize, usize) -> bool) -> Vec<Vec<Detection>> {
    let mut group: Vec<usize> = (0..list.len()).collect();
    for i in 0..list.len() {
        for j in i + 1..list.len() {
            let (a, b) = (group[i], group[j]);
            if a != b && touch(i, j) {
                let (keep, gone) = (a.min(b), a.max(b));
                group
                    .iter_mut()
                    .filter(|g| **g == gone)
                    .for_each(|g| *g = keep);
            }
        }
    }
    let mut out: Vec<(usize, Vec<Detection>)> = Vec::new();
    for (d, group) in list.into_iter().zip(group) {
        match out.iter_mut().find(|(g, _)| *g == group) {
            Some((_, members)) => members.push(d),
            None => out.push((group, vec![d])),
        }
    }
    out.into_iter().map(|(_, members)| members).collect()
}

/// The first of a group, with the score of all.
fn head(group: &[Detection], score: Mode) -> Option<Detection> {
    let scores: Vec<f64> = group.iter().map(|d| d.confidence).collect();
    let mut d = group.first()?.clone();
    d.confidence = score.of(&scores);
    Some(d)
}

/// Returns whether an overlap suffices: any does for a threshold of 0.
fn is_enough(overlap: f64, threshold: f64) -> bool {
    overlap > 0.0 && overlap >= threshold
}

fn join_boxes(list: Vec<Detection>, threshold: f64, score: Mode) -> Vec<Detection> {
    let boxes: Vec<BBox> = list.iter().map(|d| d.bbox).collect();
    let touch = |i: usize, j: usize| is_enough(boxes[i].iou(&boxes[j]), threshold);
    let joined = groups(list, touch).into_iter().filter_map(|group| {
        let mut d = head(&group, score)?;
        for other in &group {
            d.bbox = d.bbox.union(&other.bbox);
        }
        Some(d)
    });
    joined.collect()
}

fn join_masks(list: Vec<Detection>, threshold: f64, score: Mode, size: [u32; 2]) -> Vec<Detection> {
    let masks: Vec<Bitmap> = list
        .iter()
        .map(|d| {
            d.mask()
                .map_or_else(|| Bitmap::empty(size), |m| m.bitmap(size))
        })
        .collect();
    let boxes: Vec<BBox> = list.iter().map(|d| d.bbox).collect();
    let touch = |i: usize, j: usize| {
        if boxes[i].iou(&boxes[j]) <= 0.0 {
            return false;
        }
        let (common, all) = masks[i].common(&masks[j]);
        let overlap = common as f64 / all.max(1) as f64;
        is_enough(overlap, threshold)
    };
    let joined = groups(list, touch).into_iter().filter_map(|group| {
        let mut d = head(&group, score)?;
        let each = group.iter().filter_map(|d| d.mask());
        let mask = each.map(|m| m.bitmap(size)).reduce(|a, b| a.union(&b))?;
        let b = mask.bbox()?;
        d.bbox = BBox::new(b.x1, b.y1, b.x2 + 1.0, b.y2 + 1.0);
        d.set_mask(mask);
        Some(d)
    });
    joined.collect()
}

/// Merges those whose keypoints are near to the first of a group; the others come last.
fn join_keypoints(list: Vec<Detection>, near: f64, score: Mode) -> Vec<Detection> {
    let (mut with, without): (Vec<_>, Vec<_>) =
        list.into_iter().partition(|d| d.keypoints().is_some());
    let mut out = Vec::new();
    while !with.is_empty() {
        let first = with.remove(0);
        let points = first.keypoints().unwrap_or_default().to_vec();
        let is_near = |d: &Detection| {
            let others = d.keypoints().unwrap_or_default();
            let pairs = points.iter().zip(others);
            let distance = mean(pairs.map(|(a, b)| (a.at.x - b.at.x).hypot(a.at.y - b.at.y)));
            others.len() == points.len() && distance < near
        };
        let (near, rest): (Vec<_>, Vec<_>) = with.into_iter().partition(is_near);
        with = rest;
        let group: Vec<Detection> = std::iter::once(first).chain(near).collect();
        let Some(mut d) = head(&group, score) else {
            continue;
        };
        let side = |f: fn(&BBox) -> f64| mean(group.iter().map(|d| f(&d.bbox)));
        d.bbox = BBox::new(
            side(|b| b.x1),
            side(|b| b.y1),
            side(|b| b.x2),
            side(|b| b.y2),
        );
        let joined = points.iter().enumerate().map(|(i, point)| {
            let of = |f: fn(&Keypoint) -> f64| {
                mean(group.iter().filter_map(|d| d.keypoints()?.get(i)).map(f))
            };
            Keypoint {
                at: Point::new(of(|p| p.at.x), of(|p| p.at.y)),
                confidence: of(|p| p.confidence),
                ..point.clone()
            }
        });
        d.extra_mut().keypoints = Some(joined.collect());
        out.push(d);
    }
    out.extend(without);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes};
    use super::{Kind, Value};

    fn rolled(parents: &[Json], children: Vec<Value>, more: &Json) -> Result<Json, String> {
        let mut step = json!({
            "type": "roboflow_core/detections_list_rollup@v1", "parent_detection": "$inputs.parents",
            "child_detections": "$inputs.children"
        });
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        let kinds = [
            ("parents", Kind::ObjectDetection),
            ("children", Kind::ListOfValues),
        ];
        let inputs = [
            ("parents", boxes([200, 100], parents)),
            ("children", Value::list(children)),
        ];
        Bench::new(step, &kinds).feed(&inputs)
    }

    fn row(x: f64, y: f64, side: f64, confidence: f64) -> Json {
        json!({"x": x, "y": y, "width": side, "height": side, "confidence": confidence})
    }

    /// Centre, width and score of every box.
    fn places(out: &Json) -> Vec<[f64; 4]> {
        let rows = out["rolled_up_detections"]["predictions"]
            .as_array()
            .unwrap();
        let number = |row: &Json, key: &str| row[key].as_f64().unwrap();
        rows.iter()
            .map(|r| ["x", "y", "width", "confidence"].map(|key| number(r, key)))
            .collect()
    }

    #[test]
    fn boxes_move_back_and_merge_where_they_touch() {
        let parents = [row(30.0, 30.0, 40.0, 0.9), row(60.0, 30.0, 40.0, 0.9)];
        // The first crop begins at (10, 10), the second at (40, 10).
        let children = vec![
            boxes(
                [40, 40],
                &[row(35.0, 20.0, 10.0, 0.5), row(8.0, 8.0, 4.0, 0.4)],
            ),
            boxes([40, 40], &[row(10.0, 20.0, 10.0, 0.7)]),
        ];
        let out = rolled(&parents, children.clone(), &json!({})).unwrap();
        assert_eq!(
            places(&out),
            [[47.5, 30.0, 15.0, 0.7], [18.0, 18.0, 4.0, 0.4]]
        );
        assert_eq!(out["crop_zones"][1][2], json!([80.0, 50.0]));
        let apart = json!({"overlap_threshold": 0.9});
        assert_eq!(
            places(&rolled(&parents, children, &apart).unwrap()).len(),
            3
        );
    }

    #[test]
    fn scores_are_merged_by_the_strategy() {
        let parents = [row(30.0, 30.0, 40.0, 0.9)];
        let both = || {
            vec![boxes(
                [40, 40],
                &[row(10.0, 10.0, 8.0, 0.2), row(12.0, 10.0, 8.0, 0.6)],
            )]
        };
        for (strategy, wanted) in [("max", 0.6), ("min", 0.2), ("mean", 0.4)] {
            let out = rolled(&parents, both(), &json!({"confidence_strategy": strategy})).unwrap();
            assert!(
                (places(&out)[0][3] - wanted).abs() < 1e-9,
                "{strategy}: {out}"
            );
        }
    }

    #[test]
    fn every_crop_needs_its_detections() {
        let why = rolled(&[row(30.0, 30.0, 40.0, 0.9)], Vec::new(), &json!({})).unwrap_err();
        assert!(why.contains("1 crops but detections of 0"), "{why}");
    }
}
