//! What a workflow asks of the program around it: models, effects, secrets, the time of day.
//!
//! - A host that cannot do something returns an error; the step fails for that picture only.

use std::sync::Arc;

use watchkeeper_contract::effect::Effect;
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::mask::Bitmap;
use watchkeeper_vision::tiles::Tiles;

use crate::workflow::values::image::{ImageValue, RgbPixels};
use crate::workflow::values::value::{Array, Value};

/// Services of the program around the workflow.
pub trait Host {
    /// Begins a step of the frame: the calls up to the next step are its.
    fn begin_step(&mut self, _step: &Arc<str>) {}

    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String>;

    /// Detects objects in a picture, in the memory of an earlier answer. `found` is empty.
    fn detect_into(
        &mut self,
        request: &DetectRequest<'_>,
        found: &mut Detections,
    ) -> Result<(), String> {
        *found = self.detect(request)?;
        Ok(())
    }

    /// Returns whether the model's classes are kinds of objects that a step can filter by; false
    /// for the motion detector.
    fn knows_classes(&self, _request: &DetectRequest<'_>) -> bool {
        true
    }

    /// Classifies a whole picture: every class with its score.
    fn classify(&mut self, model_id: &str, _image: &ImageValue) -> Result<Vec<ClassScore>, String> {
        lacks(model_id, "classification")
    }

    /// Segments a picture: one detection per class, with the pixels as its mask. Pixels whose best
    /// score is below `confidence` (absent: the model's own) belong to no class.
    fn segment(
        &mut self,
        model_id: &str,
        _image: &ImageValue,
        _confidence: Option<f64>,
    ) -> Result<Detections, String> {
        lacks(model_id, "segmentation")
    }

    /// Returns the mask of the object in each of the boxes, in pixels; without boxes, one mask for
    /// the whole picture. With `several` a mask may cover only a part of the object.
    fn segment_prompted(
        &mut self,
        model_id: &str,
        _image: &ImageValue,
        _boxes: &[BBox],
        _several: bool,
    ) -> Result<Vec<PromptedMask>, String> {
        lacks(model_id, "prompted segmentation")
    }

    /// Estimates relative depth: rows of numbers over the whole picture, in the model's resolution.
    fn depth(&mut self, model_id: &str, _image: &ImageValue) -> Result<Array, String> {
        lacks(model_id, "depth estimation")
    }

    /// Estimates the gaze of each face found, or of the one face that fills the picture.
    fn gaze(
        &mut self,
        model_id: &str,
        _image: &ImageValue,
        _finds_faces: bool,
    ) -> Result<Vec<Gaze>, String> {
        lacks(model_id, "gaze estimation")
    }

    fn features(
        &mut self,
        model_id: &str,
        _image: &ImageValue,
        _layer: Layer,
    ) -> Result<Features, String> {
        lacks(model_id, "feature extraction")
    }

    /// Returns the anomaly score of a picture and of each of its regions.
    fn anomaly(&mut self, model_id: &str, _image: &ImageValue) -> Result<Anomaly, String> {
        lacks(model_id, "anomaly detection")
    }

    /// Returns the frames that an action recognition model needs.
    fn wants_run(&mut self, model_id: &str) -> Result<RunWanted, String> {
        lacks(model_id, "action recognition")
    }

    /// Recognises the action in a run of frames: every class with its score.
    fn recognise(
        &mut self,
        model_id: &str,
        _frames: &[Arc<RgbPixels>],
    ) -> Result<Vec<ClassScore>, String> {
        lacks(model_id, "action recognition")
    }

    /// Returns the embedding of a picture.
    fn embed(&mut self, model_id: &str, _image: &ImageValue) -> Result<Vec<f32>, String> {
        lacks(model_id, "embeddings")
    }

    /// Returns the embedding of a text, to compare with those of pictures. Called with the same
    /// texts in every frame; a host caches the results by model and text.
    fn embed_text(&mut self, model_id: &str, _text: &str) -> Result<Vec<f32>, String> {
        lacks(model_id, "embeddings")
    }

    /// Reads the text in a picture.
    fn read_text(&mut self, model_id: &str, _image: &ImageValue) -> Result<Writing, String> {
        lacks(model_id, "text recognition")
    }

    /// Queues an effect of `step` for later execution. Never blocks. Fails if it is refused, such
    /// as by a full queue; the effect is not executed then.
    fn emit(&mut self, step: &str, effect: Effect) -> Result<(), String> {
        Err(format!(
            "this host executes no effects, but step {step} wants: {}",
            effect.what()
        ))
    }

    /// Returns whether the host has a secret of this name; its text stays with the host.
    fn has_secret(&self, _name: &str) -> bool {
        false
    }

    /// Returns the time of day, if the host knows it.
    fn wall_clock(&self) -> Option<jiff::Timestamp> {
        None
    }
}

/// The error of a host that can't use a model for `what`.
fn lacks<T>(model: &str, what: &str) -> Result<T, String> {
    Err(format!(
        "model {model:?} is not used: this host has no {what}"
    ))
}

/// Text recognised in a picture.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Writing {
    /// All of the text, in reading order.
    pub text: String,
    /// Its parts; the class of each is its text.
    pub parts: Detections,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PromptedMask {
    pub mask: Bitmap,
    /// The model's estimate of the mask's quality, about `0.0..=1.0`.
    pub confidence: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Input of the last layer: similar for pictures that look alike.
    Last,
    /// Output of the last layer, one number per class, before scores are computed.
    Logits,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Features {
    pub numbers: Vec<f32>,
    /// Identifies the layer and the model; features are comparable only within one space.
    pub space: String,
}

/// Frames that an action recognition model needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunWanted {
    /// Number of frames; at least 2.
    pub frames: usize,
    /// Frames per second; above 0.
    pub fps: f64,
    /// Longest useful side of a frame in pixels.
    pub longest: u32,
    /// Default minimum score.
    pub confidence: f64,
    /// Whether several actions may happen at once.
    pub several: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Anomaly {
    /// The higher, the more unusual, on the model's own scale.
    pub score: f64,
    /// Score from which on a picture is unusual, as determined in training.
    pub threshold: f64,
    /// Excess over the threshold that is rather certain; above 0.
    pub deviation: f64,
    /// Scores of regions: rows of numbers over the whole picture, in any resolution.
    pub map: Array,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Gaze {
    /// Bounding box of the face in pixels.
    pub face: BBox,
    pub confidence: f64,
    /// Horizontal angle in degrees, negative to the left of the picture.
    pub yaw: f64,
    /// Vertical angle in degrees, negative downwards.
    pub pitch: f64,
}

/// Task that a step needs a model for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Task {
    #[default]
    Boxes,
    Masks,
    Keypoints,
    /// Bounding boxes of objects described in text.
    Described,
    Classes,
    /// The embedding of a picture.
    Numbers,
    /// Comparable embeddings of pictures and texts.
    NumbersOfTexts,
    /// Text in the picture.
    Writing,
    /// The class of each pixel.
    Segments,
    Depth,
    Gaze,
    /// Masks of the objects in given boxes.
    Prompted,
    Features,
    Anomaly,
    Actions,
}

impl Task {
    /// Names it in error messages.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::Masks => "masks",
            Self::Keypoints => "keypoints",
            Self::Described => "objects described in text",
            Self::Classes => "classes of a whole picture",
            Self::Numbers => "embeddings of pictures",
            Self::NumbersOfTexts => "embeddings of pictures and texts",
            Self::Writing => "text in a picture",
            Self::Segments => "the class of each pixel",
            Self::Depth => "a depth map",
            Self::Gaze => "gaze directions",
            Self::Prompted => "masks of objects in boxes",
            Self::Features => "classifier features",
            Self::Anomaly => "anomaly scores",
            Self::Actions => "actions in a run of frames",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClassScore {
    pub class: Arc<str>,
    pub class_id: i64,
    pub confidence: f64,
}

/// Names of classes, as a property lists them.
#[derive(Debug, Clone, Copy)]
pub struct ClassNames<'a>(&'a [Value]);

impl<'a> ClassNames<'a> {
    /// `None` if an item is not a text.
    pub(crate) fn of(list: &'a [Value]) -> Option<Self> {
        let is_text = |item: &Value| item.as_str().is_some();
        list.iter().all(is_text).then_some(Self(list))
    }

    pub fn contains(&self, class: &str) -> bool {
        self.0.iter().any(|name| name.as_str() == Some(class))
    }
}

#[derive(Debug)]
pub struct DetectRequest<'a> {
    pub step: &'a str,
    /// Model as named in the definition.
    pub model_id: &'a str,
    /// Result that is needed of each object.
    pub task: Task,
    /// Text descriptions of the objects; absent: the model's classes.
    pub described: Option<&'a [String]>,
    pub image: &'a ImageValue,
    /// Minimum score; absent: the model's own.
    pub confidence: Option<f64>,
    /// Overlap (IoU) above which the weaker of two boxes is suppressed; absent: the model's own.
    pub iou_threshold: Option<f64>,
    /// Classes to report; absent: all.
    pub class_filter: Option<ClassNames<'a>>,
    /// Whether boxes of different classes suppress each other; absent: the model's own.
    pub class_agnostic_nms: Option<bool>,
    /// Maximum number of boxes; absent: the model's own.
    pub max_detections: Option<usize>,
    /// Tiles to examine besides the whole picture; absent: none.
    pub tiles: Option<Tiles>,
}
