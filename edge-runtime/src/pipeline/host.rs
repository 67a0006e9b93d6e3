//! The workflow's way to a detector.
//!
//! Owns the frame that is being processed and the detector of every model the workflow names. Invariant: the engine
//! sees class names and pixels boxes only; how a class id becomes a name is settled here.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use watchkeeper_engine::detections::{Detection, DetectionId, Detections};
use watchkeeper_engine::workflow::{DetectRequest, Host, ImageValue, Pixels};

use crate::clock;
use crate::detect::{DetectParams, DetectTimes, Detector, RawDetection};
use crate::frame::{ColorMatrix, Colorimetry, Frame, OwnedPlanes, Picture, PixelFormat};

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
            picture: Picture {
                width: rgb.width,
                height: rgb.height,
                format: PixelFormat::Rgb,
                color: Colorimetry {
                    matrix: ColorMatrix::Bt601,
                    full_range: true,
                },
                planes: Arc::new(OwnedPlanes {
                    planes: vec![(rgb.data.clone(), rgb.width as usize * 3)],
                }),
            },
            ..self.frame.clone()
        }
    }
}

/// Serves the detection steps of one pipeline.
#[derive(Debug)]
pub struct DetectHost {
    detectors: BTreeMap<String, Box<dyn Detector>>,
    /// Set when one model takes the place of every other.
    replacement: Option<String>,
    stream: u64,
    boxes: u64,
    frame: Option<Current>,
    /// Closed gate: the last answer of each step holds.
    hold: bool,
    held: BTreeMap<String, Detections>,
    raw: Vec<RawDetection>,
    times: DetectTimes,
}

impl DetectHost {
    /// A host for these detectors, by the model id that the workflow uses. `stream` tells the boxes of this run from
    /// those of others.
    #[must_use]
    pub fn new(
        detectors: BTreeMap<String, Box<dyn Detector>>,
        replacement: Option<String>,
        stream: u64,
    ) -> Self {
        Self {
            detectors,
            replacement,
            stream,
            boxes: 0,
            frame: None,
            hold: false,
            held: BTreeMap::new(),
            raw: Vec::new(),
            times: DetectTimes::default(),
        }
    }

    /// Starts a frame. With `hold` no detector runs: nothing moved, so the last boxes still hold, and are marked as held.
    pub fn begin(&mut self, frame: &Frame, pixels: &Arc<dyn Pixels>, hold: bool) {
        self.frame = Some(Current {
            frame: frame.clone(),
            pixels: Arc::clone(pixels),
        });
        self.hold = hold;
        self.times = DetectTimes::default();
    }

    /// Ends the frame, lets go of its pixels and says what detection cost.
    pub fn end(&mut self) -> DetectTimes {
        self.frame = None;
        self.times
    }

    /// What runs, such as `yolox-nano on rten`.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        let mut names: Vec<String> = self
            .detectors
            .values()
            .map(|d| format!("{} on {}", d.info().model, d.info().backend))
            .collect();
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Boxes that are handed out again, with a mark that nobody looked.
fn marked(held: &Detections) -> Detections {
    let mut again = held.clone();
    for detection in &mut again.boxes {
        detection.extra.get_or_insert_default().held = true;
    }
    again
}

impl Host for DetectHost {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        if self.hold
            && let Some(held) = self.held.get(request.step)
        {
            return Ok(marked(held));
        }
        let frame = self
            .frame
            .as_ref()
            .ok_or("a detection step ran outside a frame")?
            .frame_of(request.image);
        let model = self.replacement.as_deref().unwrap_or(request.model_id);
        let detector = self
            .detectors
            .get_mut(model)
            .ok_or_else(|| format!("model {model:?} was not loaded for this pipeline"))?;
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
                extra: None,
            });
        }
        self.held.insert(request.step.to_owned(), found.clone());
        Ok(found)
    }
    /// Secrets are variables of this program's environment.
    fn has_secret(&self, name: &str) -> bool {
        std::env::var_os(name).is_some()
    }

    fn wall_clock(&self) -> Option<Timestamp> {
        Some(clock::now())
    }
}
