//! The workflow's way to a detector.
//!
//! Owns the frame that is being processed, the detectors and their last answers. Invariants: the engine sees class names and
//! boxes in pixels only, how a class id becomes a name is settled here; an answer that is held is given for the picture it was
//! found in, or for one of the same place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use watchkeeper_engine::detections::{Detection, DetectionId, Detections};
use watchkeeper_engine::workflow::{DetectRequest, Host, ImageValue, Pixels, Task};

use super::detectors::Detectors;
use crate::clock;
use crate::detect::{DetectParams, DetectTimes, RawDetection};
use crate::frame::{Frame, Picture};

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

/// What a step was told about the pictures of a frame, in the order in which it asked.
#[derive(Debug, Default)]
struct Answers {
    held: Vec<Answer>,
    /// How often it has asked in this frame.
    asked: usize,
}

/// What was found in one picture; nothing where the detector failed.
#[derive(Debug)]
struct Answer {
    place: Place,
    found: Option<Detections>,
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

impl Answers {
    /// What was found in the picture that is asked about now, if it is the one that was examined at this turn.
    fn for_this(&self, place: Place) -> Option<&Detections> {
        let answer = self.held.get(self.asked)?;
        answer.found.as_ref().filter(|_| answer.place == place)
    }

    /// Keeps what was found at this turn.
    fn keep(&mut self, place: Place, found: Option<Detections>) {
        let answer = Answer { place, found };
        match self.held.get_mut(self.asked) {
            Some(old) => *old = answer,
            // No turn is left out, so this is the next one.
            None => self.held.push(answer),
        }
    }
}

/// Serves the detection steps of one pipeline.
#[derive(Debug)]
pub struct DetectHost {
    detectors: Detectors,
    stream: u64,
    boxes: u64,
    frame: Option<Current>,
    /// Closed gate: the last answers of each step hold.
    hold: bool,
    answers: BTreeMap<String, Answers>,
    raw: Vec<RawDetection>,
    times: DetectTimes,
    /// Each time a model was asked in this frame.
    inferences: Vec<(String, Duration)>,
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
            raw: Vec::new(),
            times: DetectTimes::default(),
            inferences: Vec::new(),
        }
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
        for answers in self.answers.values_mut() {
            answers.asked = 0;
        }
        self.times = DetectTimes::default();
    }

    /// Ends the frame, lets go of its pixels and says what detection cost.
    pub fn end(&mut self) -> DetectTimes {
        self.frame = None;
        if !self.hold {
            for answers in self.answers.values_mut() {
                answers.held.truncate(answers.asked);
            }
        }
        self.times
    }

    /// The models that were asked since the last call, with the time each took to infer.
    pub fn take_inferences(&mut self) -> Vec<(String, Duration)> {
        std::mem::take(&mut self.inferences)
    }

    /// Asks the detector, whatever is held.
    fn examine(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let frame = self
            .frame
            .as_ref()
            .ok_or("a detection step ran outside a frame")?
            .frame_of(request.image);
        let detector = self.detectors.serving(request)?;
        let params = DetectParams {
            confidence: request.confidence.map(|c| c as f32),
            iou_threshold: request.iou_threshold.map(|t| t as f32),
            class_agnostic_nms: request.class_agnostic_nms,
            max_detections: request.max_detections.unwrap_or(300),
        };
        let times = detector
            .detect(&frame, &params, &mut self.raw)
            .map_err(|e| e.to_string())?;
        self.times.preprocess += times.preprocess;
        self.times.infer += times.infer;
        self.times.postprocess += times.postprocess;

        let info = detector.info();
        self.inferences.push((info.model.clone(), times.infer));
        // A detector whose one class is not a kind of thing can't be asked for kinds of things.
        let filter = request.class_filter.filter(|_| info.knows_classes);
        let mut found = Detections {
            boxes: Vec::with_capacity(self.raw.len()),
            size: [frame.picture.width, frame.picture.height],
        };
        for raw in &self.raw {
            let class = info
                .labels
                .get(raw.class_id)
                .cloned()
                .unwrap_or_else(|| Arc::from(format!("class_{}", raw.class_id)));
            if filter.is_some_and(|wanted| !wanted.iter().any(|w| **w == *class)) {
                continue;
            }
            self.boxes += 1;
            found.boxes.push(Detection {
                bbox: raw.bbox,
                confidence: f64::from(raw.score),
                class_id: i64::try_from(raw.class_id).unwrap_or(i64::MAX),
                class,
                track: None,
                id: DetectionId::Local {
                    stream: self.stream,
                    number: self.boxes,
                },
                time_in_zone: None,
                held: false,
                extra: None,
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
        if request.task != Task::Boxes {
            let model = request.model_id;
            return Err(format!(
                "model {model:?} is asked for {}, and the models of this box find boxes",
                match request.task {
                    Task::Boxes => "boxes",
                    Task::Masks => "masks",
                    Task::Keypoints => "keypoints",
                }
            ));
        }
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
        answers.asked += 1;
        found
    }

    fn knows_classes(&self, request: &DetectRequest<'_>) -> bool {
        let info = self.detectors.info(request);
        info.is_none_or(|info| info.knows_classes)
    }

    /// Secrets are variables of this program's environment.
    fn has_secret(&self, name: &str) -> bool {
        std::env::var_os(name).is_some()
    }

    fn wall_clock(&self) -> Option<Timestamp> {
        Some(clock::now())
    }
}
