//! Whether a candidate computes what the serving network computed.
//!
//! | network | agrees when |
//! |---|---|
//! | detector | each certain box has a partner (below) |
//! | with masks or key points | its boxes agree, and its outputs differ by at most 2 % |
//! | any other | its outputs differ by at most 2 % |
//!
//! - A box is certain when its score exceeds the model's threshold by [`SCORE_TOLERANCE`]. Its only
//!   partner has its class, an overlap of [`MIN_IOU`] and a score within the tolerance. Both
//!   networks are checked. Suppression may drop the partner.
//! - A weaker box needs no partner: the other network may score it below the threshold.
//! - Two outputs differ by the length of their difference, relative to the golden one's length.
//! - Values that are not finite disagree, where the serving network has none.
//! - Not here: candidates of int8, whose changes are counted over frames ([`count`](super::count)).

use std::sync::Arc;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::Task;

use crate::decode;
use crate::detection::RawDetection;
use crate::network::{Feed, Tensor};
use crate::nms::suppress;

/// Least overlap of two boxes of one object.
pub(super) const MIN_IOU: f64 = 0.9;

/// Largest difference of the scores of one object.
const SCORE_TOLERANCE: f32 = 0.05;

/// Largest relative difference of outputs that are not decoded. FP16 gives about 0.001.
pub(super) const OUTPUT_TOLERANCE: f64 = 0.02;

/// Relative difference of outputs up to which a frame without objects proves something. rten and
/// ONNX Runtime differ by about 0.000 01.
const CLOSE_TOLERANCE: f64 = 0.001;

/// Difference of two values that are almost zero.
const ZERO_TOLERANCE: f64 = 1e-6;

/// Rounding of differences at a tolerance.
const ROUNDING: f32 = 1e-6;

/// How the outputs of a network are compared.
#[derive(Debug, Clone)]
pub enum Comparison {
    Boxes(Arc<Manifest>),
    Outputs,
}

impl Comparison {
    /// The comparison for a network that takes one picture.
    #[must_use]
    pub fn of(manifest: &Arc<Manifest>) -> Self {
        match manifest.task {
            Task::ObjectDetection
            | Task::ZeroShotDetection
            | Task::InstanceSegmentation
            | Task::KeypointDetection => Self::Boxes(Arc::clone(manifest)),
            _ => Self::Outputs,
        }
    }

    /// Compares the outputs of a candidate with the golden ones; returns whether the frame is
    /// conclusive: it shows an object, or the outputs are close.
    ///
    /// # Errors
    /// One clause about the first difference.
    pub fn compare(
        &self,
        inputs: &[Feed<'_>],
        golden: &[Tensor<'_>],
        outputs: &[Tensor<'_>],
    ) -> Result<bool, String> {
        let difference = difference(golden, outputs)?;
        let Self::Boxes(manifest) = self else {
            check_outputs(difference)?;
            return Ok(true);
        };
        let has_object = compare_boxes(manifest, inputs, golden, outputs)?;
        if self.has_more_than_boxes() {
            check_outputs(difference)?;
        }
        Ok(has_object || difference <= CLOSE_TOLERANCE)
    }

    /// Whether outputs that are not decoded here belong to the boxes.
    pub(super) fn has_more_than_boxes(&self) -> bool {
        let Self::Boxes(manifest) = self else {
            return false;
        };
        !matches!(
            manifest.task,
            Task::ObjectDetection | Task::ZeroShotDetection
        )
    }
}

fn check_outputs(difference: f64) -> Result<(), String> {
    if difference <= OUTPUT_TOLERANCE {
        return Ok(());
    }
    Err(format!(
        "its outputs differ by {:.1} %, at most {:.0} % are accepted",
        difference * 100.0,
        OUTPUT_TOLERANCE * 100.0
    ))
}

/// The largest relative difference of an output.
pub(super) fn difference(golden: &[Tensor<'_>], outputs: &[Tensor<'_>]) -> Result<f64, String> {
    if golden.len() != outputs.len() {
        let (expected, found) = (golden.len(), outputs.len());
        return Err(format!("it has {found} outputs, expected {expected}"));
    }
    let mut largest = 0.0;
    for (golden, output) in golden.iter().zip(outputs) {
        if golden.shape != output.shape {
            return Err(format!(
                "its output `{}` is {:?}, expected {:?}",
                golden.name, output.shape, golden.shape
            ));
        }
        let (mut square, mut length) = (0.0, 0.0);
        for (a, b) in golden.data.iter().zip(output.data) {
            if !a.is_finite() {
                continue;
            }
            if !b.is_finite() {
                let name = golden.name;
                return Err(format!(
                    "its output `{name}` has a value that is not finite"
                ));
            }
            let (a, b) = (f64::from(*a), f64::from(*b));
            square += (a - b) * (a - b);
            length += a * a;
        }
        let floor = ZERO_TOLERANCE * (golden.data.len() as f64).sqrt();
        largest = f64::max(largest, square.sqrt() / length.sqrt().max(floor));
    }
    Ok(largest)
}

/// The boxes of one network.
pub(super) struct Boxes {
    /// All above the threshold.
    pub(super) all: Vec<RawDetection>,
    /// Those that a detector would report and that are certain.
    pub(super) certain: Vec<RawDetection>,
}

impl Boxes {
    pub(super) fn of(
        manifest: &Manifest,
        inputs: &[Feed<'_>],
        outputs: &[Tensor<'_>],
    ) -> Result<Self, String> {
        // An open-vocabulary network has the described classes as its second input.
        let described = inputs.get(1).and_then(|feed| feed.shape.get(1));
        let classes = described.copied().unwrap_or_else(|| manifest.classes());
        let mut all = Vec::new();
        decode::decode(manifest, classes, outputs, manifest.confidence, &mut all)
            .map_err(|e| e.to_string())?;
        if described.is_none() {
            // An empty name marks an unused class id.
            let labels = &manifest.labels;
            all.retain(|d| labels.get(d.class_id).is_none_or(|label| !label.is_empty()));
        }
        let mut certain = all.clone();
        let nms = manifest.nms;
        suppress(
            &mut certain,
            nms.map(|nms| nms.iou),
            nms.is_some_and(|nms| nms.class_agnostic),
            usize::MAX,
        );
        certain.retain(|d| d.score >= manifest.confidence + SCORE_TOLERANCE);
        Ok(Self { all, certain })
    }
}

/// Compares two networks by their boxes; returns whether there is a certain one.
fn compare_boxes(
    manifest: &Manifest,
    inputs: &[Feed<'_>],
    golden: &[Tensor<'_>],
    outputs: &[Tensor<'_>],
) -> Result<bool, String> {
    let golden = Boxes::of(manifest, inputs, golden)?;
    let candidate = Boxes::of(manifest, inputs, outputs)?;
    let describe = |d: &RawDetection| {
        let label = manifest.labels.get(d.class_id);
        let label = label.map_or_else(|| format!("class {}", d.class_id), ToString::to_string);
        format!("`{label}` of score {:.2}", d.score)
    };
    if let Some(missed) = without_partner(&golden.certain, &candidate.all).next() {
        return Err(format!(
            "it does not find a {} at the same place with about the same score",
            describe(missed)
        ));
    }
    if let Some(extra) = without_partner(&candidate.certain, &golden.all).next() {
        return Err(format!(
            "it finds a {} that the serving back end does not",
            describe(extra)
        ));
    }
    Ok(!golden.certain.is_empty())
}

/// Those of `boxes` without a partner of their own in `others`.
pub(super) fn without_partner<'a>(
    boxes: &'a [RawDetection],
    others: &'a [RawDetection],
) -> impl Iterator<Item = &'a RawDetection> {
    let mut is_taken = vec![false; others.len()];
    boxes.iter().filter(move |one| {
        let partners = others.iter().enumerate().filter(|(i, other)| {
            !is_taken[*i]
                && other.class_id == one.class_id
                && (other.score - one.score).abs() <= SCORE_TOLERANCE + ROUNDING
        });
        let overlaps = partners.map(|(i, other)| (i, other.bbox.iou(&one.bbox)));
        let best = overlaps.max_by(|(_, a), (_, b)| a.total_cmp(b));
        match best.filter(|(_, iou)| *iou >= MIN_IOU) {
            Some((i, _)) => {
                is_taken[i] = true;
                false
            }
            None => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::manifest;

    /// A box: centre and size in input pixels, score, class.
    type Thing = ([f32; 4], f32, usize);

    fn rows(things: &[Thing]) -> Vec<f32> {
        let row = |(b, score, class): &Thing| {
            let scores = [0, 1].map(|c| if c == *class { *score } else { 0.0 });
            b.iter().copied().chain(scores).collect::<Vec<_>>()
        };
        // One empty row: a tensor needs one.
        let empty = ([0.0; 4], 0.0, 0);
        things.iter().chain([&empty]).flat_map(row).collect()
    }

    /// Pads both to one number of boxes, because both networks have one shape. With more boxes
    /// than columns the shape has one meaning only.
    fn compare(golden: &[Thing], candidate: &[Thing]) -> Result<bool, String> {
        let most = golden.len().max(candidate.len()).max(10);
        let padded = |things: &[Thing]| {
            let mut things = things.to_vec();
            things.resize(most, ([0.0; 4], 0.0, 0));
            rows(&things)
        };
        let (golden, candidate) = (padded(golden), padded(candidate));
        let shape = [1, most + 1, 6];
        let tensor = |data| Tensor {
            name: "out",
            shape: &shape,
            data,
        };
        Comparison::of(&manifest()).compare(&[], &[tensor(&golden)], &[tensor(&candidate)])
    }

    const PERSON: Thing = ([30.0, 30.0, 20.0, 20.0], 0.8, 1);

    #[test]
    fn shifted_box_other_score_class_and_number_disagree() {
        assert_eq!(compare(&[PERSON], &[PERSON]), Ok(true));
        let (place, score, class) = PERSON;
        let shifted = ([place[0] + 2.0, place[1], place[2], place[3]], score, class);
        let slightly = ([place[0] + 0.5, place[1], place[2], place[3]], score, class);
        assert_eq!(compare(&[PERSON], &[slightly]), Ok(true));
        for wrong in [
            vec![shifted],
            vec![(place, score - 0.1, class)],
            vec![(place, score, 0)],
            vec![],
            vec![PERSON, ([50.0, 10.0, 8.0, 8.0], 0.7, 1)],
        ] {
            let why = compare(&[PERSON], &wrong).expect_err("must disagree");
            assert!(why.starts_with("it "), "{why}");
        }
    }

    #[test]
    fn box_near_the_threshold_needs_no_partner() {
        let weak = ([10.0, 10.0, 8.0, 8.0], 0.54, 0);
        let below = ([10.0, 10.0, 8.0, 8.0], 0.49, 0);
        assert_eq!(compare(&[PERSON, weak], &[PERSON, below]), Ok(true));
        assert_eq!(compare(&[PERSON, below], &[PERSON, weak]), Ok(true));
        let strong = ([10.0, 10.0, 8.0, 8.0], 0.56, 0);
        assert!(compare(&[PERSON, strong], &[PERSON, below]).is_err());
    }

    #[test]
    fn tie_of_suppressed_boxes_may_fall_either_way() {
        let (a, b) = ([30.0, 30.0, 20.0, 20.0], [34.0, 30.0, 20.0, 20.0]);
        let first = [(a, 0.81, 1), (b, 0.80, 1)];
        let second = [(a, 0.80, 1), (b, 0.81, 1)];
        assert_eq!(compare(&first, &second), Ok(true));
    }

    #[test]
    fn frame_without_objects_counts_only_with_close_outputs() {
        let noise = |score| [([30.0, 30.0, 20.0, 20.0], score, 1)];
        assert_eq!(compare(&noise(0.3), &noise(0.3)), Ok(true));
        assert_eq!(compare(&noise(0.1), &noise(0.4)), Ok(false));
    }

    #[test]
    fn values_that_are_not_finite_disagree() {
        let broken = ([f32::NAN, 30.0, 20.0, 20.0], 0.3, 1);
        let fine = ([30.0, 30.0, 20.0, 20.0], 0.3, 1);
        let why = compare(&[fine], &[broken]).expect_err("must disagree");
        assert!(why.contains("not finite"), "{why}");
    }

    #[test]
    fn numbers_of_other_networks_may_differ_by_two_percent() {
        fn tensor(data: &[f32]) -> Tensor<'_> {
            Tensor {
                name: "scores",
                shape: &[1, 2],
                data,
            }
        }
        let compare = |data: &[f32]| {
            Comparison::Outputs.compare(&[], &[tensor(&[3.0, -4.0])], &[tensor(data)])
        };
        assert_eq!(compare(&[3.05, -4.0]), Ok(true));
        assert!(compare(&[3.0, -4.5]).is_err());
        assert!(compare(&[-3.0, 4.0]).is_err());
    }

    fn things() -> impl Strategy<Value = Vec<Thing>> {
        let one = (prop::array::uniform4(4.0f32..60.0), 0.0f32..1.0, 0usize..2);
        prop::collection::vec(one, 0..12)
    }

    proptest! {
        #[test]
        fn network_agrees_with_itself_in_any_order(things in things(), seed: u64) {
            let mut other = things.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut other);
            prop_assert!(compare(&things, &other).is_ok());
        }

        #[test]
        fn lost_certain_box_always_disagrees(things in things()) {
            let lost = ([32.0, 200.0, 20.0, 20.0], 0.9, 0);
            let all: Vec<Thing> = things.iter().copied().chain([lost]).collect();
            prop_assert!(compare(&all, &things).is_err());
            prop_assert!(compare(&things, &all).is_err());
        }
    }
}
