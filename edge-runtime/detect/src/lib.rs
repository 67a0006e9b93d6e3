//! Pictures to detections.
//!
//! Owns the [`Detector`] seam: every back end (pure Rust network, ONNX Runtime, the motion detector, later TensorRT)
//! answers the same question. Invariant: boxes are in pixels of the picture that was handed in, clipped to it, sorted by
//! falling score; no tensor type leaves this folder.
//!
//! Map: [`pool`] opens detectors; [`neural`] is the one over a network that finds objects or classifies, [`whole`] says other
//! things of whole pictures, [`read`] reads them, [`gaze`] tells where faces look, [`prompted`] which pixels belong to what is pointed at,
//! [`actions`] what happens in a run of frames; `look` is one stream's way to a network and
//! `text` the way from words to numbers, with [`preprocess`] (planes to tensor, [`letterbox`]
//! geometry), [`network`] (the back-end seam: [`rten`] and `ort`, chosen by [`backend`]), [`decode`] (tensors to boxes),
//! [`nms`], and [`shared`] (streams take turns at one session); [`motion`] is the one that needs no weights.

pub mod actions;
pub mod backend;
mod colour;
pub mod decode;
pub mod gaze;
pub mod letterbox;
mod look;
pub mod motion;
pub mod network;
pub mod neural;
pub mod nms;
#[cfg(feature = "ort")]
pub mod ort;
pub mod pool;
pub mod preprocess;
pub mod prompted;
pub mod read;
pub mod rten;
pub mod shared;
#[cfg(test)]
pub(crate) mod testing;
mod text;
pub mod whole;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_models::manifest::Task;
use watchkeeper_models::{Manifest, Sha256Sum};
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::rgb::RgbPixels;

pub use actions::RunWanted;
pub use backend::{BackendChoice, OrtPlaces};
pub use decode::anomaly::Anomaly;
pub use decode::depth::DepthMap;
pub use decode::prompted::PromptedMask;
pub use decode::segments::Segment;
pub use decode::shapes::Shape;
pub use gaze::FaceGaze;
pub use look::SharedNetwork;
pub use pool::{DetectorPool, OpenError, OpenRequest};
pub use read::ReadLine;

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

/// What a detector is.
#[derive(Debug, Clone, PartialEq)]
pub struct DetectorInfo {
    /// Name of the model.
    pub model: String,
    /// Back end that runs it, such as `rten`.
    pub backend: String,
    /// What it does.
    pub task: Task,
    /// Class names by class id.
    pub labels: Arc<[Arc<str>]>,
    /// Whether class names are kinds of things (a network) or not (the motion detector, whose one class is `motion`).
    pub knows_classes: bool,
    /// Whether it compares a picture with those before (the motion detector): one value serves one step that sees the same
    /// place in every frame.
    pub follows_one_picture: bool,
    /// Tells numbers that it makes of pictures from those of others: a digest of its name and of the picture that it wants.
    pub space: Option<Sha256Sum>,
}

impl DetectorInfo {
    /// That of a model over a network.
    pub(crate) fn of(manifest: &Manifest, backend: &str) -> Self {
        Self {
            model: manifest.name.clone(),
            backend: backend.to_owned(),
            task: manifest.task,
            labels: manifest.labels.clone(),
            knows_classes: true,
            follows_one_picture: false,
            space: Some(space(manifest)),
        }
    }
}

/// A digest of what makes numbers of pictures comparable: the name of the model, and all that is done to a picture before it sees it.
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

/// Why a detection failed.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The back end refused or broke.
    #[error("{model} on {backend}: {message}")]
    Backend {
        /// Which model.
        model: String,
        /// Which back end.
        backend: String,
        /// What it said.
        message: String,
    },
    /// It is asked for something that it does not do.
    #[error("{model} is a model for {}, and nothing else", .task.name())]
    Task {
        /// Which model.
        model: String,
        /// What it does.
        task: Task,
    },
    /// The picture can't be used, such as one of zero width.
    #[error("a picture of {width}x{height} can't be examined")]
    Picture {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
}

/// Answers questions about pictures, each model its own. One value serves one stream, in order: a detector may keep a memory of
/// earlier frames. Streams that use the same network share its session behind this seam.
pub trait Detector: Send {
    /// What this is.
    fn info(&self) -> &DetectorInfo;

    /// That it is asked for something that it does not do.
    fn only(&self) -> DetectError {
        DetectError::Task {
            model: self.info().model.clone(),
            task: self.info().task,
        }
    }

    /// Examines one frame and puts what it found into `out`, which is emptied first.
    ///
    /// # Errors
    /// [`DetectError`]; the detector can be used again afterwards, as for every question.
    fn detect(
        &mut self,
        frame: &Frame,
        params: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        let _ = (frame, params);
        out.clear();
        Err(self.only())
    }

    /// What the objects of the last picture are besides their boxes, in the same order; nothing unless [`DetectParams::shapes`] asked for it and
    /// the model has it.
    fn shapes(&self) -> &[Shape] {
        &[]
    }

    /// Asks a classifier what the whole frame shows and puts the score of each class, `0.0..=1.0`, into `out`, which is emptied first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn classify(&mut self, frame: &Frame, out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        let _ = frame;
        out.clear();
        Err(self.only())
    }

    /// Puts the numbers that stand for a frame into `out`, which is emptied first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn embed(&mut self, frame: &Frame, out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        let _ = frame;
        out.clear();
        Err(self.only())
    }

    /// Puts what the last layer of a model takes into `out`, which is emptied first, or with `logits` what it makes of that.
    ///
    /// # Errors
    /// [`DetectError`].
    fn features(
        &mut self,
        frame: &Frame,
        logits: bool,
        out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        let _ = (frame, logits);
        out.clear();
        Err(self.only())
    }

    /// Puts how unusual a frame is into `out`.
    ///
    /// # Errors
    /// [`DetectError`].
    fn anomaly(&mut self, frame: &Frame, out: &mut Anomaly) -> Result<DetectTimes, DetectError> {
        let _ = frame;
        *out = Anomaly::default();
        Err(self.only())
    }

    /// The numbers that stand for a text.
    ///
    /// # Errors
    /// [`DetectError`].
    fn embed_text(&mut self, text: &str) -> Result<Arc<[f32]>, DetectError> {
        let _ = text;
        Err(self.only())
    }

    /// Puts what the pixels of a frame belong to into `out`, which is emptied first; those whose score is below `confidence` (absent: the model's
    /// own) belong to nothing.
    ///
    /// # Errors
    /// [`DetectError`].
    fn segment(
        &mut self,
        frame: &Frame,
        confidence: Option<f32>,
        out: &mut Vec<Segment>,
    ) -> Result<DetectTimes, DetectError> {
        let _ = (frame, confidence);
        out.clear();
        Err(self.only())
    }

    /// Puts which pixels belong to what each of these boxes shows, in pixels of the frame, into `out`, which is emptied first; without boxes, to what
    /// the frame shows. With `several` a box may mean a part of what it shows.
    ///
    /// # Errors
    /// [`DetectError`].
    fn segment_prompted(
        &mut self,
        frame: &Frame,
        boxes: &[BBox],
        several: bool,
        out: &mut Vec<PromptedMask>,
    ) -> Result<DetectTimes, DetectError> {
        let _ = (frame, boxes, several);
        out.clear();
        Err(self.only())
    }

    /// What it wants to see of a video, where it looks at runs of frames.
    fn wants_run(&self) -> Option<RunWanted> {
        None
    }

    /// Puts the score of each class that happens in a run of as many frames as [`Self::wants_run`] says, `0.0..=1.0`, into `out`, which is emptied first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn recognise(
        &mut self,
        frames: &[Arc<RgbPixels>],
        out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        let _ = frames;
        out.clear();
        Err(self.only())
    }

    /// Puts how far away everything in a frame is into `out`.
    ///
    /// # Errors
    /// [`DetectError`].
    fn depth(&mut self, frame: &Frame, out: &mut DepthMap) -> Result<DetectTimes, DetectError> {
        let _ = frame;
        *out = DepthMap::default();
        Err(self.only())
    }

    /// Puts the lines that are written in a frame into `out`, which is emptied first. `rgb` is the same picture in colours.
    ///
    /// # Errors
    /// [`DetectError`].
    fn read(
        &mut self,
        frame: &Frame,
        rgb: &RgbPixels,
        out: &mut Vec<ReadLine>,
    ) -> Result<DetectTimes, DetectError> {
        let _ = (frame, rgb);
        out.clear();
        Err(self.only())
    }

    /// Puts where the faces in a frame look into `out`, which is emptied first; without `finds_faces` the frame is one. `rgb` is the same picture in
    /// colours.
    ///
    /// # Errors
    /// [`DetectError`].
    fn gaze(
        &mut self,
        frame: &Frame,
        rgb: &RgbPixels,
        finds_faces: bool,
        out: &mut Vec<FaceGaze>,
    ) -> Result<DetectTimes, DetectError> {
        let _ = (frame, rgb, finds_faces);
        out.clear();
        Err(self.only())
    }
}

impl fmt::Debug for dyn Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}
