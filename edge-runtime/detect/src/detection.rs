//! Detections, the parameters of a detection, and its times.

use std::time::Duration;

use watchkeeper_vision::geometry::BBox;

use crate::night_gain::Gamma;

/// One detection as a network or the motion detector reports it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawDetection {
    /// Bounding box in pixels of the picture.
    pub bbox: BBox,
    /// From 0.0 to 1.0.
    pub score: f32,
    /// Index into `DetectorInfo::labels`, or into [`DetectParams::described`].
    pub class_id: usize,
    /// Column of the output tensor that holds this detection's mask coefficients or keypoints; 0
    /// for models without them.
    pub column: usize,
}

/// Parameters of one detection.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectParams {
    /// Lowest score to report; `None` uses the model's own.
    pub confidence: Option<f32>,
    /// Overlap above which the weaker of two boxes is suppressed; `None` uses the model's own.
    pub iou_threshold: Option<f32>,
    /// Whether boxes of different classes suppress each other; `None` uses the model's own.
    pub class_agnostic_nms: Option<bool>,
    pub max_detections: usize,
    /// Whether to compute masks or keypoints too ([`Detector::shapes`](crate::Detector::shapes)).
    pub shapes: bool,
    /// Whether to keep boxes that have no area after clipping to the picture.
    pub flat: bool,
    /// Descriptions of the objects to find, for open-vocabulary models; empty for models with fixed
    /// classes.
    pub described: Vec<String>,
    /// Curve that raises a dark picture for the network; `None` shows it as it is.
    pub gain: Option<Gamma>,
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
            gain: None,
        }
    }
}

/// Time spent in one detection, by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DetectTimes {
    /// Scaling, colour conversion and layout.
    pub preprocess: Duration,
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
