//! The trait that every model implements.

use std::fmt;
use std::sync::Arc;

use watchkeeper_models::manifest::Task;
use watchkeeper_models::{Manifest, Sha256Sum};
use watchkeeper_vision::frame::Frame;
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::rgb::RgbPixels;

use crate::decode::anomaly::Anomaly;
use crate::decode::depth::DepthMap;
use crate::decode::prompted::PromptedMask;
use crate::decode::segments::Segment;
use crate::decode::shapes::Shape;
use crate::detection::{DetectParams, DetectTimes, RawDetection};
use crate::error::DetectError;

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

/// What a model wants to see of a video.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunWanted {
    /// Frames of a run; at least 2.
    pub frames: usize,
    /// How many of them make a second; over 0.
    pub fps: f32,
    /// Longest side of a frame in pixels that makes a difference to it.
    pub longest: u32,
    /// Lowest score worth reporting where the caller does not say.
    pub confidence: f32,
    /// Whether several things may happen at once.
    pub several: bool,
}

/// A line of text, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadLine {
    /// What it says; never nothing, and without blanks at its ends.
    pub text: String,
    /// The upright box around it, in pixels of the picture.
    pub bbox: BBox,
    /// Mean score of its characters, `0.0..=1.0`.
    pub confidence: f32,
}

/// A face and where it looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaceGaze {
    /// The face, in pixels of the picture.
    pub face: BBox,
    /// Score of the face, `0.0..=1.0`.
    pub score: f32,
    /// Degrees to the side and upwards.
    pub angles: [f32; 2],
}

/// Answers questions about pictures, each model its own. One value serves one stream, in order: a detector may keep a memory of
/// earlier frames. Streams that use the same network share its session behind this seam.
pub trait Detector: Send {
    /// What this is.
    fn info(&self) -> &DetectorInfo;

    /// That it is asked for something that it does not do.
    fn unsupported(&self) -> DetectError {
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
        Err(self.unsupported())
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
        Err(self.unsupported())
    }

    /// Puts the numbers that stand for a frame into `out`, which is emptied first.
    ///
    /// # Errors
    /// [`DetectError`].
    fn embed(&mut self, frame: &Frame, out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        let _ = frame;
        out.clear();
        Err(self.unsupported())
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
        Err(self.unsupported())
    }

    /// Puts how unusual a frame is into `out`.
    ///
    /// # Errors
    /// [`DetectError`].
    fn anomaly(&mut self, frame: &Frame, out: &mut Anomaly) -> Result<DetectTimes, DetectError> {
        let _ = frame;
        *out = Anomaly::default();
        Err(self.unsupported())
    }

    /// The numbers that stand for a text.
    ///
    /// # Errors
    /// [`DetectError`].
    fn embed_text(&mut self, text: &str) -> Result<Arc<[f32]>, DetectError> {
        let _ = text;
        Err(self.unsupported())
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
        Err(self.unsupported())
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
        Err(self.unsupported())
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
        Err(self.unsupported())
    }

    /// Puts how far away everything in a frame is into `out`.
    ///
    /// # Errors
    /// [`DetectError`].
    fn depth(&mut self, frame: &Frame, out: &mut DepthMap) -> Result<DetectTimes, DetectError> {
        let _ = frame;
        *out = DepthMap::default();
        Err(self.unsupported())
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
        Err(self.unsupported())
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
        Err(self.unsupported())
    }
}

impl fmt::Debug for dyn Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}
