//! The workflow's way to a detector, and its way out of the box.
//!
//! Owns the frame that is being processed, the detectors and their last answers. Invariants: what a step wants done outside is handed over and
//! never waited for; the engine sees class names and
//! boxes in pixels only, how a class id becomes a name is settled here; an answer that is held is given for the picture it was
//! found in, or for one of the same place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use watchkeeper_contract::effect::Effect;
use watchkeeper_detect::{
    DepthMap, DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, FaceGaze,
    RawDetection, Shape,
};
use watchkeeper_engine::workflow::{
    Anomaly, Array, ClassScore, DetectRequest, Features, Gaze, Host, ImageValue, Layer, Pixels,
    PromptedMask, RgbPixels, RunWanted, Task, Writing,
};
use watchkeeper_models::Sha256Sum;
use watchkeeper_models::manifest::Task as Does;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections, Extra};
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::mask::Mask;

use super::detectors::Detectors;
use crate::clock;
use crate::effects::Outlet;

/// The frame that is being processed, and the value under which the workflow knows its pixels.
#[derive(Clone)]
struct Current {
    frame: Frame,
    pixels: Arc<dyn Pixels>,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.frame.id.fmt(f)
    }
}

impl Current {
    /// The frame to examine for `image`: the camera's own where the workflow hands on the camera's picture, else one made of
    /// the picture that a step made (a crop, say).
    fn frame_of(&self, image: &ImageValue) -> Frame {
        if Arc::ptr_eq(&self.pixels, &image.pixels) {
            return self.frame.clone();
        }
        let rgb = image.pixels.rgb();
        Frame {
            picture: Picture::rgb(rgb.width, rgb.height, rgb.data.clone()),
            ..self.frame.clone()
        }
    }
}

/// What was told about the pictures of a frame, in the order in which it was asked.
#[derive(Debug)]
struct Answers<T> {
    held: Vec<Answer<T>>,
    /// How often it was asked in this frame.
    asked: usize,
}

/// What was found in one picture; nothing where the model failed.
#[derive(Debug)]
struct Answer<T> {
    place: Place,
    found: Option<T>,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self {
            held: Vec::new(),
            asked: 0,
        }
    }
}

/// Which part of the camera's picture a picture shows: its left upper corner, and its size in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    offset: [i64; 2],
    size: [u32; 2],
}

impl Place {
    fn of(image: &ImageValue) -> Self {
        Self {
            offset: image.place.as_ref().map_or([0, 0], |p| p.root.offset),
            size: image.size(),
        }
    }
}

impl<T> Answers<T> {
    /// A frame begins.
    fn begin(&mut self) {
        self.asked = 0;
    }

    /// What was found in the picture that is asked about now, if it is the one that was examined at this turn.
    fn for_this(&self, place: Place) -> Option<&T> {
        let answer = self.held.get(self.asked)?;
        answer.found.as_ref().filter(|_| answer.place == place)
    }

    /// Keeps what was found at this turn, which is over.
    fn keep(&mut self, place: Place, found: Option<T>) {
        let answer = Answer { place, found };
        match self.held.get_mut(self.asked) {
            Some(old) => *old = answer,
            // No turn is left out, so this is the next one.
            None => self.held.push(answer),
        }
        self.asked += 1;
    }

    /// The frame is over: what was not asked about in it is forgotten.
    fn end(&mut self) {
        self.held.truncate(self.asked);
    }
}

/// What models said that steps ask something else than for objects, by the model.
#[derive(Debug, Default)]
struct Answered {
    classes: BTreeMap<String, Answers<Vec<ClassScore>>>,
    numbers: BTreeMap<String, Answers<Vec<f32>>>,
    writings: BTreeMap<String, Answers<Writing>>,
    segments: BTreeMap<String, Answers<Detections>>,
    depths: BTreeMap<String, Answers<Array>>,
    gazes: BTreeMap<String, Answers<Vec<Gaze>>>,
    prompted: BTreeMap<String, Answers<Prompted>>,
    features: BTreeMap<String, Answers<(Layer, Features)>>,
    anomalies: BTreeMap<String, Answers<Anomaly>>,
}

/// Masks, and what they were asked for.
#[derive(Debug, Clone)]
struct Prompted {
    boxes: Vec<BBox>,
    several: bool,
    masks: Vec<PromptedMask>,
}

impl Answered {
    /// A frame begins.
    fn begin(&mut self) {
        self.classes.values_mut().for_each(Answers::begin);
        self.numbers.values_mut().for_each(Answers::begin);
        self.writings.values_mut().for_each(Answers::begin);
        self.segments.values_mut().for_each(Answers::begin);
        self.depths.values_mut().for_each(Answers::begin);
        self.gazes.values_mut().for_each(Answers::begin);
        self.prompted.values_mut().for_each(Answers::begin);
        self.features.values_mut().for_each(Answers::begin);
        self.anomalies.values_mut().for_each(Answers::begin);
    }

    /// It is over.
    fn end(&mut self) {
        self.classes.values_mut().for_each(Answers::end);
        self.numbers.values_mut().for_each(Answers::end);
        self.writings.values_mut().for_each(Answers::end);
        self.segments.values_mut().for_each(Answers::end);
        self.depths.values_mut().for_each(Answers::end);
        self.gazes.values_mut().for_each(Answers::end);
        self.prompted.values_mut().for_each(Answers::end);
        self.features.values_mut().for_each(Answers::end);
        self.anomalies.values_mut().for_each(Answers::end);
    }
}

/// Where the answers to one kind of question are kept.
type Kept<T> = fn(&mut Answered) -> &mut BTreeMap<String, Answers<T>>;

/// Serves the detection steps of one pipeline.
#[derive(Debug)]
pub struct DetectHost {
    detectors: Detectors,
    stream: u64,
    boxes: u64,
    frame: Option<Current>,
    /// Closed gate: the last answers of each step hold.
    hold: bool,
    /// By step.
    answers: BTreeMap<String, Answers<Detections>>,
    /// By model.
    answered: Answered,
    raw: Vec<RawDetection>,
    times: DetectTimes,
    /// Each time a model was asked in this frame.
    inferences: Vec<(String, Duration)>,
    flat: bool,
    /// Where it goes what steps want done outside; absent: nowhere.
    outlet: Option<Outlet>,
}

impl DetectHost {
    /// A host for these detectors. `stream` tells the boxes of this run from those of others.
    #[must_use]
    pub fn new(detectors: Detectors, stream: u64) -> Self {
        Self {
            detectors,
            stream,
            boxes: 0,
            frame: None,
            hold: false,
            answers: BTreeMap::new(),
            answered: Answered::default(),
            raw: Vec::new(),
            times: DetectTimes::default(),
            inferences: Vec::new(),
            flat: false,
            outlet: None,
        }
    }

    /// Whether boxes that lie beside the picture are kept, without an area. They are of no use to anything; it is for answers that have to be as another engine's.
    #[must_use]
    pub fn keeping_flat(mut self, flat: bool) -> Self {
        self.flat = flat;
        self
    }

    /// Hands over to `outlet` what steps want done outside.
    #[must_use]
    pub fn with_outlet(mut self, outlet: Outlet) -> Self {
        self.outlet = Some(outlet);
        self
    }

    /// What serves its steps.
    #[must_use]
    pub fn detectors(&self) -> &Detectors {
        &self.detectors
    }

    /// Starts a frame. With `hold` no detector runs: nothing moved, so the last boxes still hold, and are marked as held.
    pub fn begin(&mut self, frame: &Frame, pixels: &Arc<dyn Pixels>, hold: bool) {
        self.frame = Some(Current {
            frame: frame.clone(),
            pixels: Arc::clone(pixels),
        });
        self.hold = hold;
        self.answers.values_mut().for_each(Answers::begin);
        self.answered.begin();
        self.times = DetectTimes::default();
    }

    /// Ends the frame, lets go of its pixels and says what detection cost.
    pub fn end(&mut self) -> DetectTimes {
        self.frame = None;
        if !self.hold {
            self.answers.values_mut().for_each(Answers::end);
            self.answered.end();
        }
        self.times
    }

    /// The models that were asked since the last call, with the time each took to infer.
    pub fn take_inferences(&mut self) -> Vec<(String, Duration)> {
        std::mem::take(&mut self.inferences)
    }

    fn frame_of(&self, image: &ImageValue) -> Result<Frame, String> {
        let frame = self.frame.as_ref();
        let frame = frame.ok_or("a step that asks a model ran outside a frame")?;
        Ok(frame.frame_of(image))
    }

    /// What a model answers about a picture: what it said last where the gate is closed, else what `ask` hears from it now.
    fn answer<T: Clone>(
        &mut self,
        kept: Kept<T>,
        model: &str,
        image: &ImageValue,
        ask: impl FnOnce(&mut Self, &Frame) -> Result<T, String>,
    ) -> Result<T, String> {
        self.answer_if(kept, model, image, |_| true, ask)
    }

    /// The same of a question that is more than its picture: what was said last holds only where it was asked the same.
    fn answer_if<T: Clone>(
        &mut self,
        kept: Kept<T>,
        model: &str,
        image: &ImageValue,
        holds: impl FnOnce(&T) -> bool,
        ask: impl FnOnce(&mut Self, &Frame) -> Result<T, String>,
    ) -> Result<T, String> {
        let place = Place::of(image);
        let answers = kept(&mut self.answered)
            .entry(model.to_owned())
            .or_default();
        if self.hold
            && let Some(held) = answers.for_this(place).filter(|held| holds(held))
        {
            let held = held.clone();
            answers.asked += 1;
            return Ok(held);
        }
        let frame = self.frame_of(image);
        let said = frame.and_then(|frame| ask(self, &frame));
        let answers = kept(&mut self.answered)
            .entry(model.to_owned())
            .or_default();
        answers.keep(place, said.as_ref().ok().cloned());
        said
    }

    /// Asks a model, and notes what it cost.
    fn ask(
        &mut self,
        model: &str,
        ask: impl FnOnce(&mut dyn Detector) -> Result<DetectTimes, DetectError>,
    ) -> Result<(), String> {
        let asked = self.detectors.asked(model)?;
        let times = ask(asked.as_mut()).map_err(|e| e.to_string())?;
        self.times += times;
        self.inferences.push((model.to_owned(), times.infer));
        Ok(())
    }

    /// An identity for a box that is just found.
    fn new_box(&mut self) -> DetectionId {
        self.boxes += 1;
        DetectionId::Local {
            stream: self.stream,
            number: self.boxes,
        }
    }

    /// Names of the classes of a model that is asked something else than for objects.
    fn labels(&mut self, model: &str) -> Result<Arc<[Arc<str>]>, String> {
        Ok(Arc::clone(&self.detectors.asked(model)?.info().labels))
    }

    /// The scores of the classes of a model, with their names.
    fn named(&mut self, model: &str, scores: Vec<f32>) -> Result<Vec<ClassScore>, String> {
        let labels = self.labels(model)?;
        let scores = labels.iter().zip(scores).enumerate();
        // An empty name marks an id that is not in use.
        let scores = scores.filter(|(_, (label, _))| !label.is_empty());
        Ok(scores
            .map(|(id, (label, score))| ClassScore {
                class: label.clone(),
                class_id: i64::try_from(id).unwrap_or(i64::MAX),
                confidence: f64::from(score),
            })
            .collect())
    }

    /// Asks the detector, whatever is held.
    fn examine(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let frame = self.frame_of(request.image)?;
        let detector = self.detectors.serving(request)?;
        let wants_shapes = matches!(request.task, Task::Masks | Task::Keypoints);
        let can_not = |info: &DetectorInfo| {
            format!(
                "model {:?} is asked for {}, and is a model for {}",
                info.model,
                request.task.what(),
                info.task.name()
            )
        };
        // Whatever it found would get the names of what was described.
        if request.described.is_some() && detector.info().task != Does::ZeroShotDetection {
            return Err(can_not(detector.info()));
        }
        let params = DetectParams {
            confidence: request.confidence.map(|c| c as f32),
            iou_threshold: request.iou_threshold.map(|t| t as f32),
            class_agnostic_nms: request.class_agnostic_nms,
            max_detections: request.max_detections.unwrap_or(300),
            shapes: wants_shapes,
            flat: self.flat,
            described: request.described.unwrap_or_default().to_vec(),
        };
        let times = detector
            .detect(&frame, &params, &mut self.raw)
            .map_err(|e| e.to_string())?;
        self.times += times;
        let info = detector.info();
        self.inferences.push((info.model.clone(), times.infer));
        let shapes = detector.shapes();
        if wants_shapes && shapes.len() != self.raw.len() {
            return Err(can_not(info));
        }
        // A detector whose one class is not a kind of thing can't be asked for kinds of things.
        let filter = request.class_filter.filter(|_| info.knows_classes);
        let mut found = Detections {
            boxes: Vec::with_capacity(self.raw.len()),
            size: [frame.picture.width, frame.picture.height],
        };
        for (i, raw) in self.raw.iter().enumerate() {
            let described = request.described.and_then(|names| names.get(raw.class_id));
            let class = described
                .map(|name| Arc::from(name.as_str()))
                .or_else(|| info.labels.get(raw.class_id).cloned())
                .unwrap_or_else(|| Arc::from(format!("class_{}", raw.class_id)));
            if filter.is_some_and(|wanted| !wanted.iter().any(|w| **w == *class)) {
                continue;
            }
            let mut extra = Extra::default();
            match shapes.get(i) {
                None => {}
                // What has no pixels is no object to somebody who asked for them.
                Some(Shape::Outline(outline)) if outline.is_empty() => continue,
                Some(Shape::Outline(outline)) => {
                    extra.mask = Some(Arc::new(Mask::Polygon(outline.clone())));
                }
                Some(Shape::Keypoints(points)) => extra.keypoints = Some(points.clone().into()),
            }
            // Not `new_box`: the detector is borrowed.
            self.boxes += 1;
            let id = DetectionId::Local {
                stream: self.stream,
                number: self.boxes,
            };
            let class_id = i64::try_from(raw.class_id).unwrap_or(i64::MAX);
            found.boxes.push(Detection {
                extra: (!shapes.is_empty()).then(|| Box::new(extra)),
                ..Detection::new(raw.bbox, f64::from(raw.score), class_id, class, id)
            });
        }
        Ok(found)
    }
}

/// Boxes that are handed out again, with a mark that nobody looked.
fn marked(held: &Detections) -> Detections {
    let mut again = held.clone();
    for detection in &mut again.boxes {
        detection.held = true;
    }
    again
}

impl Host for DetectHost {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let place = Place::of(request.image);
        let answers = self.answers.entry(request.step.to_owned()).or_default();
        if self.hold
            && let Some(held) = answers.for_this(place).map(marked)
        {
            answers.asked += 1;
            return Ok(held);
        }
        let found = self.examine(request);
        let answers = self.answers.entry(request.step.to_owned()).or_default();
        answers.keep(place, found.as_ref().ok().cloned());
        found
    }

    fn classify(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<ClassScore>, String> {
        self.answer(
            |all| &mut all.classes,
            model_id,
            image,
            |host, frame| {
                let mut scores = Vec::new();
                host.ask(model_id, |model| model.classify(frame, &mut scores))?;
                host.named(model_id, scores)
            },
        )
    }

    fn embed(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<f32>, String> {
        self.answer(
            |all| &mut all.numbers,
            model_id,
            image,
            |host, frame| {
                let mut numbers = Vec::new();
                host.ask(model_id, |model| model.embed(frame, &mut numbers))?;
                Ok(numbers)
            },
        )
    }

    fn embed_text(&mut self, model_id: &str, text: &str) -> Result<Vec<f32>, String> {
        let numbers = self.detectors.asked(model_id)?.embed_text(text);
        numbers.map(|n| n.to_vec()).map_err(|e| e.to_string())
    }

    fn read_text(&mut self, model_id: &str, image: &ImageValue) -> Result<Writing, String> {
        self.answer(
            |all| &mut all.writings,
            model_id,
            image,
            |host, frame| {
                let (rgb, mut lines) = (image.pixels.rgb(), Vec::new());
                host.ask(model_id, |model| model.read(frame, &rgb, &mut lines))?;
                let mut parts = Detections {
                    boxes: Vec::with_capacity(lines.len()),
                    size: image.size(),
                };
                for line in &lines {
                    let score = f64::from(line.confidence);
                    let id = host.new_box();
                    parts
                        .boxes
                        .push(Detection::new(line.bbox, score, 0, line.text.as_str(), id));
                }
                let text: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
                Ok(Writing {
                    text: text.join(" "),
                    parts,
                })
            },
        )
    }

    fn segment(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        confidence: Option<f64>,
    ) -> Result<Detections, String> {
        self.answer(
            |all| &mut all.segments,
            model_id,
            image,
            |host, frame| {
                let mut segments = Vec::new();
                let least = confidence.map(|c| c as f32);
                host.ask(model_id, |model| model.segment(frame, least, &mut segments))?;
                let labels = host.labels(model_id)?;
                let mut found = Detections {
                    boxes: Vec::with_capacity(segments.len()),
                    size: image.size(),
                };
                for segment in segments {
                    let (Some(bbox), Some(label)) =
                        (segment.mask.bbox(), labels.get(segment.class_id))
                    else {
                        continue;
                    };
                    let class_id = i64::try_from(segment.class_id).unwrap_or(i64::MAX);
                    let score = f64::from(segment.confidence);
                    let id = host.new_box();
                    let mut one = Detection::new(bbox, score, class_id, label.clone(), id);
                    one.extra_mut().mask = Some(Arc::new(Mask::Bitmap(segment.mask)));
                    found.boxes.push(one);
                }
                Ok(found)
            },
        )
    }

    fn segment_prompted(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        boxes: &[BBox],
        several: bool,
    ) -> Result<Vec<PromptedMask>, String> {
        let said = self.answer_if(
            |all| &mut all.prompted,
            model_id,
            image,
            |held| held.several == several && held.boxes == boxes,
            |host, frame| {
                let mut masks = Vec::new();
                host.ask(model_id, |model| {
                    model.segment_prompted(frame, boxes, several, &mut masks)
                })?;
                let masks = masks.into_iter().map(|found| PromptedMask {
                    mask: found.mask,
                    confidence: f64::from(found.confidence),
                });
                Ok(Prompted {
                    boxes: boxes.to_vec(),
                    several,
                    masks: masks.collect(),
                })
            },
        )?;
        Ok(said.masks)
    }

    fn features(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        layer: Layer,
    ) -> Result<Features, String> {
        let (_, said) = self.answer_if(
            |all| &mut all.features,
            model_id,
            image,
            |(held, _)| *held == layer,
            |host, frame| {
                let (mut numbers, logits) = (Vec::new(), layer == Layer::Logits);
                host.ask(model_id, |model| {
                    model.features(frame, logits, &mut numbers)
                })?;
                let of_model = host.detectors.asked(model_id)?.info().space;
                let of_model = of_model.map_or_else(String::new, |sum| sum.to_string());
                let described = format!("{of_model} {layer:?} {}", numbers.len());
                let space = Sha256Sum::of(described.as_bytes()).to_string();
                Ok((layer, Features { numbers, space }))
            },
        )?;
        Ok(said)
    }

    fn anomaly(&mut self, model_id: &str, image: &ImageValue) -> Result<Anomaly, String> {
        self.answer(
            |all| &mut all.anomalies,
            model_id,
            image,
            |host, frame| {
                let mut found = watchkeeper_detect::Anomaly::default();
                host.ask(model_id, |model| model.anomaly(frame, &mut found))?;
                let map = Array::new(found.map.size.to_vec(), found.map.data);
                Ok(Anomaly {
                    score: f64::from(found.score),
                    threshold: f64::from(found.threshold),
                    deviation: f64::from(found.deviation),
                    map: map.ok_or_else(|| {
                        format!("model {model_id:?} gave a map that is not whole")
                    })?,
                })
            },
        )
    }

    fn wants_run(&mut self, model_id: &str) -> Result<RunWanted, String> {
        let model = self.detectors.asked(model_id)?;
        let wanted = model.wants_run().ok_or_else(|| {
            let info = model.info();
            let does = info.task.name();
            format!(
                "model {:?} is a model for {does}, and looks at no runs of frames",
                info.model
            )
        })?;
        Ok(RunWanted {
            frames: wanted.frames,
            fps: f64::from(wanted.fps),
            longest: wanted.longest,
            confidence: f64::from(wanted.confidence),
            several: wanted.several,
        })
    }

    fn recognise(
        &mut self,
        model_id: &str,
        frames: &[Arc<RgbPixels>],
    ) -> Result<Vec<ClassScore>, String> {
        let mut scores = Vec::new();
        self.ask(model_id, |model| model.recognise(frames, &mut scores))?;
        self.named(model_id, scores)
    }

    fn depth(&mut self, model_id: &str, image: &ImageValue) -> Result<Array, String> {
        self.answer(
            |all| &mut all.depths,
            model_id,
            image,
            |host, frame| {
                let mut map = DepthMap::default();
                host.ask(model_id, |model| model.depth(frame, &mut map))?;
                Array::new(map.size.to_vec(), map.data)
                    .ok_or_else(|| format!("model {model_id:?} gave a depth that is not whole"))
            },
        )
    }

    fn gaze(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        finds_faces: bool,
    ) -> Result<Vec<Gaze>, String> {
        self.answer(
            |all| &mut all.gazes,
            model_id,
            image,
            |host, frame| {
                let (rgb, mut faces) = (image.pixels.rgb(), Vec::new());
                host.ask(model_id, |model| {
                    model.gaze(frame, &rgb, finds_faces, &mut faces)
                })?;
                let gaze = |face: FaceGaze| Gaze {
                    face: face.face,
                    confidence: f64::from(face.score),
                    yaw: f64::from(face.angles[0]),
                    pitch: f64::from(face.angles[1]),
                };
                Ok(faces.into_iter().map(gaze).collect())
            },
        )
    }

    fn knows_classes(&self, request: &DetectRequest<'_>) -> bool {
        let info = self.detectors.info(request);
        info.is_none_or(|info| info.knows_classes)
    }

    fn emit(&mut self, step: &str, effect: Effect) -> Result<(), String> {
        match &self.outlet {
            Some(outlet) => outlet.emit(step, &effect),
            None => Err(format!(
                "nothing is sent from here: {} of step {step} is only sent where the workflow is deployed on a source",
                effect.what()
            )),
        }
    }

    /// Secrets are what the configuration says; where nothing is sent, variables of this program's environment stand in for them.
    fn has_secret(&self, name: &str) -> bool {
        match &self.outlet {
            Some(outlet) => outlet.has_secret(name),
            None => std::env::var_os(name).is_some(),
        }
    }

    fn wall_clock(&self) -> Option<Timestamp> {
        Some(clock::now())
    }
}
