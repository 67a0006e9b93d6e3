//! Detections, what a caller asks for, and the time that it took.

use std::time::Duration;

use watchkeeper_vision::geometry::BBox;

/// One box as a detector gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawDetection {
    /// Where, in pixels of the picture.
    pub bbox: BBox,
    /// Score, `0.0..=1.0`.
    pub score: f32,
    /// Index into [`DetectorInfo::labels`], or into [`DetectParams::described`].
    pub class_id: usize,
    /// Where a network says more of it in its answer; 0 for those that say no more than boxes.
    pub column: usize,
}

/// What the caller wants.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectParams {
    /// Lowest score to report; absent: the model's own.
    pub confidence: Option<f32>,
    /// Overlap above which the weaker of two boxes goes; absent: the model's own.
    pub iou_threshold: Option<f32>,
    /// Whether boxes of different classes suppress each other; absent: the model's own.
    pub class_agnostic_nms: Option<bool>,
    /// At most this many boxes.
    pub max_detections: usize,
    /// Whether masks or points are wanted too, of a model that has them ([`Detector::shapes`]).
    pub shapes: bool,
    /// Whether boxes that lie beside the picture are kept, of which clipping leaves no area.
    pub flat: bool,
    /// What is to be found, in words, of a model that has to be told; empty for one that knows its classes.
    pub described: Vec<String>,
}

impl Default for DetectParams {
    fn default() -> Self {
        Self {
            confidence: None,
            iou_threshold: None,
            class_agnostic_nms: None,
            max_detections: 300,
            shapes: false,
            flat: false,
            described: Vec::new(),
        }
    }
}

/// Time spent in one detection, by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DetectTimes {
    /// Scaling, colour, layout.
    pub preprocess: Duration,
    /// The network itself.
    pub infer: Duration,
    /// Decoding and suppression.
    pub postprocess: Duration,
}

impl std::ops::AddAssign for DetectTimes {
    fn add_assign(&mut self, other: Self) {
        self.preprocess += other.preprocess;
        self.infer += other.infer;
        self.postprocess += other.postprocess;
    }
}
