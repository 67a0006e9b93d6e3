//! The trait that every model implements, and the results that only one kind of model returns.

use std::fmt;
use std::sync::Arc;

use watchkeeper_models::manifest::Task;
use watchkeeper_models::{Manifest, Sha256Sum};
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::rgb::RgbPixels;

use crate::backend_in_use::BackendInUse;
use crate::decode::anomaly::Anomaly;
use crate::decode::depth::DepthMap;
use crate::decode::prompted::PromptedMask;
use crate::decode::segments::Segment;
use crate::decode::shapes::Shape;
use crate::detection::{DetectParams, DetectTimes, RawDetection};
use crate::error::DetectError;
use crate::stream_network::SharedNetwork;

/// Identity and properties of a detector.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectorInfo {
    pub model: Arc<str>,
    /// Back end that runs it now, such as `rten`.
    pub backend: BackendInUse,
    /// Threads of one inference, where the back end had some on the processor at the opening.
    pub threads: Option<usize>,
    /// Copies of whole tensors in one run, if that is known.
    pub tensor_copies: Option<u32>,
    pub task: Task,
    /// Width and height of a network's input; absent for the motion detector.
    pub input: Option<[u32; 2]>,
    /// Class names, by class id.
    pub labels: Arc<[Arc<str>]>,
    /// Whether class names are kinds of objects; false for the motion detector, whose one class is
    /// `motion`.
    pub knows_classes: bool,
    /// Whether it compares a picture with earlier ones, as the motion detector does. Such a value
    /// serves one step that sees the same view in every frame.
    pub follows_one_picture: bool,
    /// Digest of the model's name and preprocessing: embeddings of one network with equal digests
    /// are comparable. It does not cover the network's file.
    pub space: Option<Sha256Sum>,
    pub own: OwnThresholds,
}

/// A model's thresholds for requests that set none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OwnThresholds {
    /// Lowest score to report.
    pub confidence: f32,
    /// Overlap above which the weaker of two boxes is suppressed; absent: none is.
    pub iou: Option<f32>,
    /// Whether boxes of different classes suppress each other.
    pub class_agnostic: bool,
}

impl DetectorInfo {
    /// Describes a model over a network.
    pub(crate) fn of(manifest: &Manifest, network: &SharedNetwork) -> Self {
        let network = network.get();
        Self {
            model: manifest.name.as_str().into(),
            backend: network.in_use(),
            threads: network.threads(),
            tensor_copies: network.tensor_copies(),
            task: manifest.task,
            input: Some([manifest.input.width, manifest.input.height]),
            labels: manifest.labels.clone(),
            knows_classes: true,
            follows_one_picture: false,
            space: Some(space(manifest)),
            own: OwnThresholds {
                confidence: manifest.confidence,
                iou: manifest.nms.map(|nms| nms.iou),
                class_agnostic: manifest.nms.is_some_and(|nms| nms.class_agnostic),
            },
        }
    }
}

/// Digest of the model's name and its preprocessing.
fn space(manifest: &Manifest) -> Sha256Sum {
    let input = &manifest.input;
    let described = format!(
        "{} {}x{} {:?} {:?} {} {:?} {:?} {:?}",
        manifest.name,
        input.width,
        input.height,
        input.layout,
        input.colour,
        input.scale,
        input.mean,
        input.std,
        input.fit
    );
    Sha256Sum::of(described.as_bytes())
}

/// The sequence of frames that an action model takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunWanted {
    /// Frames of a sequence; at least 2.
    pub frames: usize,
    /// Frames per second within a sequence; over 0.
    pub fps: f32,
    /// Longest useful side of a frame in pixels.
    pub longest: u32,
    /// Lowest score to report when the caller sets none.
    pub confidence: f32,
    /// Whether several actions may happen at once.
    pub several: bool,
}

/// A recognised line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadLine {
    /// Never empty; without white space at its ends.
    pub text: String,
    /// Upright bounding box, in pixels of the picture.
    pub bbox: BBox,
    /// Mean score of its characters, `0.0..=1.0`.
    pub confidence: f32,
}

/// A face and the direction in which it looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaceGaze {
    /// Bounding box of the face, in pixels of the picture.
    pub face: BBox,
    /// Score of the face, `0.0..=1.0`.
    pub score: f32,
    /// Degrees to the side and upwards, 0 straight ahead.
    pub angles: [f32; 2],
}

/// A model: each method is one task, and a model rejects the tasks that it is not made for.
///
/// One value serves one stream, in order, because a detector may keep state of earlier frames.
/// Streams with the same network share its session below this trait.
pub trait Detector: Send {
    fn info(&self) -> &DetectorInfo;

    /// The error of a method that this model does not support.
    fn unsupported(&self) -> DetectError {
        DetectError::Task {
            model: self.info().model.to_string(),
            task: self.info().task,
        }
    }

    /// Detects objects in a frame. Clears `out` first.
    ///
    /// # Errors
    /// [`DetectError`]; the detector stays usable and `out` is unspecified, as for every method.
    fn detect(
        &mut self,
        _frame: &Frame,
        _params: &DetectParams,
        _out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Masks or keypoints of the last frame's detections, in the same order. Empty unless
    /// [`DetectParams::shapes`] was set and the model has them.
    fn shapes(&self) -> &[Shape] {
        &[]
    }

    /// Classifies the whole frame: one score `0.0..=1.0` per class. Clears `out` first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn classify(
        &mut self,
        _frame: &Frame,
        _out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Computes the embedding of a frame. Clears `out` first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn embed(&mut self, _frame: &Frame, _out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Returns the input of a classifier's last layer, or its logits with `logits`. Clears `out`
    /// first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn features(
        &mut self,
        _frame: &Frame,
        _logits: bool,
        _out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Computes how unusual a frame is.
    ///
    /// # Errors
    /// [`DetectError`].
    fn anomaly(&mut self, _frame: &Frame, _out: &mut Anomaly) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Computes the embedding of a text.
    ///
    /// # Errors
    /// [`DetectError`].
    fn embed_text(&mut self, _text: &str) -> Result<Arc<[f32]>, DetectError> {
        Err(self.unsupported())
    }

    /// Segments a frame by class. Clears `out` first. Pixels with a score below `confidence`
    /// (`None`: the model's own) belong to no segment.
    ///
    /// # Errors
    /// [`DetectError`].
    fn segment(
        &mut self,
        _frame: &Frame,
        _confidence: Option<f32>,
        _out: &mut Vec<Segment>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Segments the object in each box, in pixels of the frame; without boxes, the main object of
    /// the frame. Clears `out` first. With `several` a box may mean a part of the object.
    ///
    /// # Errors
    /// [`DetectError`].
    fn segment_prompted(
        &mut self,
        _frame: &Frame,
        _boxes: &[BBox],
        _several: bool,
        _out: &mut Vec<PromptedMask>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// The sequence of frames that an action model takes; `None` for other models.
    fn wants_run(&self) -> Option<RunWanted> {
        None
    }

    /// Recognises actions in the sequence of frames that [`Self::wants_run`] describes: one score
    /// `0.0..=1.0` per class. Clears `out` first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn recognise(
        &mut self,
        _frames: &[Arc<RgbPixels>],
        _out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Estimates the depth of each point of a frame.
    ///
    /// # Errors
    /// [`DetectError`].
    fn depth(&mut self, _frame: &Frame, _out: &mut DepthMap) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Reads the lines of text in a frame. Clears `out` first. `rgb` is the frame's picture in RGB.
    ///
    /// # Errors
    /// [`DetectError`].
    fn read(
        &mut self,
        _frame: &Frame,
        _rgb: &RgbPixels,
        _out: &mut Vec<ReadLine>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }

    /// Estimates where the faces in a frame look. Clears `out` first. Without `finds_faces` the
    /// whole frame is one face. `rgb` is the frame's picture in RGB.
    ///
    /// # Errors
    /// [`DetectError`].
    fn gaze(
        &mut self,
        _frame: &Frame,
        _rgb: &RgbPixels,
        _finds_faces: bool,
        _out: &mut Vec<FaceGaze>,
    ) -> Result<DetectTimes, DetectError> {
        Err(self.unsupported())
    }
}

impl fmt::Debug for dyn Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::manifest;

    /// Stored embeddings name their space, so another digest would make all of them incomparable.
    #[test]
    fn the_space_of_a_manifest_never_changes() {
        assert_eq!(
            space(&manifest()).to_string(),
            "52f872a980b1c4ea03a930f258dccd88e264ae9fbdced775108753c9e7aa5fa0"
        );
    }
}
