//! How well a box fits a track: overlap, size, score and class in one number.
//!
//! Overlap is that of boxes that were both made a little larger, so that small and quick things touch themselves again
//! (Yang et al., "Hard to Track Objects with Irregular Motions and Similar Appearances? Make It Easier by Buffering the
//! Matching Space", WACV 2023). It is weighted with the score, as `ByteTrack` does in its first round: a box with half the
//! score has to fit twice as well. That weight makes a second round for poor boxes needless.
//!
//! Invariant: `0.0..=1.0`, or NaN where a number isn't finite; 1 only for the same box with a full score.

use crate::geometry::BBox;

/// What is added on each side, in widths and heights.
const BUFFER: f64 = 0.1;
/// What a box of another class is worth. Detectors take a van for a truck now and then, and a rider covers the bicycle.
const OTHER_CLASS: f64 = 0.5;

/// A box that is to be compared with many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Compared {
    /// Grown by the buffer.
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

    /// The same box with a score, `0.0..=1.0`.
    pub(super) fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// How well `seen` fits this track.
    pub(super) fn likeness(&self, seen: &Self) -> f64 {
        let overlap = self.grown.iou(&seen.grown);
        if overlap <= 0.0 {
            return 0.0;
        }
        // Both are grown by the same factor, which leaves ratios alone.
        let size = ratio(self.grown.width(), seen.grown.width())
            * ratio(self.grown.height(), seen.grown.height());
        let class = if self.class_id == seen.class_id {
            1.0
        } else {
            OTHER_CLASS
        };
        // The fourth root: a box half as high fits 0.84 times as well.
        overlap * size.sqrt().sqrt() * seen.weight * class
    }
}

/// `bbox` with `by` times its width and height on each side.
pub(super) fn grown(bbox: &BBox, by: f64) -> BBox {
    let (w, h) = (by * bbox.width(), by * bbox.height());
    BBox::new(bbox.x1 - w, bbox.y1 - h, bbox.x2 + w, bbox.y2 + h)
}

/// The smaller by the larger.
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
        // Both overlap by a half.
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
