//! What workflow steps may ask of a model or of the box, as the engine's [`Host`].

use std::sync::Arc;

use jiff::Timestamp;
use watchkeeper_contract::effect::Effect;
use watchkeeper_detect::{DepthMap, FaceGaze};
use watchkeeper_engine::workflow::{
    Anomaly, Array, ClassScore, DetectRequest, Features, Gaze, Host, ImageValue, Layer,
    PromptedMask, RgbPixels, RunWanted, Writing,
};
use watchkeeper_models::Sha256Sum;
use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::geometry::BBox;
use watchkeeper_vision::mask::Mask;

use super::DetectHost;
use super::answers::{CropOrigin, PromptedMasks};
use crate::clock;

impl Host for DetectHost {
    fn begin_step(&mut self, step: &Arc<str>) {
        self.step = Arc::clone(step);
    }

    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let mut found = Detections::default();
        self.detect_into(request, &mut found)?;
        Ok(found)
    }

    fn detect_into(
        &mut self,
        request: &DetectRequest<'_>,
        found: &mut Detections,
    ) -> Result<(), String> {
        self.begin_picture(request.image);
        let (place, hold) = (CropOrigin::of(request.image), self.hold);
        let answers = self.answers_of(request.step);
        if let Some(held) = answers.cached(place).filter(|_| hold) {
            found.clone_from(held);
            answers.calls += 1;
            found.boxes.iter_mut().for_each(|d| d.held = true);
            return Ok(());
        }
        let said = self.examine(request, found);
        self.round_boxes(found);
        let answer = said.is_ok().then_some(&*found);
        self.answers_of(request.step).store_copy(place, answer);
        self.end_picture();
        said
    }

    fn classify(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<ClassScore>, String> {
        self.answer(
            |all| &mut all.classes,
            image,
            |host, frame| {
                let mut scores = Vec::new();
                host.ask(model_id, |model| model.classify(frame, &mut scores))?;
                host.scores_by_class(model_id, scores)
            },
        )
    }

    fn embed(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<f32>, String> {
        self.answer(
            |all| &mut all.numbers,
            image,
            |host, frame| {
                let mut numbers = Vec::new();
                host.ask(model_id, |model| model.embed(frame, &mut numbers))?;
                Ok(numbers)
            },
        )
    }

    fn embed_text(&mut self, model_id: &str, text: &str) -> Result<Vec<f32>, String> {
        let numbers = self.detectors.of_model(model_id)?.embed_text(text);
        numbers.map(|n| n.to_vec()).map_err(|e| e.to_string())
    }

    fn read_text(&mut self, model_id: &str, image: &ImageValue) -> Result<Writing, String> {
        self.answer(
            |all| &mut all.writings,
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
                Ok(PromptedMasks {
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
        self.answer(
            |all| &mut all.features,
            image,
            |host, frame| {
                let (mut numbers, logits) = (Vec::new(), layer == Layer::Logits);
                host.ask(model_id, |model| {
                    model.features(frame, logits, &mut numbers)
                })?;
                let of_model = host.detectors.of_model(model_id)?.info().space;
                let of_model = of_model.map_or_else(String::new, |sum| sum.to_string());
                let described = format!("{of_model} {layer:?} {}", numbers.len());
                let space = Sha256Sum::of(described.as_bytes()).to_string();
                Ok(Features { numbers, space })
            },
        )
    }

    fn anomaly(&mut self, model_id: &str, image: &ImageValue) -> Result<Anomaly, String> {
        self.answer(
            |all| &mut all.anomalies,
            image,
            |host, frame| {
                let mut found = watchkeeper_detect::Anomaly::default();
                host.ask(model_id, |model| model.anomaly(frame, &mut found))?;
                let map = Array::new(found.map.size.to_vec(), found.map.data);
                Ok(Anomaly {
                    score: f64::from(found.score),
                    threshold: f64::from(found.threshold),
                    deviation: f64::from(found.deviation),
                    map: map
                        .ok_or_else(|| format!("model {model_id:?} returned an incomplete map"))?,
                })
            },
        )
    }

    fn wants_run(&mut self, model_id: &str) -> Result<RunWanted, String> {
        let model = self.detectors.of_model(model_id)?;
        let wanted = model.wants_run().ok_or_else(|| {
            let info = model.info();
            let does = info.task.name();
            format!(
                "model {:?} is for {does} and does not analyse runs of frames",
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
        self.scores_by_class(model_id, scores)
    }

    fn depth(&mut self, model_id: &str, image: &ImageValue) -> Result<Array, String> {
        self.answer(
            |all| &mut all.depths,
            image,
            |host, frame| {
                let mut map = DepthMap::default();
                host.ask(model_id, |model| model.depth(frame, &mut map))?;
                Array::new(map.size.to_vec(), map.data)
                    .ok_or_else(|| format!("model {model_id:?} returned an incomplete depth map"))
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
        match &self.effects {
            Some(effects) => effects.emit(step, &effect),
            None => Err(format!(
                "no effects here: {} of step {step} happens only when the workflow is deployed on a source",
                effect.what()
            )),
        }
    }

    /// Without effects, the environment variables of this process stand in for secrets.
    fn has_secret(&self, name: &str) -> bool {
        match &self.effects {
            Some(effects) => effects.has_secret(name),
            None => std::env::var_os(name).is_some(),
        }
    }

    fn wall_clock(&self) -> Option<Timestamp> {
        Some(clock::now())
    }
}
