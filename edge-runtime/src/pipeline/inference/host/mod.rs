//! The `Host` of one pipeline: runs models for workflow steps and hands out their effects.
//!
//! - An effect is queued, never waited for.
//! - The engine sees class names and boxes in pixels; class ids are translated here.
//! - While the motion filter is closed, cached answers are reused for the same step and crop.

mod answers;
mod masked;
mod pictures;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_detect::night_gain::{Gamma, NightGain};
use watchkeeper_detect::{
    DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, RawDetection, Shape, tiles,
};
use watchkeeper_engine::workflow::{ClassScore, DetectRequest, ImageValue, Pixels, Task};
use watchkeeper_models::manifest::Task as ModelTask;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections, Extra};
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::mask::Mask;

use self::answers::{AnswerCache, CropOrigin, FrameAnswers, ModelAnswers};
use self::masked::{MaskedBoxes, StepThresholds};
use super::detectors::Detectors;
use crate::effects::EffectSender;
use crate::history::{HistoryWriter, Observed, Thresholds};

/// Most objects that a model returns, unless a step sets another number.
const MAX_DETECTIONS: usize = 300;

/// The frame that is being processed, with its pixels as the workflow knows them.
#[derive(Clone)]
struct Current {
    frame: Frame,
    pixels: Arc<dyn Pixels>,
}

impl Current {
    /// Whether `image` is the camera's whole picture.
    fn is_whole(&self, image: &ImageValue) -> bool {
        Arc::ptr_eq(&self.pixels, &image.pixels)
    }

    /// The frame to examine for `image`: the camera's own for the camera's picture, else one made
    /// of the pixels of `image` (a crop, say).
    fn frame_of(&self, image: &ImageValue) -> Frame {
        if self.is_whole(image) {
            return self.frame.clone();
        }
        let rgb = image.pixels.rgb();
        Frame {
            picture: Picture::rgb(rgb.width, rgb.height, rgb.data.clone()),
            ..self.frame.clone()
        }
    }
}

/// Runs models for one pipeline.
pub struct DetectHost {
    detectors: Detectors,
    stream: u64,
    boxes: u64,
    frame: Option<Current>,
    /// The step that runs.
    step: Arc<str>,
    /// The motion filter is closed: cached answers are reused.
    hold: bool,
    answers: BTreeMap<String, FrameAnswers<Detections>>,
    answered: ModelAnswers,
    raw: Vec<RawDetection>,
    times: DetectTimes,
    /// Models that ran on this frame, with their times.
    inferences: Vec<(Arc<str>, Duration)>,
    /// Whether each picture is a separate frame, see [`Self::for_pictures`].
    is_for_pictures: bool,
    /// Whether it answers exactly as Roboflow's engine, see [`Self::like_roboflow`].
    is_like_roboflow: bool,
    night_gain: NightGain,
    /// Curve of the frame's light, once `is_light_known`.
    gain: Option<Gamma>,
    is_light_known: bool,
    /// Boxes of the classes that a privacy mask hides.
    masked: Option<MaskedBoxes>,
    /// Records what detectors report; `None` if no history is kept.
    history: Option<HistoryWriter>,
    /// Receives the effects of steps; `None` where workflows have no effects.
    effects: Option<EffectSender>,
}

impl DetectHost {
    /// A host for these detectors. `stream` distinguishes its detections from those of other runs.
    #[must_use]
    pub fn new(detectors: Detectors, stream: u64) -> Self {
        Self {
            detectors,
            stream,
            boxes: 0,
            frame: None,
            step: Arc::default(),
            hold: false,
            answers: BTreeMap::new(),
            answered: ModelAnswers::default(),
            raw: Vec::new(),
            times: DetectTimes::default(),
            inferences: Vec::new(),
            is_for_pictures: false,
            is_like_roboflow: false,
            night_gain: NightGain::default(),
            gain: None,
            is_light_known: false,
            masked: None,
            history: None,
            effects: None,
        }
    }

    /// Collects the boxes of `classes`, whatever the class filters and confidences of steps.
    #[must_use]
    pub fn masking(mut self, classes: Arc<[String]>) -> Self {
        self.masked = (!classes.is_empty()).then(|| MaskedBoxes::new(classes));
        self
    }

    /// Boxes of the masked classes in the frame. `None` if some class was not looked for in the
    /// whole frame, or too many objects were found to know all.
    #[must_use]
    pub fn masked_boxes(&self) -> Option<&[BBox]> {
        self.masked.as_ref()?.boxes()
    }

    /// Records what detectors report of the whole picture.
    #[must_use]
    pub fn recording(mut self, history: Option<HistoryWriter>) -> Self {
        self.history = history;
        self
    }

    /// Sends the effects of steps to `effects`.
    #[must_use]
    pub fn with_effects(mut self, effects: EffectSender) -> Self {
        self.effects = Some(effects);
        self
    }

    /// The detectors of its steps.
    #[must_use]
    pub fn detectors(&self) -> &Detectors {
        &self.detectors
    }

    /// Starts a frame. With `hold` no detector runs: cached detections are reused and marked as
    /// held.
    pub fn begin(&mut self, frame: Frame, pixels: &Arc<dyn Pixels>, hold: bool) {
        self.hold = hold;
        if let (Some(history), true) = (&self.history, hold) {
            history.repeat(&frame);
        }
        self.frame = Some(Current {
            frame,
            pixels: Arc::clone(pixels),
        });
        if let Some(masked) = &mut self.masked {
            masked.begin();
        }
        self.is_light_known = false;
        self.times = DetectTimes::default();
        self.inferences.clear();
    }

    /// Ends the frame, releases its pixels and returns what detection cost.
    pub fn end(&mut self) -> DetectTimes {
        self.frame = None;
        let holds = self.hold;
        self.answers.values_mut().for_each(|all| all.end(holds));
        self.answered.end(holds);
        self.times
    }

    /// The models that ran on the latest frame, with the time of each inference.
    #[must_use]
    pub fn inferences(&self) -> &[(Arc<str>, Duration)] {
        &self.inferences
    }

    /// The cached detections of a step.
    fn answers_of(&mut self, step: &str) -> &mut FrameAnswers<Detections> {
        if !self.answers.contains_key(step) {
            self.answers
                .insert(step.to_owned(), FrameAnswers::default());
        }
        self.answers.get_mut(step).expect("inserted above")
    }

    fn frame_of(&self, image: &ImageValue) -> Result<Frame, String> {
        let frame = self.frame.as_ref();
        let frame = frame.ok_or("a model step ran outside a frame")?;
        Ok(frame.frame_of(image))
    }

    /// Returns the cached answer of the step while the motion filter is closed, else asks the
    /// model.
    fn answer<T: Clone>(
        &mut self,
        kept: AnswerCache<T>,
        image: &ImageValue,
        ask: impl FnOnce(&mut Self, &Frame) -> Result<T, String>,
    ) -> Result<T, String> {
        self.answer_if(kept, image, |_| true, ask)
    }

    /// Like [`Self::answer`], but reuses the cached answer only if `holds` accepts its parameters.
    fn answer_if<T: Clone>(
        &mut self,
        kept: AnswerCache<T>,
        image: &ImageValue,
        holds: impl FnOnce(&T) -> bool,
        ask: impl FnOnce(&mut Self, &Frame) -> Result<T, String>,
    ) -> Result<T, String> {
        self.begin_picture(image);
        let place = CropOrigin::of(image);
        let answers = kept(&mut self.answered)
            .entry(Arc::clone(&self.step))
            .or_default();
        if self.hold
            && let Some(held) = answers.cached(place).filter(|held| holds(held))
        {
            let held = held.clone();
            answers.calls += 1;
            return Ok(held);
        }
        let frame = self.frame_of(image);
        let said = frame.and_then(|frame| ask(self, &frame));
        let answers = kept(&mut self.answered)
            .entry(Arc::clone(&self.step))
            .or_default();
        answers.store(place, said.as_ref().ok().cloned());
        self.end_picture();
        said
    }

    /// Asks a model and records its times.
    fn ask(
        &mut self,
        model: &str,
        ask: impl FnOnce(&mut dyn Detector) -> Result<DetectTimes, DetectError>,
    ) -> Result<(), String> {
        let of_model = self.detectors.of_model(model)?;
        let times = ask(of_model.as_mut()).map_err(|e| e.to_string())?;
        self.times += times;
        let name = Arc::clone(&of_model.info().model);
        self.inferences.push((name, times.infer));
        Ok(())
    }

    /// Draws the identity of a new detection.
    fn new_box(&mut self) -> DetectionId {
        self.boxes += 1;
        DetectionId::Local {
            stream: self.stream,
            number: self.boxes,
        }
    }

    /// Class names of a model.
    fn labels(&mut self, model: &str) -> Result<Arc<[Arc<str>]>, String> {
        Ok(Arc::clone(&self.detectors.of_model(model)?.info().labels))
    }

    /// Pairs the scores of a model with its class names.
    fn scores_by_class(
        &mut self,
        model: &str,
        scores: Vec<f32>,
    ) -> Result<Vec<ClassScore>, String> {
        let labels = self.labels(model)?;
        let scores = labels.iter().zip(scores).enumerate();
        // An empty name marks an unused id.
        let scores = scores.filter(|(_, (label, _))| !label.is_empty());
        Ok(scores
            .map(|(id, (label, score))| ClassScore {
                class: label.clone(),
                class_id: i64::try_from(id).unwrap_or(i64::MAX),
                confidence: f64::from(score),
            })
            .collect())
    }

    /// The curve that raises the frame for a network, if it is dark. Decided once a frame, for all
    /// of its crops.
    fn gain(&mut self) -> Option<Gamma> {
        let frame = &self.frame.as_ref()?.frame;
        // Another engine has no such gain.
        if !self.is_light_known && !self.is_like_roboflow {
            let gain = self.night_gain.observe(&frame.picture);
            if gain.is_some() != self.gain.is_some() {
                let (source, is_on) = (&frame.id.source, gain.is_some());
                tracing::info!(%source, is_on, "night gain of dark frames");
            }
            self.gain = gain;
            self.is_light_known = true;
        }
        self.gain
    }

    /// Runs the detector of `request` and names what it found in `found`, which is empty.
    fn examine(
        &mut self,
        request: &DetectRequest<'_>,
        found: &mut Detections,
    ) -> Result<(), String> {
        let frame = self.frame_of(request.image)?;
        let gain = self.gain();
        let detector = self.detectors.serving(request)?;
        let wants_shapes = matches!(request.task, Task::Masks | Task::Keypoints);
        // A detector of fixed classes would give its boxes the described names.
        if request.described.is_some() && detector.info().task != ModelTask::ZeroShotDetection {
            return Err(wrong_task(detector.info(), request.task));
        }
        let mut params = DetectParams {
            confidence: request.confidence.map(|c| c as f32),
            iou_threshold: request.iou_threshold.map(|t| t as f32),
            class_agnostic_nms: request.class_agnostic_nms,
            max_detections: max_detections(request),
            shapes: wants_shapes,
            flat: self.is_like_roboflow,
            described: request.described.unwrap_or_default().to_vec(),
            gain,
        };
        if self.masked.is_some() {
            StepThresholds::of(request, detector.info()).widen(&mut params);
            params.max_detections = params.max_detections.max(MAX_DETECTIONS);
        }
        let (tiles, raw) = (request.tiles, &mut self.raw);
        let runs = tiles::detect(detector.as_mut(), &frame, &params, tiles, raw)
            .map_err(|e| e.to_string())?;
        let times = runs.times;
        self.times += times;
        let info = detector.info();
        self.inferences.push((Arc::clone(&info.model), times.infer));
        if wants_shapes && detector.shapes().len() != self.raw.len() {
            return Err(wrong_task(info, request.task));
        }
        let is_whole = self
            .frame
            .as_ref()
            .is_some_and(|of| of.is_whole(request.image));
        if let Some(masked) = self.masked.as_mut().filter(|_| is_whole) {
            // All that a run saw: a part of an object may have suppressed the whole.
            let seen = if runs.unmerged.is_empty() {
                &self.raw
            } else {
                &runs.unmerged
            };
            let names = seen
                .iter()
                .map(|raw| (class_name(request, info, raw), raw.bbox));
            masked.add(&known_classes(request, info), names, runs.is_full);
        }
        if is_whole && !wants_shapes {
            self.record(request, &frame, &params);
        }
        found.size = [frame.picture.width, frame.picture.height];
        self.name_detections(request, found)
    }

    /// Records the raw detections of the last call in the history, where they can be replayed.
    /// Records no detections of described objects or of tiles, and none where a privacy mask asked
    /// for more.
    fn record(&self, request: &DetectRequest<'_>, frame: &Frame, params: &DetectParams) {
        let is_plain =
            request.described.is_none() && request.tiles.is_none() && self.masked.is_none();
        if let (Some(history), true) = (&self.history, is_plain)
            && let Some(info) = self.detectors.info(request)
        {
            history.record(&Observed {
                frame,
                model: self.detectors.model_of(request),
                info,
                asked: Thresholds::asked(params, info.own),
                found: &self.raw,
            });
        }
    }

    /// Adds the raw detections of the last call to `found`, with class names and shapes.
    fn name_detections(
        &mut self,
        request: &DetectRequest<'_>,
        found: &mut Detections,
    ) -> Result<(), String> {
        let detector = self.detectors.serving(request)?;
        let (info, shapes) = (detector.info(), detector.shapes());
        // A detector whose one class is not a kind of object can't be filtered by kinds of objects.
        let filter = request.class_filter.filter(|_| info.knows_classes);
        // For a privacy mask more was asked for than by the step.
        let of_step = self.masked.is_some().then(|| {
            let thresholds = StepThresholds::of(request, info);
            thresholds.of_step(&self.raw)
        });
        let is_of_step = |place: usize| {
            let places = of_step.as_ref().map(|places| places.get(place));
            places.is_none_or(|is_it| is_it == Some(&true))
        };
        let wanted = self.raw.iter().enumerate();
        let wanted = wanted.filter(|(place, _)| is_of_step(*place));
        for (i, raw) in wanted.take(max_detections(request)) {
            let class = class_name(request, info, raw);
            if filter.is_some_and(|wanted| !wanted.contains(&class)) {
                continue;
            }
            let mut extra = Extra::default();
            match shapes.get(i) {
                None => {}
                // A mask without pixels is not an object.
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
        Ok(())
    }
}

fn wrong_task(info: &DetectorInfo, wanted: Task) -> String {
    format!(
        "model {:?} is for {} and can't be used for {}",
        info.model,
        info.task.name(),
        wanted.what()
    )
}

fn max_detections(request: &DetectRequest<'_>) -> usize {
    request.max_detections.unwrap_or(MAX_DETECTIONS)
}

/// The classes that a model looks for.
fn known_classes<'a>(request: &DetectRequest<'a>, info: &'a DetectorInfo) -> Vec<&'a str> {
    match request.described {
        Some(described) => described.iter().map(String::as_str).collect(),
        None => info.labels.iter().map(|label| &**label).collect(),
    }
}

fn class_name(request: &DetectRequest<'_>, info: &DetectorInfo, raw: &RawDetection) -> Arc<str> {
    let described = request.described.and_then(|names| names.get(raw.class_id));
    described
        .map(|name| Arc::from(name.as_str()))
        .or_else(|| info.labels.get(raw.class_id).cloned())
        .unwrap_or_else(|| Arc::from(format!("class_{}", raw.class_id)))
}
