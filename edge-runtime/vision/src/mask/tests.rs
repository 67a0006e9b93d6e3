//! Filling, outlines and run lengths of masks.

use super::run_lengths::{compress, expand};
use super::{Bitmap, Mask};
use crate::geometry::{BBox, Point};
use proptest::prelude::*;

fn rectangle() -> Vec<Point> {
    [(2.0, 1.0), (6.0, 1.0), (6.0, 4.0), (2.0, 4.0)]
        .map(|(x, y)| Point::new(x, y))
        .to_vec()
}

#[test]
fn rectangle_is_filled_with_edges_and_outlined_by_corners() {
    let bitmap = Bitmap::fill(&rectangle(), [10, 8]);
    assert_eq!(bitmap.count(), 5 * 4);
    assert_eq!(bitmap.bbox(), Some(BBox::new(2.0, 1.0, 6.0, 4.0)));
    let mut downwards = rectangle();
    downwards[1..].reverse();
    assert_eq!(bitmap.outline().unwrap(), downwards);
}

#[test]
fn parts_and_holes_have_outlines_of_their_own() {
    let mut bitmap = Bitmap::fill(&rectangle(), [20, 8]);
    bitmap.set(4, 2, false);
    for (x, y) in [(10, 5), (11, 5), (10, 6), (11, 6)] {
        bitmap.set(x, y, true);
    }
    let outlines = bitmap.outlines();
    let holes: Vec<bool> = outlines.iter().map(|o| o.is_hole).collect();
    assert_eq!(holes, [false, true, false]);
    assert_eq!(outlines[1].parent, Some(0));
    assert_eq!(outlines[0].points.len(), 4);
    assert_eq!(bitmap.largest_outline(), Some(outlines[0].points.clone()));
}

#[test]
fn a_part_that_reaches_the_edges_of_the_picture_has_an_outline() {
    let whole = Bitmap::from_fn([8, 4], |_, _| true);
    let corners = [(0.0, 0.0), (0.0, 3.0), (7.0, 3.0), (7.0, 0.0)].map(|(x, y)| Point::new(x, y));
    assert_eq!(whole.parts(), [corners.to_vec()]);
    let left = Bitmap::from_fn([8, 4], |x, _| x < 2);
    assert_eq!(left.parts().len(), 1);
    assert_eq!(left.borders().len(), 1);
}

#[test]
fn a_single_pixel_and_nothing_have_outlines_too() {
    let mut bitmap = Bitmap::empty([4, 4]);
    assert_eq!(bitmap.outline(), None);
    bitmap.set(1, 2, true);
    assert_eq!(bitmap.outline(), Some(vec![Point::new(1.0, 2.0)]));
}

#[test]
fn run_lengths_are_written_as_coco_writes_them() {
    // pycocotools.mask.encode of a 3×3 mask with only the middle pixel.
    let mut bitmap = Bitmap::empty([3, 3]);
    bitmap.set(1, 1, true);
    assert_eq!(bitmap.run_lengths(), [4, 1, 4]);
    assert_eq!(compress(&[4, 1, 4]), "414");
    let json = bitmap.to_rle_json();
    assert_eq!(Bitmap::from_rle_json(&json, |_| Ok(())).unwrap(), bitmap);
}

#[test]
fn a_moved_mask_loses_what_falls_outside() {
    let mask = Mask::Bitmap(Bitmap::fill(&rectangle(), [10, 8]));
    assert_eq!(mask.moved([-4, 0], [10, 8]).area([10, 8]), 3 * 4);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_lengths_come_back_as_they_went(runs in prop::collection::vec(0_u32..100_000, 0..40)) {
        prop_assert_eq!(expand(&compress(&runs)), runs);
    }

    #[test]
    fn no_polygon_and_no_text_panics(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..6),
        text in ".{0,40}",
    ) {
        let polygon: Vec<Point> = points.iter().map(|(x, y)| Point::new(*x, *y)).collect();
        let bitmap = Bitmap::fill(&polygon, [16, 9]);
        prop_assert_eq!(bitmap.outline().is_some(), bitmap.count() > 0);
        let size = Bitmap::from_run_lengths([16, 9], &expand(&text)).size();
        prop_assert_eq!(size, [16, 9]);
    }

    #[test]
    fn a_bitmap_survives_its_run_lengths(cells in prop::collection::vec(any::<bool>(), 35)) {
        let bitmap = Bitmap::from_fn([7, 5], |x, y| cells[y * 7 + x]);
        prop_assert_eq!(Bitmap::from_run_lengths([7, 5], &bitmap.run_lengths()), bitmap);
    }
}
