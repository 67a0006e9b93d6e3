//! Similarity of a box and the place where a track is expected: overlap and size in one number.
//!
//! - Boxes are buffered before the overlap, so that small and fast objects overlap again. See Yang
//!   et al., "Hard to Track Objects with Irregular Motions and Similar Appearances? Make It Easier
//!   by Buffering the Matching Space", WACV 2023.
//! - The result is `0.0..=1.0`, or NaN for invalid values; 1 only for an equal box.

use crate::geometry::BBox;

/// Buffer on each side, in widths and heights.
pub(super) const BUFFER: f64 = 0.1;
/// Buffer of a track seen once, whose velocity is unknown: the widest of C-BIoU.
pub(super) const FIRST_BUFFER: f64 = 0.5;

/// Similarity of the place and size of two boxes, with this buffer.
pub(super) fn likeness(expected: &BBox, seen: &BBox, buffer: f64) -> f64 {
    let overlap = grown(expected, buffer).iou(&grown(seen, buffer));
    if overlap <= 0.0 {
        return 0.0;
    }
    let size = ratio(expected.width(), seen.width()) * ratio(expected.height(), seen.height());
    // Fourth root: a box of half the height counts 0.84.
    overlap * size.sqrt().sqrt()
}

/// Extends `bbox` by `by` times its width and height on each side.
pub(super) fn grown(bbox: &BBox, by: f64) -> BBox {
    let (w, h) = (by * bbox.width(), by * bbox.height());
    bbox.grown(w, h)
}

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
        super::likeness(a, b, BUFFER)
    }

    #[test]
    fn the_same_box_fits_best() {
        let a = boxed(0.0, 40.0, 80.0);
        assert!((likeness(&a, &a) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn boxes_that_just_miss_each_other_are_still_alike() {
        let (a, b) = (boxed(0.0, 40.0, 80.0), boxed(43.0, 40.0, 80.0));
        assert!(a.iou(&b) <= 0.0 && likeness(&a, &b) > 0.0);
        assert!(likeness(&a, &boxed(60.0, 40.0, 80.0)) <= 0.0);
    }

    #[test]
    fn box_of_same_size_fits_better_at_equal_overlap() {
        let a = boxed(0.0, 40.0, 80.0);
        // Both overlap by one half.
        let (moved, smaller) = (boxed(0.0, 40.0, 80.0), boxed(0.0, 20.0, 80.0));
        let moved = BBox::new(moved.x1 + 16.0, moved.y1, moved.x2 + 16.0, moved.y2);
        let (o, p) = (grown(&a, BUFFER).iou(&grown(&moved, BUFFER)), 0.5);
        assert!((o - p).abs() < 1e-9, "{o}");
        assert!(likeness(&a, &moved) > likeness(&a, &smaller));
    }
}
