//! Blocks at run time: one instance per step, called once per element.
//!
//! Invariant: a block sees its properties as values in the order of its manifest and never a selector, a name or another
//! step; it reads no clock, the time is in the [`Call`]. A [`Block`] remembers nothing: one that does is
//! [`Stateful`](crate::workflow::block_api::stateful::Stateful).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde_json::{Map, Value as Json};
use watchkeeper_contract::effect::Effect;
use watchkeeper_vision::detections::{DetectionId, Detections};
use watchkeeper_vision::geometry::{Anchor, BBox};
use watchkeeper_vision::mask::Bitmap;

use crate::workflow::block_api::stateful::Memory;
use crate::workflow::plan::compiled::{PlanInput, PlanStep, Source};
use crate::workflow::values::image::{ImageValue, RgbPixels};
use crate::workflow::values::value::{Array, Value};

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

/// What a block is made from.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    /// Properties as the definition has them, by canonical name.
    pub(crate) literals: &'a Map<String, Json>,
}

impl Setup<'_> {
    /// Reads a property with a grammar of its own.
    ///
    /// # Errors
    /// Where it doesn't fit, which the check of the definition has excluded.
    pub(crate) fn parse<T: serde::de::DeserializeOwned>(
        &self,
        property: &str,
    ) -> Result<T, String> {
        let json = self.literals.get(property).cloned().unwrap_or(Json::Null);
        serde_json::from_value(json).map_err(|e| format!("{property}: {e}"))
    }
}

/// One call of a block.
pub(crate) struct Call<'a> {
    /// Name of the step.
    pub(crate) step: &'a str,
    /// The step in the plan, for what a message says about its properties.
    pub(crate) plan_step: &'a PlanStep,
    /// Inputs of the workflow, each at the number of its slot, for the same.
    pub(crate) inputs: &'a [PlanInput],
    /// Monotonic time.
    pub(crate) now: Duration,
    /// Values of the properties, in the order of the manifest.
    pub(crate) args: &'a [Value],
    /// Where the outputs go, in the order of the manifest; all null at first.
    pub(crate) out: &'a mut [Value],
    /// What the outputs were in the last frame, for its memory; see [`Call::blank`].
    pub(crate) spare: &'a mut [Value],
    /// Which branches go on, in the order in which the definition declares them; all false at first.
    pub(crate) branches: &'a mut [bool],
    /// Keys of the branches of a dictionary property, in the same order.
    pub(crate) cases: &'a [Arc<str>],
    /// The program around the workflow.
    pub(crate) host: &'a mut dyn Host,
    /// Where new identities and random numbers come from.
    pub(crate) ids: &'a Ids,
    /// What all steps of this running workflow remember together.
    pub(crate) shared: &'a mut Shared,
    /// How many elements are still to come in this run; known only where the manifest says `whole_batch`.
    pub(crate) left: usize,
}

/// The count of a running workflow, by which identities are made for what blocks make anew, and random numbers are drawn.
/// It is saved with what the blocks remember, so that both go on over a restart.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Tells this running workflow from others.
    pub(crate) stream: u64,
    /// The last number given.
    pub(crate) last: Cell<u64>,
}

impl Ids {
    /// The next number of the count.
    pub(crate) fn count(&self) -> u64 {
        let number = self.last.get().wrapping_add(1);
        self.last.set(number);
        number
    }
}

/// What all steps of a running workflow remember together: values by place and key. Bounded: of too many keys, that which
/// comes first in the alphabet is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Shared(BTreeMap<(Arc<str>, Arc<str>), Value>);

impl Shared {
    /// Most values remembered.
    const MOST: usize = 4096;

    /// The value of `key` at `place`.
    pub(crate) fn get(&self, place: &Arc<str>, key: &Arc<str>) -> Option<&Value> {
        self.0.get(&(Arc::clone(place), Arc::clone(key)))
    }

    /// Remembers a value.
    pub(crate) fn set(&mut self, place: &Arc<str>, key: &Arc<str>, value: Value) {
        self.0.insert((Arc::clone(place), Arc::clone(key)), value);
        if self.0.len() > Self::MOST {
            self.0.pop_first();
        }
    }

    /// Everything that is remembered, by place and key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(Arc<str>, Arc<str>), &Value)> {
        self.0.iter()
    }
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("step", &self.step)
            .field("now", &self.now)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}

/// One step's instance of a block that remembers nothing: what it does follows from the call alone.
pub(crate) trait Block: Send + Sync {
    /// Works on one element.
    ///
    /// # Errors
    /// As [`Instance::run`].
    fn run(&self, call: &mut Call<'_>) -> Result<(), String>;
}

/// One step of a running workflow: a block, with its state where it has one.
pub(crate) trait Instance: Send {
    /// Works on one element.
    ///
    /// # Errors
    /// One sentence; the step fails for this element and the steps that need it are skipped.
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String>;

    /// What it remembers, to be saved.
    fn memory(&self) -> Option<&dyn Memory> {
        None
    }

    /// The same, to be restored.
    fn memory_mut(&mut self) -> Option<&mut dyn Memory> {
        None
    }
}

impl<B: Block> Instance for B {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        Block::run(self, call)
    }
}

impl<'a> Call<'a> {
    /// Property `index`.
    #[must_use]
    pub(crate) fn arg(&self, index: usize) -> &'a Value {
        const NULL: &Value = &Value::Null;
        self.args.get(index).unwrap_or(NULL)
    }

    /// That property `index` is not what is `expected`: which one it is, and what can be done where an input of the workflow is meant to bring it.
    fn unfit(&self, index: usize, expected: &str) -> String {
        let found = self.arg(index);
        let what = found.what();
        let property = self.plan_step.manifest.properties.get(index);
        let name = property.map_or("a property", |p| p.name);
        let told = format!("{name}: {expected} expected, got {what}");
        match self.plan_step.args.get(index) {
            Some(Source::Slot(slot)) => match self.inputs.get(*slot) {
                Some(input) if found.is_null() => format!(
                    "{told}; give input {} a value, or a default_value in the definition",
                    input.name
                ),
                Some(input) => format!("{told}; input {} brings it", input.name),
                None => told,
            },
            _ => told,
        }
    }

    /// Property `index` as detections.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn detections(&self, index: usize) -> Result<&'a Arc<Detections>, String> {
        match self.arg(index) {
            Value::Detections(d) => Ok(d),
            _ => Err(self.unfit(index, "detections")),
        }
    }

    /// Property `index` as an image.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn image(&self, index: usize) -> Result<&'a Arc<ImageValue>, String> {
        match self.arg(index) {
            Value::Image(image) => Ok(image),
            _ => Err(self.unfit(index, "an image")),
        }
    }

    /// Property `index` as a number, or `default` where it is null.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn number(&self, index: usize, default: f64) -> Result<f64, String> {
        match self.arg(index) {
            Value::Null => Ok(default),
            v => v.as_f64().ok_or_else(|| self.unfit(index, "a number")),
        }
    }

    /// [`number`](Self::number), also where it is a text that says one: what a model is asked may come so from a parameter.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn number_or_text(&self, index: usize, default: f64) -> Result<f64, String> {
        match self.arg(index).as_str().map(|text| text.trim().parse()) {
            Some(Ok(number)) => Ok(number),
            _ => self.number(index, default),
        }
    }

    /// Property `index` as a whole number, or `default` where it is null.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn integer(&self, index: usize, default: i64) -> Result<i64, String> {
        match self.arg(index) {
            Value::Null => Ok(default),
            v => v
                .as_i64()
                .ok_or_else(|| self.unfit(index, "a whole number")),
        }
    }

    /// Property `index` as a boolean, or `default` where it is null.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn boolean(&self, index: usize, default: bool) -> Result<bool, String> {
        match self.arg(index) {
            Value::Null => Ok(default),
            Value::Bool(b) => Ok(*b),
            _ => Err(self.unfit(index, "a boolean")),
        }
    }

    /// Property `index` as text.
    ///
    /// # Errors
    /// Where it is something else.
    pub(crate) fn text(&self, index: usize) -> Result<&'a str, String> {
        let text = self.arg(index).as_str();
        text.ok_or_else(|| self.unfit(index, "a string"))
    }

    /// Property `index` as the name of an anchor; `None` where it is null.
    ///
    /// # Errors
    /// Where it is no such name.
    pub(crate) fn anchor(&self, index: usize) -> Result<Option<Anchor>, String> {
        if self.arg(index).is_null() {
            return Ok(None);
        }
        let name = self.text(index)?;
        let name_only: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
        Anchor::deserialize(name_only)
            .map(Some)
            .map_err(|_| format!("{name:?} is no anchor; use CENTER, BOTTOM_CENTER and so on"))
    }

    /// An identity that no other box of this running workflow has.
    pub(crate) fn new_id(&self) -> DetectionId {
        DetectionId::Local {
            stream: self.ids.stream,
            number: self.ids.count(),
        }
    }

    /// An empty list of detections for output `index`, which nobody else holds: in the memory of the one that it had in the
    /// last frame, unless someone keeps that.
    pub(crate) fn blank(&mut self, index: usize) -> Arc<Detections> {
        let before = self.spare.get_mut(index).map(std::mem::take);
        let mut blank = match before {
            Some(Value::Detections(all)) => all,
            _ => return Arc::default(),
        };
        match Arc::get_mut(&mut blank) {
            Some(all) => {
                all.boxes.clear();
                blank
            }
            None => Arc::default(),
        }
    }

    /// Puts `value` into output `index`.
    pub(crate) fn put(&mut self, index: usize, value: impl Into<Value>) {
        if let Some(slot) = self.out.get_mut(index) {
            *slot = value.into();
        }
    }

    /// Lets branch `index` go on.
    pub(crate) fn go_on(&mut self, index: usize) {
        if let Some(branch) = self.branches.get_mut(index) {
            *branch = true;
        }
    }
}
