//! Similarity of a box and a track: overlap, size, score and class in one number.
//!
//! - Boxes are buffered before the overlap, so that small and fast objects overlap again (Yang et
//!   al., "Hard to Track Objects with Irregular Motions and Similar Appearances? Make It Easier by
//!   Buffering the Matching Space", WACV 2023).
//! - Overlap is weighted with the score, as in `ByteTrack`'s first round; this makes a second round
//!   for poor boxes needless.
//! - The result is `0.0..=1.0`, or NaN for invalid values; 1 only for an equal box with full score.

use crate::geometry::BBox;

/// Buffer on each side, in widths and heights.
const BUFFER: f64 = 0.1;
/// Factor for a box of another class. Detectors confuse vans and trucks, and a rider covers the
/// bicycle.
const OTHER_CLASS: f64 = 0.5;

/// A box prepared for many comparisons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Compared {
    /// With the buffer.
    grown: BBox,
    class_id: i64,
    /// Score, `0.0..=1.0`; 1 for a track.
    weight: f64,
}

impl Compared {
    pub(super) fn new(bbox: &BBox, class_id: i64) -> Self {
        Self {
            grown: grown(bbox, BUFFER),
            class_id,
            weight: 1.0,
        }
    }

    /// The score, `0.0..=1.0`.
    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    /// Sets the score, `0.0..=1.0`.
    pub(super) fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// Similarity of `seen` and this track.
    pub(super) fn likeness(&self, seen: &Self) -> f64 {
        let overlap = self.grown.iou(&seen.grown);
        if overlap <= 0.0 {
            return 0.0;
        }
        // The buffer scales both alike, which preserves ratios.
        let size = ratio(self.grown.width(), seen.grown.width())
            * ratio(self.grown.height(), seen.grown.height());
        let class = if self.class_id == seen.class_id {
            1.0
        } else {
            OTHER_CLASS
        };
        // Fourth root: a box of half the height counts 0.84.
        overlap * size.sqrt().sqrt() * seen.weight * class
    }
}

/// Extends `bbox` by `by` times its width and height on each side.
pub(super) fn grown(bbox: &BBox, by: f64) -> BBox {
    let (w, h) = (by * bbox.width(), by * bbox.height());
    BBox::new(bbox.x1 - w, bbox.y1 - h, bbox.x2 + w, bbox.y2 + h)
}

/// Ratio of the smaller to the larger.
fn ratio(a: f64, b: f64) -> f64 {
    a.min(b) / a.max(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(x: f64, w: f64, h: f64) -> BBox {
        BBox::new(x, 0.0, x + w, h)
    }

    fn likeness(a: &BBox, b: &BBox) -> f64 {
        Compared::new(a, 0).likeness(&Compared::new(b, 0))
    }

    #[test]
    fn the_same_box_fits_best_and_its_score_counts() {
        let a = boxed(0.0, 40.0, 80.0);
        assert!((likeness(&a, &a) - 1.0).abs() < 1e-12);
        let c = Compared::new(&a, 0);
        assert!((c.likeness(&c.weighing(0.5)) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn boxes_that_just_miss_each_other_are_still_alike() {
        let (a, b) = (boxed(0.0, 40.0, 80.0), boxed(43.0, 40.0, 80.0));
        assert!(a.iou(&b) <= 0.0 && likeness(&a, &b) > 0.0);
        assert!(likeness(&a, &boxed(60.0, 40.0, 80.0)) <= 0.0);
    }

    #[test]
    fn of_two_boxes_with_the_same_overlap_the_one_of_the_same_size_fits_better() {
        let a = boxed(0.0, 40.0, 80.0);
        // Both overlap by one half.
        let (moved, smaller) = (boxed(0.0, 40.0, 80.0), boxed(0.0, 20.0, 80.0));
        let moved = BBox::new(moved.x1 + 16.0, moved.y1, moved.x2 + 16.0, moved.y2);
        let (o, p) = (grown(&a, BUFFER).iou(&grown(&moved, BUFFER)), 0.5);
        assert!((o - p).abs() < 1e-9, "{o}");
        assert!(likeness(&a, &moved) > likeness(&a, &smaller));
    }

    #[test]
    fn another_class_at_the_same_place_fits_worse_but_fits() {
        let a = boxed(0.0, 40.0, 80.0);
        let other = Compared::new(&a, 1).likeness(&Compared::new(&a, 0));
        assert!(other > 0.2 && other < 1.0);
    }
}
