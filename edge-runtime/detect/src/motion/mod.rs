//! The built-in `motion` detector: finds moving objects without weights.
//!
//! Stages of one frame:
//! - [`reduce`]: planes to 200 to 400 cells on the longer side;
//! - [`light`]: global gain and white balance;
//! - [`background`] and [`shadow`]: each cell is background, shadow or foreground;
//! - [`mask`] and [`blobs`]: cells to cleaned components;
//! - [`objects`] and [`entry`]: components over time to stable boxes.
//!
//! Invariants: one value serves one stream in order. All time is presentation time, so a recording
//! yields the same boxes at any speed. Memory is bounded by the picture's size, and no frame
//! allocates in the steady state.

mod background;
mod blobs;
mod cells;
mod edges;
mod entry;
mod light;
mod mask;
mod objects;
mod reduce;
mod shadow;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_models::manifest::Task;
use watchkeeper_vision::frame::{Frame, Picture};
use watchkeeper_vision::geometry::BBox;

use self::background::{Absorb, Background, Present};
use self::blobs::{Labeller, Pictures};
use self::cells::{BACK, FORE, GHOST, MOVED, OBJECT};
use self::light::{Estimator, Light, Planes};
use self::mask::Filters;
use self::objects::Objects;
use self::reduce::Small;
use self::shadow::Inside;
use crate::detection::{DetectParams, DetectTimes, RawDetection};
use crate::detector::{Detector, DetectorInfo, OwnThresholds};
use crate::error::DetectError;

/// Name of the model and of its one class.
pub const MODEL: &str = "motion";

/// Share of cells that must change at once in a scene change: a lamp, a moved camera.
const SCENE_CHANGE_SHARE: f32 = 0.5;
/// Smallest object, as a share of the picture.
const MIN_OBJECT_SHARE: f32 = 1.0 / 4000.0;
/// Fewest cells of the smallest object.
const MIN_OBJECT_CELLS: f32 = 6.0;
/// Seconds between frames: the default, and the bounds of what the source declares.
const FRAME_TIME: (f32, f32, f32) = (0.04, 0.001, 1.0);

/// Presentation time has jumped when it runs this many times faster than the frame count.
const CLOCK_JUMP_FACTOR: f32 = 4.0;

/// Settings of the motion detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MotionSettings {
    /// How long a stopped object is reported before it becomes background. On a background that was
    /// seen for less than three seconds it is twice that time.
    pub absorb: Duration,
}

impl Default for MotionSettings {
    fn default() -> Self {
        Self {
            absorb: Duration::from_secs(30),
        }
    }
}

/// Detects moving objects in one stream.
pub struct MotionDetector {
    info: DetectorInfo,
    absorb: Absorb,
    small: Small,
    estimator: Estimator,
    background: Background,
    labels: Vec<u8>,
    mask: Vec<u8>,
    held: Vec<u8>,
    contrast: Vec<f32>,
    inside: Inside,
    filters: Filters,
    labeller: Labeller,
    objects: Objects,
    /// Size of the last picture; `None` before the first.
    last: Option<(u32, u32)>,
    /// Number and presentation time of the last frame.
    clock: Option<(u64, Duration)>,
    /// Share of foreground in the last picture.
    busy: f32,
}

impl Default for MotionDetector {
    fn default() -> Self {
        Self::new(MotionSettings::default())
    }
}

impl MotionDetector {
    #[must_use]
    pub fn new(settings: MotionSettings) -> Self {
        let object = settings.absorb.as_secs_f32();
        Self {
            info: DetectorInfo {
                model: MODEL.into(),
                backend: "builtin".into(),
                threads: None,
                tensor_copies: None,
                task: Task::ObjectDetection,
                input: None,
                labels: Arc::from([Arc::from(MODEL)]),
                knows_classes: false,
                follows_one_picture: true,
                space: None,
                own: OwnThresholds::default(),
            },
            absorb: Absorb {
                object,
                other: object.min(3.0),
            },
            small: Small::default(),
            estimator: Estimator::default(),
            background: Background::default(),
            labels: Vec::new(),
            mask: Vec::new(),
            held: Vec::new(),
            contrast: Vec::new(),
            inside: Inside::default(),
            filters: Filters::default(),
            labeller: Labeller::default(),
            objects: Objects::default(),
            last: None,
            clock: None,
            busy: 0.0,
        }
    }

    /// Seconds since the last frame. Containers round and even repeat presentation times, which
    /// would make speeds erratic. So the frame number and the nominal rate decide; presentation
    /// time counts without a rate, or after a jump, as over a reconnect.
    fn since_last(&self, frame: &Frame) -> f32 {
        let (usual, least, most) = FRAME_TIME;
        let rate = frame.fps.filter(|f| *f > 0.0);
        let nominal = rate.map_or(usual, |f| 1.0 / f as f32);
        let Some((seq, pts)) = self.clock else {
            return nominal;
        };
        let counted = nominal * frame.id.seq.saturating_sub(seq).clamp(1, 1000) as f32;
        let stamped = frame.pts.saturating_sub(pts).as_secs_f32();
        let leapt = stamped > CLOCK_JUMP_FACTOR * counted;
        let dt = if leapt || (rate.is_none() && stamped > 0.0) {
            stamped
        } else {
            counted
        };
        dt.clamp(least, most)
    }

    /// Processes one picture, `dt` seconds after the one before.
    fn step(&mut self, picture: &Picture, dt: f32) {
        let now = Planes {
            y: &self.small.y,
            u: &self.small.u,
            v: &self.small.v,
        };
        let (w, cells) = (self.small.width, self.small.y.len());
        let same = matches!(self.last, Some(size) if size == (picture.width, picture.height));
        self.last = Some((picture.width, picture.height));
        if !same {
            let scale = self.estimator.step_scale(now.y, Light::SAME);
            self.background.set_step_scale(scale);
            self.background.reset(now);
            self.reset_cells(cells);
            return;
        }
        let labels = &self.labels;
        let light = self
            .estimator
            .estimate(now, self.background.planes(), |i| labels[i] == BACK);
        let present = Present { planes: now, light };
        let scale = self.estimator.step_scale(self.background.planes().y, light);
        self.background.set_step_scale(scale);
        self.background
            .classify(present, &mut self.labels, &mut self.contrast);
        self.inside.fill(&mut self.labels, w);
        for (mask, &label) in self.mask.iter_mut().zip(&self.labels) {
            *mask = u8::from(label == FORE);
        }
        let busy = share(&self.mask);
        let before = std::mem::replace(&mut self.busy, busy);
        if busy > SCENE_CHANGE_SHARE && before < SCENE_CHANGE_SHARE / 2.0 {
            self.background.relearn(now);
            self.labels.fill(BACK);
            self.objects.clear();
            self.busy = 0.0;
            return;
        }
        self.filters.majority(&mut self.mask, w, 5);
        self.filters.close(&mut self.mask, w, 2);
        let pictures = Pictures {
            contrast: &self.contrast,
            now: now.y,
            back: self.background.planes().y,
        };
        self.labeller.label(&self.mask, pictures, w);
        let bounds = [w as f32, self.small.height as f32];
        let smallest = (cells as f32 * MIN_OBJECT_SHARE).max(MIN_OBJECT_CELLS);
        self.objects
            .update(self.labeller.blobs(), smallest, dt, bounds);
        hold_cells(&self.labeller, &self.objects, &mut self.held, w);
        self.background
            .learn(present, &self.labels, &self.held, dt, self.absorb);
    }

    /// Drops all objects and resizes the planes, for pictures of another size.
    fn reset_cells(&mut self, cells: usize) {
        self.objects.clear();
        for plane in [&mut self.labels, &mut self.mask, &mut self.held] {
            plane.clear();
            plane.resize(cells, 0);
        }
        self.contrast.clear();
        self.contrast.resize(cells, 0.0);
        self.busy = 0.0;
    }

    fn report(&self, picture: &Picture, params: &DetectParams, out: &mut Vec<RawDetection>) {
        let k = self.small.factor as f64;
        let (w, h) = (f64::from(picture.width), f64::from(picture.height));
        for object in self.objects.list() {
            let Some(edges) = object.visible() else {
                continue;
            };
            let score = object.score();
            if score < params.confidence.unwrap_or(0.0) {
                continue;
            }
            let [x1, y1, x2, y2] = edges.map(|e| f64::from(e) * k);
            // The side at the border is not seen. The box ends one pixel before it, so that it lies
            // strictly inside a line or zone that spans the picture.
            let bbox = BBox::new(
                x1.clamp(1.0, (w - 2.0).max(1.0)),
                y1.clamp(1.0, (h - 2.0).max(1.0)),
                x2.clamp(1.0, (w - 2.0).max(1.0)),
                y2.clamp(1.0, (h - 2.0).max(1.0)),
            );
            if bbox.width() > 0.0 && bbox.height() > 0.0 {
                out.push(RawDetection {
                    bbox,
                    score,
                    class_id: 0,
                    column: 0,
                });
            }
        }
        out.sort_unstable_by(|a, b| {
            let by_score = b.score.total_cmp(&a.score);
            let by_column = by_score.then(a.bbox.x1.total_cmp(&b.bbox.x1));
            by_column.then(a.bbox.y1.total_cmp(&b.bbox.y1))
        });
        out.truncate(params.max_detections);
    }
}

impl Detector for MotionDetector {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect(
        &mut self,
        frame: &Frame,
        params: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let picture = &frame.picture;
        let (width, height) = (picture.width, picture.height);
        let unusable = DetectError::Picture { width, height };
        if width == 0 || height == 0 {
            return Err(unusable);
        }
        let start = Instant::now();
        self.small.fill(picture).ok_or(unusable)?;
        let reduced = Instant::now();
        let dt = self.since_last(frame);
        self.clock = Some((frame.id.seq, frame.pts));
        self.step(picture, dt);
        let found = Instant::now();
        self.report(picture, params, out);
        Ok(DetectTimes {
            preprocess: reduced - start,
            infer: found - reduced,
            postprocess: found.elapsed(),
        })
    }
}

/// Labels each cell by the object that it belongs to; rows have `width` cells.
fn hold_cells(labeller: &Labeller, objects: &Objects, held: &mut [u8], width: usize) {
    held.fill(0);
    for run in labeller.runs() {
        let blob = run.blob as usize;
        let label = if labeller.blobs()[blob].is_ghost() {
            GHOST
        } else {
            match objects.owner(blob) {
                Some(o) if o.travelled => OBJECT,
                Some(o) if o.proven => MOVED,
                _ => continue,
            }
        };
        let row = run.y as usize * width;
        held[row + run.x1 as usize..row + run.x2 as usize].fill(label);
    }
}

/// Share of ones in a mask.
fn share(mask: &[u8]) -> f32 {
    let ones: usize = mask.iter().map(|&c| usize::from(c)).sum();
    ones as f32 / mask.len().max(1) as f32
}
