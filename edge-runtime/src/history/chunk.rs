//! The form of a chunk: some minutes of one source and model, as a sequence of MessagePack values.
//!
//! - The head comes first, then one value a frame. Reading ends at the first value that is not
//!   whole.
//! - Coordinates are in sixteenths of a pixel, scores in 255ths.
//! - Of frames without any box, after [`QUIET_S`] seconds of them, one a second is kept, with the
//!   number of those before it. So a quiet camera costs little, and a replay has every frame.

use std::io::Read;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::SourceId;
use watchkeeper_detect::{DetectParams, OwnThresholds, RawDetection};
use watchkeeper_vision::geometry::BBox;

/// Version of the form that this build reads and writes.
pub(super) const FORMAT: u16 = 1;
/// Seconds without a box after which frames are thinned.
const QUIET_S: f64 = 2.0;
/// Shortest distance of kept frames then, in seconds.
const THINNED_S: f64 = 1.0;
/// Longest distance of two frames that belong together, where every frame is looked at.
const MIN_GAP_S: f64 = 5.0;
/// Largest width and height of a picture; a damaged head may hold any number.
const MAX_SIDE: u32 = 16_384;
/// Steps of a coordinate in a pixel.
const SUBPIXELS: f64 = 16.0;

/// Data that all frames of a chunk share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkHead {
    pub(super) format: u16,
    pub source: SourceId,
    /// Digest of the source's address: another address may show another view.
    pub(super) address: String,
    /// Model, as the workflow or the pipeline names it.
    pub model: String,
    /// Class names by class id.
    pub labels: Vec<String>,
    pub knows_classes: bool,
    pub follows_one_picture: bool,
    /// Width and height of the picture in pixels.
    pub size: [u32; 2],
    /// Thresholds that the recorded step asked for.
    pub asked: Thresholds,
    /// Thresholds of the model for a step that asks for none.
    pub own: Thresholds,
    /// How often frames were looked at.
    pub looks: Looks,
    /// Frames per second that the source reports.
    pub fps: Option<f64>,
    /// Whether the source is a recording.
    pub recorded: bool,
    /// Wall clock of the first frame, in milliseconds since 1970.
    pub start_ms: i64,
}

/// Thresholds of a detection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Lowest score to report.
    pub confidence: f32,
    /// Overlap above which the weaker of two boxes is suppressed; absent: none is.
    pub iou: Option<f32>,
    /// Whether boxes of different classes suppress each other.
    pub class_agnostic: bool,
}

impl Thresholds {
    /// Thresholds of a request to a model with its own thresholds.
    pub fn asked(params: &DetectParams, own: OwnThresholds) -> Self {
        Self {
            confidence: params.confidence.unwrap_or(own.confidence),
            iou: params.iou_threshold.or(own.iou),
            class_agnostic: params.class_agnostic_nms.unwrap_or(own.class_agnostic),
        }
    }
}

impl From<OwnThresholds> for Thresholds {
    fn from(own: OwnThresholds) -> Self {
        Self {
            confidence: own.confidence,
            iou: own.iou,
            class_agnostic: own.class_agnostic,
        }
    }
}

/// How often a pipeline looks at frames.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Looks {
    /// Longest distance of two looks in seconds of source time; 0: every frame.
    pub every_s: f64,
    /// Whether frames without motion are not looked at.
    pub on_motion: bool,
}

impl Looks {
    /// Longest distance of two frames that belong together, in seconds.
    pub fn max_gap_s(&self) -> f64 {
        (2.0 * self.every_s).max(MIN_GAP_S)
    }
}

/// A detector's report on one frame; its boxes are a slice where it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFrame<B = Vec<SeenBox>> {
    /// Milliseconds of the wall clock since the start of the chunk.
    pub wall_ms: u32,
    /// Milliseconds of source time since the first frame of the chunk.
    pub source_ms: u32,
    /// Frames without any box before this one that were left out.
    pub left_out: u16,
    pub boxes: B,
}

/// One detection: left, top, right and bottom in sixteenths of a pixel, score in 255ths, class id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenBox(pub u32, pub u32, pub u32, pub u32, pub u8, pub u16);

impl SeenBox {
    pub(super) fn of(raw: &RawDetection) -> Self {
        let place = |at: f64| (at.max(0.0) * SUBPIXELS).round() as u32;
        let BBox { x1, y1, x2, y2 } = raw.bbox;
        Self(
            place(x1),
            place(y1),
            place(x2),
            place(y2),
            (raw.score.clamp(0.0, 1.0) * 255.0).round() as u8,
            u16::try_from(raw.class_id).unwrap_or(u16::MAX),
        )
    }

    /// The detection as its detector reported it, up to rounding.
    #[must_use]
    pub fn raw(self) -> RawDetection {
        let Self(x1, y1, x2, y2, score, class_id) = self;
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(|at| f64::from(at) / SUBPIXELS);
        RawDetection {
            bbox: BBox::new(x1, y1, x2, y2),
            score: f32::from(score) / 255.0,
            class_id: usize::from(class_id),
            column: 0,
        }
    }
}

/// Decides which frames are kept.
#[derive(Debug, Default)]
pub(super) struct Thinning {
    /// Source time of the last box, or of the first frame.
    last_box_s: Option<f64>,
    last_kept_s: f64,
    left_out: u16,
}

impl Thinning {
    /// Number of frames left out before the frame at `source_s`, if that is to be kept.
    pub(super) fn keep(&mut self, source_s: f64, has_boxes: bool) -> Option<u16> {
        let last_box_s = *self.last_box_s.get_or_insert(source_s);
        if has_boxes {
            self.last_box_s = Some(source_s);
        }
        let is_quiet = !has_boxes && source_s - last_box_s > QUIET_S;
        if is_quiet && self.is_near(source_s) && self.left_out < u16::MAX {
            self.left_out += 1;
            return None;
        }
        self.last_kept_s = source_s;
        Some(std::mem::take(&mut self.left_out))
    }

    /// Whether the last kept frame was less than [`THINNED_S`] before `source_s`.
    pub(super) fn is_near(&self, source_s: f64) -> bool {
        source_s - self.last_kept_s < THINNED_S
    }
}

/// Reads the head of a chunk; `None` if it is damaged or of another version.
pub(super) fn read_head(from: &mut impl Read) -> Option<ChunkHead> {
    let head = ChunkHead::deserialize(&mut rmp_serde::Deserializer::new(from)).ok()?;
    let is_sound = head.size.iter().all(|side| (1..=MAX_SIDE).contains(side));
    (head.format == FORMAT && is_sound).then_some(head)
}

/// Reads the frames after the head, up to the first one that is not whole.
pub(super) fn read_frames(from: &mut impl Read) -> Vec<SeenFrame> {
    let mut values = rmp_serde::Deserializer::new(from);
    std::iter::from_fn(|| SeenFrame::deserialize(&mut values).ok()).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THRESHOLDS: Thresholds = Thresholds {
        confidence: 0.3,
        iou: Some(0.45),
        class_agnostic: false,
    };

    fn head() -> ChunkHead {
        ChunkHead {
            format: FORMAT,
            source: SourceId::new("yard").unwrap(),
            address: "a".to_owned(),
            model: "yolox-nano".to_owned(),
            labels: vec!["person".to_owned()],
            knows_classes: true,
            follows_one_picture: false,
            size: [1920, 1080],
            asked: THRESHOLDS,
            own: THRESHOLDS,
            looks: Looks {
                every_s: 0.0,
                on_motion: false,
            },
            fps: Some(15.0),
            recorded: false,
            start_ms: 1_700_000_000_000,
        }
    }

    #[test]
    fn quiet_frames_are_thinned_and_none_is_forgotten() {
        let mut thinning = Thinning::default();
        // Kept frames, and those that they say were left out.
        let mut kept = |from: f64, seconds: f64, has_boxes: bool| {
            let frames = (0..(seconds * 10.0) as u32).map(|n| from + f64::from(n) / 10.0);
            let kept = frames.filter_map(|at| thinning.keep(at, has_boxes));
            let kept: Vec<usize> = kept.map(usize::from).collect();
            (kept.len(), kept.iter().sum::<usize>())
        };
        assert_eq!(kept(0.0, 1.0, true), (10, 0));
        let (first, left_out) = kept(1.0, 60.0, false);
        assert!((70..=85).contains(&first), "{first}");
        let (again, rest) = kept(61.0, 1.0, true);
        assert_eq!(again, 10);
        assert_eq!(first + left_out + rest, 600);
    }

    #[test]
    fn damaged_size_is_refused() {
        for size in [[0, 1080], [1920, u32::MAX]] {
            let bytes = rmp_serde::to_vec(&ChunkHead { size, ..head() }).unwrap();
            assert_eq!(read_head(&mut bytes.as_slice()), None, "{size:?}");
        }
    }

    #[test]
    fn chunk_of_another_version_is_not_read() {
        let newer = ChunkHead {
            format: FORMAT + 1,
            ..head()
        };
        let bytes = rmp_serde::to_vec(&newer).unwrap();
        assert_eq!(read_head(&mut bytes.as_slice()), None);
    }

    proptest! {
        /// Whatever was written is read back, and any cut loses only the frame that it cuts.
        #[test]
        fn frames_survive_a_cut_anywhere(
            frames in proptest::collection::vec(
                (any::<u32>(), any::<u32>(), any::<u16>(),
                 proptest::collection::vec((0.0f64..4000.0, 0.0f64..4000.0, 0.0f32..1.0, 0usize..90), 0..4)),
                0..12),
            cut in 0usize..2000,
        ) {
            let frames: Vec<SeenFrame> = frames.into_iter().map(|(wall_ms, source_ms, left_out, boxes)| {
                let raw = boxes.into_iter().map(|(x, y, score, class_id)| RawDetection {
                    bbox: BBox::new(x, y, x + 40.0, y + 80.0), score, class_id, column: 0,
                });
                SeenFrame { wall_ms, source_ms, left_out, boxes: raw.map(|raw| SeenBox::of(&raw)).collect() }
            }).collect();
            let mut bytes = rmp_serde::to_vec(&head()).unwrap();
            let mut ends = vec![bytes.len()];
            for frame in &frames {
                bytes.extend(rmp_serde::to_vec(frame).unwrap());
                ends.push(bytes.len());
            }
            let cut = cut.clamp(ends[0], bytes.len());
            let mut from = &bytes[..cut];
            prop_assert_eq!(read_head(&mut from), Some(head()));
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            prop_assert_eq!(read_frames(&mut from), frames[..whole].to_vec());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut from = bytes.as_slice();
            drop(read_head(&mut from));
            drop(read_frames(&mut from));
        }

        #[test]
        fn box_returns_up_to_rounding(x in 0.0f64..4000.0, y in 0.0f64..4000.0, score in 0.0f32..1.0) {
            let raw = RawDetection { bbox: BBox::new(x, y, x + 9.0, y + 9.0), score, class_id: 7, column: 0 };
            let back = SeenBox::of(&raw).raw();
            prop_assert!((back.bbox.x1 - x).abs() <= 0.5 / SUBPIXELS && (back.bbox.y2 - y - 9.0).abs() <= 0.5 / SUBPIXELS);
            prop_assert!((back.score - score).abs() <= 0.5 / 255.0 + f32::EPSILON && back.class_id == 7);
        }
    }
}
