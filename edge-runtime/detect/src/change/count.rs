//! How many golden boxes a candidate of int8 changed, over all frames.
//!
//! - int8 moves some boxes, so one frame decides nothing.
//! - A box that stands still counts once; in later frames only if the candidate loses it.
//! - Outputs without boxes count as one a frame.

use super::agreement::{Boxes, Comparison, MIN_IOU, OUTPUT_TOLERANCE, difference, without_partner};
use crate::detection::RawDetection;
use crate::network::{Feed, Tensor};

/// Largest share of golden boxes, or of frames without boxes, that may change.
const MAX_CHANGE: f64 = 0.01;

/// Least number of golden boxes, so that one of them is not more than the share that may change.
const MIN_BOXES: usize = 100;

/// Least number of frames of a network without boxes; none of so few may change.
const MIN_FRAMES: usize = 50;

/// Counts so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Certain golden boxes, or frames of a network without boxes.
    pub boxes: usize,
    /// Those that the candidate lost, or those that only it has, whichever are more.
    pub changed: usize,
    has_boxes: bool,
}

impl Counted {
    /// Whether the numbers are large enough to decide.
    #[must_use]
    pub const fn is_enough(self) -> bool {
        self.boxes
            >= if self.has_boxes {
                MIN_BOXES
            } else {
                MIN_FRAMES
            }
    }

    /// The missing part, in one clause; `None` if [`Self::is_enough`].
    pub(crate) fn missing(self) -> Option<String> {
        let Self { boxes, .. } = self;
        (!self.is_enough()).then(|| match self.has_boxes {
            true => format!(
                "the frames show {boxes} certain objects that move, {MIN_BOXES} are needed; \
                 calibrate again with more frames, or while more happens"
            ),
            false => format!("{boxes} frames were compared, {MIN_FRAMES} are needed"),
        })
    }

    /// Why the candidate is refused, in one clause; `None` if little changed.
    #[must_use]
    pub fn refusal(self) -> Option<String> {
        let Self { boxes, changed, .. } = self;
        let change = changed as f64 / boxes.max(1) as f64;
        let what = if self.has_boxes { "boxes" } else { "frames" };
        (change > MAX_CHANGE).then(|| {
            format!(
                "{:.1} % of {boxes} {what} changed, at most {:.0} % may",
                change * 100.0,
                MAX_CHANGE * 100.0
            )
        })
    }
}

/// Counts changes in golden frames that follow each other.
#[derive(Debug, Clone)]
pub(crate) struct ChangeCount {
    comparison: Comparison,
    so_far: Counted,
    /// Certain boxes of the golden frame before.
    previous: Vec<RawDetection>,
}

impl ChangeCount {
    pub(crate) const fn new(comparison: Comparison) -> Self {
        let so_far = Counted {
            boxes: 0,
            changed: 0,
            has_boxes: matches!(comparison, Comparison::Boxes(_)),
        };
        Self {
            comparison,
            so_far,
            previous: Vec::new(),
        }
    }

    /// Least number of frames that can decide.
    pub(crate) const fn min_frames(&self) -> usize {
        if self.so_far.has_boxes { 1 } else { MIN_FRAMES }
    }

    pub(crate) const fn so_far(&self) -> Counted {
        self.so_far
    }

    /// Compares the outputs of a candidate with the golden ones.
    ///
    /// # Errors
    /// One clause: the outputs can't be compared.
    pub(crate) fn add(
        &mut self,
        inputs: &[Feed<'_>],
        golden: &[Tensor<'_>],
        outputs: &[Tensor<'_>],
    ) -> Result<Counted, String> {
        let differs = difference(golden, outputs)? > OUTPUT_TOLERANCE;
        let Comparison::Boxes(manifest) = &self.comparison else {
            self.so_far.boxes += 1;
            self.so_far.changed += usize::from(differs);
            return Ok(self.so_far);
        };
        let golden = Boxes::of(manifest, inputs, golden)?;
        let candidate = Boxes::of(manifest, inputs, outputs)?;
        // Masks and key points are in outputs that are not decoded here.
        let lost: Vec<&RawDetection> = match differs && self.comparison.has_more_than_boxes() {
            true => golden.certain.iter().collect(),
            false => without_partner(&golden.certain, &candidate.all).collect(),
        };
        let extra = without_partner(&candidate.certain, &golden.all).count();
        let stands = |one: &&RawDetection| {
            let mut former = self.previous.iter();
            former
                .any(|other| other.class_id == one.class_id && other.bbox.iou(&one.bbox) >= MIN_IOU)
        };
        let standing = golden.certain.iter().filter(stands).count();
        let lost_standing = lost.iter().copied().filter(stands).count();
        self.so_far.boxes += golden.certain.len() + lost_standing - standing;
        self.so_far.changed += lost.len().max(extra);
        self.previous = golden.certain;
        Ok(self.so_far)
    }
}

#[cfg(test)]
impl Counted {
    pub(super) const fn boxes(boxes: usize, changed: usize) -> Self {
        let has_boxes = true;
        Self {
            boxes,
            changed,
            has_boxes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use watchkeeper_models::{Manifest, testing as models};

    use super::*;
    use crate::testing::manifest;

    /// Boxes of the tests' manifest: centre and size, score of class 0.
    fn rows(boxes: &[([f32; 4], f32)]) -> Vec<f32> {
        let row = |(b, score): &([f32; 4], f32)| [b[0], b[1], b[2], b[3], *score, 0.0];
        let mut rows: Vec<f32> = boxes.iter().flat_map(row).collect();
        rows.resize(11 * 6, 0.0);
        rows
    }

    fn tensor<'a>(shape: &'a [usize], data: &'a [f32]) -> Tensor<'a> {
        let name = "out";
        Tensor { name, shape, data }
    }

    const SHAPE: [usize; 3] = [1, 11, 6];

    fn add(count: &mut ChangeCount, golden: &[([f32; 4], f32)], found: &[([f32; 4], f32)]) {
        let (golden, found) = (rows(golden), rows(found));
        let (golden, found) = (tensor(&SHAPE, &golden), tensor(&SHAPE, &found));
        count.add(&[], &[golden], &[found]).expect("comparable");
    }

    /// Ten boxes that are at other places in odd frames.
    fn boxes(frame: usize) -> Vec<([f32; 4], f32)> {
        let y = if frame.is_multiple_of(2) { 20.0 } else { 40.0 };
        let place = |i: usize| ([4.0 + 6.0 * i as f32, y, 4.0, 4.0], 0.8);
        (0..10).map(place).collect()
    }

    /// Ten frames of ten moving boxes, of which the candidate moves some.
    fn moved(number: usize) -> Counted {
        let mut count = ChangeCount::new(Comparison::of(&manifest()));
        for frame in 0..10 {
            let golden = boxes(frame);
            let mut found = golden.clone();
            if frame < number {
                found[3].0[1] += 10.0;
            }
            add(&mut count, &golden, &found);
        }
        count.so_far()
    }

    #[test]
    fn moved_box_counts_once_and_one_of_a_hundred_may_be() {
        assert_eq!(moved(1), Counted::boxes(100, 1));
        assert_eq!(moved(1).refusal(), None);
        assert_eq!(moved(2), Counted::boxes(100, 2));
        let why = moved(2).refusal().unwrap_or_default();
        assert_eq!(why, "2.0 % of 100 boxes changed, at most 1 % may");
    }

    #[test]
    fn extra_boxes_are_changes_too() {
        let mut count = ChangeCount::new(Comparison::of(&manifest()));
        let all = boxes(0);
        add(&mut count, &all[..8], &all);
        assert_eq!(count.so_far(), Counted::boxes(8, 2));
    }

    #[test]
    fn box_that_stands_still_counts_once_unless_it_is_lost() {
        let mut count = ChangeCount::new(Comparison::of(&manifest()));
        for _ in 0..100 {
            add(&mut count, &boxes(0), &boxes(0));
        }
        assert_eq!(count.so_far(), Counted::boxes(10, 0));
        add(&mut count, &boxes(0), &boxes(0)[1..]);
        assert_eq!(count.so_far(), Counted::boxes(11, 1));
        assert!(!count.so_far().is_enough());
    }

    fn with_key_points() -> Arc<Manifest> {
        let decode = "kind = \"yolov8-pose\"\nkeypoints = [\"nose\"]";
        models::manifest("keypoint-detection", [64, 64], &["person"], decode)
    }

    #[test]
    fn key_points_that_differ_change_every_box_of_the_frame() {
        // A box, its score, and a key point with its score; eleven rows.
        let outputs = |x: f32| {
            let mut data = vec![0.0; 11 * 8];
            data[..8].copy_from_slice(&[30.0, 30.0, 20.0, 20.0, 0.8, x, 30.0, 0.9]);
            data
        };
        let shape = [1, 11, 8];
        for (x, changed) in [(30.0, 0), (30.1, 0), (20.0, 1)] {
            let mut count = ChangeCount::new(Comparison::of(&with_key_points()));
            let (golden, found) = (outputs(30.0), outputs(x));
            let (golden, found) = (tensor(&shape, &golden), tensor(&shape, &found));
            let counted = count.add(&[], &[golden], &[found]);
            assert_eq!(counted, Ok(Counted::boxes(1, changed)), "{x}");
        }
    }

    #[test]
    fn network_without_boxes_needs_fifty_frames_and_loses_none() {
        let mut count = ChangeCount::new(Comparison::Outputs);
        let shape = [1, 2];
        let golden = tensor(&shape, &[3.0, -4.0]);
        let found = tensor(&shape, &[3.05, -4.0]);
        for _ in 0..MIN_FRAMES {
            assert!(!count.so_far().is_enough());
            count.add(&[], &[golden], &[found]).expect("comparable");
        }
        assert!(count.so_far().is_enough());
        assert_eq!(count.so_far().refusal(), None);
        let other = tensor(&shape, &[-3.0, 4.0]);
        count.add(&[], &[golden], &[other]).expect("comparable");
        let why = count.so_far().refusal().unwrap_or_default();
        assert!(why.starts_with("2.0 % of 51 frames changed"), "{why}");
    }
}
