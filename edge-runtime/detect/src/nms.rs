//! Non-maximum suppression.
//!
//! - The result is sorted by falling score and holds unchanged boxes of the input.
//! - No two remaining boxes that may suppress each other overlap more than the threshold.
//! - Each dropped box overlaps a stronger remaining one, or came after the limit.
//! - Equal scores are ordered by class and place, so that the order of the input does not matter.

use std::cmp::Ordering;

use crate::detection::RawDetection;

/// Bound of the candidates, the strongest first; limits the cost at a threshold of 0.
pub const MAX_CANDIDATES: usize = 5000;

/// Sorts `boxes` by falling score and drops those that overlap a stronger one by more than `iou`;
/// keeps at most `limit`. Without a threshold all overlap is accepted. With `class_agnostic`, boxes
/// of different classes suppress each other too.
pub fn suppress(
    boxes: &mut Vec<RawDetection>,
    iou: Option<f32>,
    class_agnostic: bool,
    limit: usize,
) {
    boxes.sort_unstable_by(stronger_first);
    boxes.truncate(MAX_CANDIDATES);
    let Some(iou) = iou.map(f64::from) else {
        boxes.truncate(limit);
        return;
    };
    let mut kept = 0;
    for i in 0..boxes.len() {
        if kept >= limit {
            break;
        }
        let candidate = boxes[i];
        let mut stronger = boxes[..kept].iter();
        if !stronger.any(|stronger| covers(stronger, &candidate, iou, class_agnostic)) {
            boxes[kept] = candidate;
            kept += 1;
        }
    }
    boxes.truncate(kept);
}

/// Positions of the boxes, sorted before, that [`suppress`] would keep.
#[must_use]
pub fn unsuppressed(boxes: &[RawDetection], iou: f32, class_agnostic: bool) -> Vec<bool> {
    let mut kept: Vec<bool> = Vec::with_capacity(boxes.len());
    for candidate in boxes {
        let mut stronger = boxes.iter().zip(&kept).filter(|(_, kept)| **kept);
        let iou = f64::from(iou);
        kept.push(!stronger.any(|(stronger, _)| covers(stronger, candidate, iou, class_agnostic)));
    }
    kept
}

/// Whether a stronger box suppresses a weaker one.
fn covers(stronger: &RawDetection, weaker: &RawDetection, iou: f64, class_agnostic: bool) -> bool {
    (class_agnostic || stronger.class_id == weaker.class_id)
        && stronger.bbox.iou(&weaker.bbox) > iou
}

fn stronger_first(a: &RawDetection, b: &RawDetection) -> Ordering {
    b.score
        .total_cmp(&a.score)
        .then(a.class_id.cmp(&b.class_id))
        .then(a.bbox.x1.total_cmp(&b.bbox.x1))
        .then(a.bbox.y1.total_cmp(&b.bbox.y1))
        .then(a.bbox.x2.total_cmp(&b.bbox.x2))
        .then(a.bbox.y2.total_cmp(&b.bbox.y2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_vision::geometry::BBox;

    use super::*;

    fn boxes() -> impl Strategy<Value = Vec<RawDetection>> {
        let one = (
            0.0f64..50.0,
            0.0f64..50.0,
            1.0f64..40.0,
            1.0f64..40.0,
            0u8..8,
            0usize..3,
        );
        prop::collection::vec(one, 0..40).prop_map(|all| {
            all.into_iter()
                .map(|(x, y, w, h, score, class_id)| RawDetection {
                    bbox: BBox::new(x, y, x + w, y + h),
                    score: f32::from(score) / 8.0,
                    class_id,
                    column: 0,
                })
                .collect()
        })
    }

    proptest! {
            #[test]
            fn what_stays_is_apart_and_what_goes_was_covered(
                all in boxes(),
                iou in 0.0f32..1.0,
                agnostic: bool,
            ) {
                let mut kept = all.clone();
                suppress(&mut kept, Some(iou), agnostic, usize::MAX);
                let may = |a: &RawDetection, b: &RawDetection| agnostic || a.class_id == b.class_id;
                for (i, a) in kept.iter().enumerate() {
                    prop_assert!(all.contains(a));
                    for b in &kept[i + 1..] {
                        prop_assert!(a.score >= b.score);
                        prop_assert!(!may(a, b) || a.bbox.iou(&b.bbox) <= f64::from(iou));
                    }
                }
                for gone in all.iter().filter(|d| !kept.contains(d)) {
                    let covered = kept.iter().any(|k| {
    may(k, gone) && k.score >= gone.score && k.bbox.iou(&gone.bbox) > f64::from(iou)
    });
    prop_assert!(covered);
                }
            }

            #[test]
            fn order_of_the_input_does_not_matter(all in boxes(), iou in 0.0f32..1.0, limit in 0usize..10) {
                let mut forth = all.clone();
                let mut back: Vec<_> = all.into_iter().rev().collect();
                suppress(&mut forth, Some(iou), false, limit);
                suppress(&mut back, Some(iou), false, limit);
                prop_assert!(forth.len() <= limit);
                prop_assert_eq!(forth, back);
            }
        }

    #[test]
    fn nan_scores_and_boxes_are_survived() {
        let odd = RawDetection {
            bbox: BBox::new(f64::NAN, 0.0, f64::INFINITY, 1.0),
            score: f32::NAN,
            class_id: 0,
            column: 0,
        };
        let mut boxes = vec![odd; 3];
        suppress(&mut boxes, Some(0.5), true, 2);
        assert_eq!(boxes.len(), 2);
    }
}
