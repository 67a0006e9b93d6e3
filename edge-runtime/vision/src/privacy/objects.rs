//! Which bounding boxes are masked in a frame: those found in it, and those found shortly before.
//!
//! - A detector misses an object now and then, so a box stays for [`HOLD`] after it was last found.
//! - A box is replaced by one that hides nearly all of it, the next one of the same object.
//! - At most [`MAX_BOXES`] boxes; beyond them the whole picture is masked.

use std::time::Duration;

use watchkeeper_contract::privacy::Region;

use crate::geometry::BBox;

/// Source time for which a box stays masked after it was last found.
pub const HOLD: Duration = Duration::from_secs(1);

/// Growth of a box on each side, as a part of its width and height: boxes are seldom exact.
pub const GROWTH: f64 = 0.15;

/// Most boxes masked at once.
pub const MAX_BOXES: usize = 300;

/// Part of an earlier box that a grown new one has to hide to replace it.
const MIN_HIDDEN: f64 = 0.85;

#[derive(Debug, Clone, Default)]
pub struct ObjectBoxes {
    held: Vec<(BBox, Duration)>,
}

impl ObjectBoxes {
    /// Returns the regions to mask in a picture of `size` at source time `at`, in which `found`
    /// were found. A time before that of the last call forgets what was held.
    pub fn regions(&mut self, at: Duration, found: &[BBox], size: [u32; 2]) -> Vec<Region> {
        self.held
            .retain(|(_, last)| *last <= at && at - *last <= HOLD);
        for found in found {
            self.forget_earlier(found);
        }
        self.held.extend(found.iter().map(|found| (*found, at)));
        if self.held.len() > MAX_BOXES {
            // Those that stay are the latest.
            self.held.drain(..self.held.len() - MAX_BOXES);
            return vec![whole_picture()];
        }
        let boxes = self.held.iter();
        boxes.map(|(held, _)| region(held, size)).collect()
    }

    /// Forgets the boxes that `found` hides. Another one may be of an object that was missed.
    fn forget_earlier(&mut self, found: &BBox) {
        let (dx, dy) = (found.width() * GROWTH, found.height() * GROWTH);
        let hidden = |held: &BBox| {
            let width = held.x2.min(found.x2 + dx) - held.x1.max(found.x1 - dx);
            let height = held.y2.min(found.y2 + dy) - held.y1.max(found.y1 - dy);
            width.max(0.0) * height.max(0.0)
        };
        self.held
            .retain(|(held, _)| hidden(held) < MIN_HIDDEN * held.area());
    }
}

pub fn whole_picture() -> Region {
    vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
}

fn region(bbox: &BBox, size: [u32; 2]) -> Region {
    let (dx, dy) = (bbox.width() * GROWTH, bbox.height() * GROWTH);
    let fraction = |at: f64, side: u32| (at / f64::from(side.max(1))).clamp(0.0, 1.0);
    let [x1, x2] = [bbox.x1 - dx, bbox.x2 + dx].map(|x| fraction(x, size[0]));
    let [y1, y2] = [bbox.y1 - dy, bbox.y2 + dy].map(|y| fraction(y, size[1]));
    vec![[x1, y1], [x2, y1], [x2, y2], [x1, y2]]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: [u32; 2] = [200, 100];

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Whether a box lies in one of the regions.
    fn is_masked(regions: &[Region], bbox: &BBox) -> bool {
        regions.iter().any(|region| {
            let ([x1, y1], [x2, y2]) = (region[0], region[2]);
            let (w, h) = (f64::from(SIZE[0]), f64::from(SIZE[1]));
            x1 * w <= bbox.x1 && y1 * h <= bbox.y1 && x2 * w >= bbox.x2 && y2 * h >= bbox.y2
        })
    }

    #[test]
    fn box_stays_masked_for_a_second_after_it_was_lost() {
        let mut boxes = ObjectBoxes::default();
        let person = BBox::new(20.0, 20.0, 40.0, 60.0);
        assert!(is_masked(&boxes.regions(ms(0), &[person], SIZE), &person));
        assert!(is_masked(&boxes.regions(ms(400), &[], SIZE), &person));
        assert!(is_masked(&boxes.regions(ms(1000), &[], SIZE), &person));
        assert!(boxes.regions(ms(1001), &[], SIZE).is_empty());
    }

    #[test]
    fn moved_box_replaces_the_one_that_it_overlaps() {
        let mut boxes = ObjectBoxes::default();
        let at = |x: f64| BBox::new(x, 20.0, x + 20.0, 60.0);
        boxes.regions(ms(0), &[at(20.0), at(120.0)], SIZE);
        let regions = boxes.regions(ms(40), &[at(25.0)], SIZE);
        assert_eq!(regions.len(), 2, "{regions:?}");
        assert!(is_masked(&regions, &at(120.0)));
    }

    #[test]
    fn box_that_walks_up_to_a_missed_one_leaves_it_masked() {
        let mut boxes = ObjectBoxes::default();
        let missed = BBox::new(60.0, 20.0, 80.0, 60.0);
        boxes.regions(ms(0), &[BBox::new(30.0, 20.0, 50.0, 60.0), missed], SIZE);
        let regions = boxes.regions(ms(40), &[BBox::new(50.0, 20.0, 70.0, 60.0)], SIZE);
        assert!(is_masked(&regions, &missed), "{regions:?}");
    }

    #[test]
    fn box_behind_another_one_stays_masked() {
        let mut boxes = ObjectBoxes::default();
        let front = BBox::new(20.0, 20.0, 40.0, 60.0);
        let behind = BBox::new(28.0, 15.0, 48.0, 55.0);
        boxes.regions(ms(0), &[front, behind], SIZE);
        for n in 1..5 {
            let regions = boxes.regions(ms(40 * n), &[front], SIZE);
            assert!(is_masked(&regions, &behind), "{n} {regions:?}");
        }
    }

    #[test]
    fn recording_that_starts_again_holds_no_box() {
        let mut boxes = ObjectBoxes::default();
        boxes.regions(ms(5000), &[BBox::new(20.0, 20.0, 40.0, 60.0)], SIZE);
        assert!(boxes.regions(ms(0), &[], SIZE).is_empty());
    }

    #[test]
    fn too_many_boxes_mask_the_whole_picture() {
        let mut boxes = ObjectBoxes::default();
        let small = |n: usize| {
            let (x, y) = ((n % 60) as f64 * 3.0, (n / 60) as f64 * 3.0);
            BBox::new(x, y, x + 2.0, y + 2.0)
        };
        let all: Vec<BBox> = (0..=MAX_BOXES).map(small).collect();
        assert_eq!(boxes.regions(ms(0), &all[1..], SIZE).len(), MAX_BOXES);
        let mut boxes = ObjectBoxes::default();
        assert_eq!(boxes.regions(ms(0), &all, SIZE), [whole_picture()]);
    }

    proptest! {
        #[test]
        fn every_found_box_is_masked_with_a_margin(
            frames in prop::collection::vec(
                prop::collection::vec((0.0..180.0, 0.0..90.0, 1.0..20.0, 1.0..10.0), 0..8), 1..20),
        ) {
            let mut boxes = ObjectBoxes::default();
            for (n, frame) in (0..).zip(frames) {
                let bbox = |(x, y, w, h): &(f64, f64, f64, f64)| BBox::new(*x, *y, x + w, y + h);
                let found: Vec<BBox> = frame.iter().map(bbox).collect();
                let regions = boxes.regions(ms(40 * n), &found, SIZE);
                for bbox in &found {
                    prop_assert!(is_masked(&regions, bbox), "{bbox:?} {regions:?}");
                }
            }
        }
    }
}
