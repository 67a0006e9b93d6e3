//! What a workflow asks of the program around it: models, effects, secrets, the time of day.
//!
//! - A host that cannot do something returns an error; the step fails for that picture only.

use std::sync::Arc;

use watchkeeper_contract::effect::Effect;
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::mask::Bitmap;

use crate::workflow::values::image::{ImageValue, RgbPixels};
use crate::workflow::values::value::Array;

/// What the program around the workflow does for it.
pub trait Host {
    /// Runs a model on a picture.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String>;

    /// Whether the classes of a model are kinds of things, so that a step can ask for some of them. Those of one that only
    /// sees that something moves are not: what it finds is whatever was asked for.
    fn knows_classes(&self, request: &DetectRequest<'_>) -> bool {
        let _ = request;
        true
    }

    /// Asks a model what a whole picture shows: every class it knows, with its score.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn classify(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<ClassScore>, String> {
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here classifies",
            image.size()
        ))
    }

    /// Asks a model what each pixel of a picture belongs to: one detection a class, with the pixels as its mask. Pixels whose best score is
    /// below `confidence` (absent: the model's own) belong to nothing.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn segment(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        confidence: Option<f64>,
    ) -> Result<Detections, String> {
        let _ = confidence;
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here tells pixels apart",
            image.size()
        ))
    }

    /// Asks a model which pixels belong to what each of these boxes shows, in pixels of the picture: an answer for each, in their order. Without
    /// boxes there is one answer, for what the picture shows. With `several` a box may mean a part of what it shows.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn segment_prompted(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        boxes: &[BBox],
        several: bool,
    ) -> Result<Vec<PromptedMask>, String> {
        let _ = (boxes, several);
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here makes masks of what is pointed at",
            image.size()
        ))
    }

    /// Asks a model how far away the places of a picture are, in comparison with each other: rows of numbers over the whole picture, of any
    /// size, as the model gives them.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn depth(&mut self, model_id: &str, image: &ImageValue) -> Result<Array, String> {
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here tells how far things are",
            image.size()
        ))
    }

    /// Asks a model where faces look: each face that is found, or the one that the whole picture is.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn gaze(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        finds_faces: bool,
    ) -> Result<Vec<Gaze>, String> {
        let _ = finds_faces;
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here tells where faces look",
            image.size()
        ))
    }

    /// Asks a model for what its classes are made of.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn features(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        layer: Layer,
    ) -> Result<Features, String> {
        let _ = layer;
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here tells what classes are made of",
            image.size()
        ))
    }

    /// Asks a model how unusual a picture is, and each place of it.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn anomaly(&mut self, model_id: &str, image: &ImageValue) -> Result<Anomaly, String> {
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here tells what is unusual",
            image.size()
        ))
    }

    /// What a model that looks at runs of frames wants to see of a video.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn wants_run(&mut self, model_id: &str) -> Result<RunWanted, String> {
        Err(format!(
            "model {model_id:?} can't be asked about a run of frames: nothing here tells what happens"
        ))
    }

    /// Asks such a model what happens in a run of frames, of as many as it wants: every class it knows, with its score.
    ///
    /// # Errors
    /// One sentence; the run is judged by nobody.
    fn recognise(
        &mut self,
        model_id: &str,
        frames: &[Arc<RgbPixels>],
    ) -> Result<Vec<ClassScore>, String> {
        let frames = frames.len();
        Err(format!(
            "model {model_id:?} can't be asked about a run of {frames} frames: nothing here tells what happens"
        ))
    }

    /// Asks a model for the numbers that stand for a picture.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn embed(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<f32>, String> {
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here embeds",
            image.size()
        ))
    }

    /// Asks the same model for the numbers that stand for a text, to be compared with those of pictures. It is asked for
    /// the same texts in every frame; a host keeps the answers by model and text.
    ///
    /// # Errors
    /// One sentence; the step fails for this text.
    fn embed_text(&mut self, model_id: &str, text: &str) -> Result<Vec<f32>, String> {
        let length = text.chars().count();
        Err(format!(
            "model {model_id:?} can't be asked about a text of {length} characters: nothing here embeds"
        ))
    }

    /// Asks a model what is written in a picture.
    ///
    /// # Errors
    /// One sentence; the step fails for this picture.
    fn read_text(&mut self, model_id: &str, image: &ImageValue) -> Result<Writing, String> {
        Err(format!(
            "model {model_id:?} can't be asked about a picture of {:?}: nothing here reads text",
            image.size()
        ))
    }

    /// Takes over something that `step` wants done outside, to perform it later. It never waits for it.
    ///
    /// # Errors
    /// One sentence, such as that too much is waiting already; nothing will be done then.
    fn emit(&mut self, step: &str, effect: Effect) -> Result<(), String> {
        Err(format!(
            "nothing here performs what step {step} wants: {}",
            effect.what()
        ))
    }

    /// Whether there is a secret of this name where secrets are kept. What it is, stays there.
    fn has_secret(&self, _name: &str) -> bool {
        false
    }

    /// The time of day, where something here knows it.
    fn wall_clock(&self) -> Option<jiff::Timestamp> {
        None
    }
}

/// What is written in a picture.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Writing {
    /// All of it, in the order in which it is read.
    pub text: String,
    /// Where its parts are; the class of each is what it says.
    pub parts: Detections,
}

/// What belongs to one thing that was pointed at.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptedMask {
    /// Its pixels.
    pub mask: Bitmap,
    /// How well the model believes that they fit, about `0.0..=1.0`.
    pub confidence: f64,
}

/// Which numbers of a model are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// What its last layer takes: they are alike for pictures that look alike.
    Last,
    /// What its last layer makes of them: one a class, before they become scores.
    Logits,
}

/// Numbers of a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Features {
    /// The numbers.
    pub numbers: Vec<f32>,
    /// Tells numbers that can be compared with each other from others: the same for the same layer of the same model.
    pub space: String,
}

/// What a model that looks at runs of frames wants to see of a video.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunWanted {
    /// Frames of a run; at least 2.
    pub frames: usize,
    /// How many of them make a second; over 0.
    pub fps: f64,
    /// Longest side of a frame in pixels that makes a difference to it.
    pub longest: u32,
    /// Lowest score worth reporting where a step does not say.
    pub confidence: f64,
    /// Whether several things may happen at once.
    pub several: bool,
}

/// How unusual a picture is.
#[derive(Debug, Clone, PartialEq)]
pub struct Anomaly {
    /// The higher, the more unusual; in the model's own measure.
    pub score: f64,
    /// From which score on a picture is unusual, as the model's makers found.
    pub threshold: f64,
    /// By how much a score over the threshold is rather sure; over 0.
    pub deviation: f64,
    /// The same of each place: rows of numbers over the whole picture, of any size.
    pub map: Array,
}

/// A face and where it looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Gaze {
    /// The face, in pixels of the picture.
    pub face: BBox,
    /// Score of the face, `0.0..=1.0`.
    pub confidence: f64,
    /// Degrees to the side, below zero to the left of the picture.
    pub yaw: f64,
    /// Degrees upwards, below zero down.
    pub pitch: f64,
}

/// What is asked of a model, of each object that it finds or of the whole picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Task {
    /// Its box.
    #[default]
    Boxes,
    /// Its box and its mask.
    Masks,
    /// Its box and its keypoints.
    Keypoints,
    /// Its box, of objects that the step describes in words.
    Described,
    /// What the whole picture shows.
    Classes,
    /// Numbers that stand for the picture.
    Numbers,
    /// Numbers that stand for the picture, and those that stand for texts to compare it with.
    NumbersOfTexts,
    /// What is written in the picture.
    Writing,
    /// What each pixel belongs to.
    Segments,
    /// How far away each pixel is.
    Depth,
    /// Where faces look.
    Gaze,
    /// Which pixels belong to what is pointed at.
    Prompted,
    /// What its classes are made of.
    Features,
    /// How unusual the picture is.
    Anomaly,
    /// What happens in a run of frames.
    Actions,
}

impl Task {
    /// What it is, in a sentence.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::Masks => "masks",
            Self::Keypoints => "keypoints",
            Self::Described => "objects that are described in words",
            Self::Classes => "what a whole picture shows",
            Self::Numbers => "numbers of pictures",
            Self::NumbersOfTexts => "numbers of pictures and of texts",
            Self::Writing => "what is written",
            Self::Segments => "what each pixel belongs to",
            Self::Depth => "how far away things are",
            Self::Gaze => "where faces look",
            Self::Prompted => "masks of what boxes point at",
            Self::Features => "what its classes are made of",
            Self::Anomaly => "how unusual a picture is",
            Self::Actions => "what happens in a run of frames",
        }
    }
}

/// A class and its score, from a model that says what a whole picture shows.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassScore {
    /// Name of the class.
    pub class: Arc<str>,
    /// Index into the model's labels.
    pub class_id: i64,
    /// Score, `0.0..=1.0`.
    pub confidence: f64,
}

/// What a detection step asks for.
#[derive(Debug)]
pub struct DetectRequest<'a> {
    /// Name of the step.
    pub step: &'a str,
    /// Model as the definition names it.
    pub model_id: &'a str,
    /// What is wanted of each object.
    pub task: Task,
    /// The objects that are wanted, in words; absent: those that the model knows.
    pub described: Option<&'a [String]>,
    /// The picture.
    pub image: &'a ImageValue,
    /// Lowest score to report; absent: the model's own.
    pub confidence: Option<f64>,
    /// Overlap above which the weaker of two boxes goes; absent: the model's own.
    pub iou_threshold: Option<f64>,
    /// Only these classes; absent: all.
    pub class_filter: Option<&'a [String]>,
    /// Whether boxes of different classes suppress each other; absent: the model's own.
    pub class_agnostic_nms: Option<bool>,
    /// At most this many boxes; absent: the model's own limit.
    pub max_detections: Option<usize>,
}
