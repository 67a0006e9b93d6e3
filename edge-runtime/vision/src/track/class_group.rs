//! Classes that detectors exchange for one object.
//!
//! - Classes of a group are one class to our tracker. Two boxes of different classes of a group
//!   that overlap are one object: the better one is followed, with the joined score. Suppression
//!   within one class is the detector's.
//! - Groups use the names of COCO, Open Images and `@mediapipe/objectron`; each other class is its
//!   own group.

use serde::{Deserialize, Serialize};

use crate::detections::Detection;

const VEHICLES: [&str; 5] = ["car", "truck", "bus", "van", "vehicle"];
/// Stands for the class of all vehicles.
const VEHICLE_ID: i64 = i64::MIN;
/// Overlap above which two boxes are one object: that of YOLOX's suppression.
const MAX_OVERLAP: f64 = 0.45;

/// The class id of the group of a detection, or its own.
pub(crate) fn group_id(d: &Detection) -> i64 {
    let name: &str = &d.class;
    let is_vehicle = VEHICLES.iter().any(|v| v.eq_ignore_ascii_case(name));
    if is_vehicle { VEHICLE_ID } else { d.class_id }
}

/// What no detector confuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Person,
    Vehicle,
    #[default]
    Other,
}

impl Kind {
    pub(crate) fn of(d: &Detection) -> Self {
        let is = |name: &str| name.eq_ignore_ascii_case(&d.class);
        if is("person") {
            Self::Person
        } else if VEHICLES.into_iter().any(is) {
            Self::Vehicle
        } else {
            Self::Other
        }
    }

    /// Whether one object may be of both kinds under two tracks.
    pub(crate) fn may_be(self, other: Self) -> bool {
        self == other || self == Self::Other || other == Self::Other
    }
}

/// Whether these boxes have vehicles of more than one class.
pub(super) fn has_mixed_group(boxes: &[Detection]) -> bool {
    let mut ids = boxes
        .iter()
        .filter(|d| group_id(d) == VEHICLE_ID)
        .map(|d| d.class_id);
    let first = ids.next();
    ids.any(|id| Some(id) != first)
}

/// Whether a better box of another class of its group covers the box at `index`, itself covered or
/// not.
pub(super) fn is_covered(boxes: &[Detection], index: usize) -> bool {
    let Some(d) = boxes.get(index).filter(|d| group_id(d) == VEHICLE_ID) else {
        return false;
    };
    boxes.iter().enumerate().any(|(i, other)| {
        let is_better = (other.confidence, index) > (d.confidence, i);
        is_better && is_other_class_of(d, other)
    })
}

/// Score that one of the classes of this vehicle is right, as if they were independent. A network
/// that is unsure of the class splits the score of one object among boxes of several.
pub(super) fn group_score(boxes: &[Detection], d: &Detection) -> f64 {
    if group_id(d) != VEHICLE_ID {
        return d.confidence;
    }
    // Of two boxes of one class, one is another object.
    let best = |class: &&str| {
        let others = boxes
            .iter()
            .filter(|other| other.class.eq_ignore_ascii_case(class) && is_other_class_of(d, other));
        let scores = others.map(|other| other.confidence);
        scores.filter(|s| s.is_finite()).fold(0.0, f64::max)
    };
    let miss: f64 = VEHICLES.iter().map(|class| 1.0 - best(class)).product();
    1.0 - (1.0 - d.confidence) * miss
}

/// Whether two boxes are one vehicle in two classes.
fn is_other_class_of(d: &Detection, other: &Detection) -> bool {
    other.class_id != d.class_id
        && group_id(other) == VEHICLE_ID
        && other.bbox.iou(&d.bbox) > MAX_OVERLAP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::DetectionId;
    use crate::geometry::BBox;

    fn found(class_id: i64, class: &str, x: f64, confidence: f64) -> Detection {
        let id = DetectionId::Local {
            stream: 0,
            number: 0,
        };
        let bbox = BBox::new(x, 0.0, x + 100.0, 50.0);
        Detection::new(bbox, confidence, class_id, class, id)
    }

    fn covered(boxes: &[Detection]) -> Vec<bool> {
        (0..boxes.len()).map(|i| is_covered(boxes, i)).collect()
    }

    #[test]
    fn truck_that_is_also_a_car_is_one_vehicle() {
        let boxes = [found(2, "car", 0.0, 0.6), found(7, "truck", 5.0, 0.8)];
        assert!(has_mixed_group(&boxes));
        assert_eq!(covered(&boxes), [true, false]);
        let unnamed = [found(2, "car", 0.0, 0.6), found(1, "vehicle", 5.0, 0.8)];
        assert_eq!(covered(&unnamed), [true, false]);
        let equal = [found(2, "car", 0.0, 0.6), found(7, "truck", 5.0, 0.6)];
        assert_eq!(covered(&equal), [false, true], "the first of equal ones");
    }

    #[test]
    fn score_split_among_classes_of_one_vehicle_is_joined() {
        let boxes = [
            found(2, "car", 0.0, 0.3),
            found(7, "truck", 5.0, 0.4),
            found(5, "bus", 300.0, 0.6),
            found(0, "person", 0.0, 0.3),
        ];
        let scores = boxes.each_ref().map(|d| group_score(&boxes, d));
        let expected = [0.58, 0.58, 0.6, 0.3];
        assert!(
            scores
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-9),
            "{scores:?}"
        );
    }

    #[test]
    fn score_is_joined_with_the_best_box_of_each_class() {
        let boxes = [
            found(2, "car", 0.0, 0.3),
            found(7, "truck", 30.0, 0.4),
            found(2, "car", 60.0, 0.2),
            found(5, "bus", 30.0, f64::NAN),
        ];
        let score = group_score(&boxes, &boxes[1]);
        assert!((score - 0.58).abs() < 1e-9, "{score}");
    }

    #[test]
    fn vehicles_side_by_side_and_people_before_them_stay() {
        let boxes = [
            found(2, "car", 0.0, 0.6),
            found(7, "truck", 80.0, 0.8),
            found(0, "person", 5.0, 0.3),
        ];
        assert_eq!(covered(&boxes), [false; 3]);
    }

    #[test]
    fn class_outside_of_groups_keeps_its_id() {
        assert_eq!(group_id(&found(5, "dog", 0.0, 0.5)), 5);
        assert!(!has_mixed_group(&[
            found(0, "person", 0.0, 0.5),
            found(1, "dog", 0.0, 0.5)
        ]));
    }
}
