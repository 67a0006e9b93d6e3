//! Detections that show one object twice.
//!
//! - Only what is drawn leaves them out, the drawn count of a zone too; results of steps and events
//!   have all detections.
//! - Of twins the one with the better score is kept; the order of the others stays.
//! - At most [`MAX_COMPARED`] detections are compared, since the work grows with their square.

use crate::detections::{Detection, Detections};
use crate::geometry::BBox;
use crate::track::class_group::group_id;

/// Overlap above which two bounding boxes are nearly equal: their outlines would run into each
/// other.
const MIN_OVERLAP: f64 = 0.85;
/// Detections that are compared; with more of them all are drawn.
const MAX_COMPARED: usize = 500;

/// The detections to draw with their indices, in their order. Left out are the second bounding box
/// of a track, and one nearly equal to a better one of its class group.
pub fn distinct(detections: &Detections) -> Vec<(usize, &Detection)> {
    let mut all: Vec<(usize, &Detection)> = detections.boxes.iter().enumerate().collect();
    if all.len() > MAX_COMPARED {
        return all;
    }
    // Stable: of equal ones the first is drawn.
    all.sort_by(|(_, a), (_, b)| b.confidence.total_cmp(&a.confidence));
    let mut kept: Vec<(usize, &Detection)> = Vec::with_capacity(all.len());
    for (i, d) in all {
        if !kept.iter().any(|(_, better)| are_twins(d, better)) {
            kept.push((i, d));
        }
    }
    kept.sort_unstable_by_key(|(i, _)| *i);
    kept
}

fn are_twins(a: &Detection, b: &Detection) -> bool {
    (a.track.is_some() && a.track == b.track)
        || (group_id(a) == group_id(b) && are_nearly_equal(&a.bbox, &b.bbox))
}

pub(super) fn are_nearly_equal(a: &BBox, b: &BBox) -> bool {
    a.iou(b) > MIN_OVERLAP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::testing::tracked;
    use proptest::prelude::*;
    use watchkeeper_contract::id::TrackId;

    fn drawn(detections: &Detections) -> Vec<usize> {
        distinct(detections).iter().map(|(i, _)| *i).collect()
    }

    fn at(x: f64) -> BBox {
        BBox::new(x, 0.0, x + 100.0, 100.0)
    }

    #[test]
    fn second_box_of_a_track_is_not_drawn() {
        let mut d = tracked(&[(1, at(0.0)), (1, at(60.0)), (2, at(200.0))]);
        d.boxes[1].confidence = 0.9;
        assert_eq!(drawn(&d), [1, 2]);
    }

    #[test]
    fn nearly_equal_box_is_not_drawn_again() {
        let d = tracked(&[(1, at(0.0)), (2, at(4.0)), (3, at(30.0))]);
        assert_eq!(drawn(&d), [0, 2]);
    }

    #[test]
    fn boxes_of_vehicles_are_one_group_and_others_are_not() {
        let mut d = tracked(&[(1, at(0.0)), (2, at(0.0)), (3, at(0.0))]);
        for (d, (id, class)) in d
            .boxes
            .iter_mut()
            .zip([(2, "car"), (7, "truck"), (0, "person")])
        {
            (d.class_id, d.class) = (id, class.into());
        }
        assert_eq!(drawn(&d), [0, 2]);
    }

    #[test]
    fn untracked_boxes_apart_are_all_drawn() {
        let mut d = tracked(&[(1, at(0.0)), (2, at(60.0))]);
        d.boxes.iter_mut().for_each(|d| d.track = None);
        assert_eq!(drawn(&d), [0, 1]);
    }

    proptest! {
        #[test]
        fn each_track_is_drawn_once(rows in proptest::collection::vec((0i64..6, 0.0..300.0, 0.0..1.0), 0..12)) {
            let boxes: Vec<(i64, BBox)> = rows.iter().map(|(t, x, _)| (*t, at(*x))).collect();
            let mut d = tracked(&boxes);
            d.boxes.iter_mut().zip(&rows).for_each(|(d, row)| d.confidence = row.2);
            let mut seen: Vec<TrackId> = distinct(&d).iter().filter_map(|(_, d)| d.track).collect();
            let count = seen.len();
            seen.sort();
            seen.dedup();
            prop_assert_eq!(seen.len(), count);
            prop_assert!(d.boxes.is_empty() || count > 0);
        }
    }
}
