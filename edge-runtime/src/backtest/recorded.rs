//! A detector that returns what the history has of a frame.
//!
//! - All detectors of a replay share one [`RecordedFrame`].
//! - What the history can't answer, such as lower scores than recorded, becomes a sentence of
//!   [`RecordedFrame::limits`]; detections are never invented.

use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_detect::{
    DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, OwnThresholds, RawDetection,
};
use watchkeeper_models::manifest::Task;
use watchkeeper_vision::frame::Frame;

use crate::history::{ChunkHead, SeenBox, Thresholds};

/// The frame that all detectors of a replay see.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordedFrame(Arc<Mutex<FrameContent>>);

#[derive(Debug, Default)]
struct FrameContent {
    found: Vec<RawDetection>,
    /// Thresholds that the recorded step asked for; absent before the first chunk.
    asked: Option<Thresholds>,
    /// Scores below which a step misses detections.
    weakest: Option<f32>,
    has_other_suppression: bool,
    is_on_motion: bool,
}

impl RecordedFrame {
    pub(super) fn begin_chunk(&self, head: &ChunkHead) {
        let mut shown = self.0.lock();
        shown.asked = Some(head.asked);
        shown.is_on_motion |= head.looks.on_motion;
    }

    pub(super) fn set(&self, boxes: &[SeenBox]) {
        let found = &mut self.0.lock().found;
        found.clear();
        found.extend(boxes.iter().copied().map(SeenBox::raw));
    }

    /// Gaps of the history, one sentence each.
    pub(super) fn limits(&self) -> Vec<String> {
        let shown = self.0.lock();
        let weak = shown.weakest.map(|least| {
            format!("a part of the history has no detections with a score below {least:.2}")
        });
        let suppression = shown
            .has_other_suppression
            .then(|| "overlapping boxes are suppressed as the recorded watch asked".to_owned());
        let motion = shown.is_on_motion.then(|| {
            "between frames with motion, a part of the history repeats the last one".to_owned()
        });
        weak.into_iter().chain(suppression).chain(motion).collect()
    }
}

impl FrameContent {
    /// Compares what a step asks for with what was recorded.
    fn compare(&mut self, wanted: Thresholds) {
        let Some(asked) = self.asked else {
            return;
        };
        if wanted.confidence + f32::EPSILON < asked.confidence {
            let weakest = self.weakest.unwrap_or(0.0).max(asked.confidence);
            self.weakest = Some(weakest);
        }
        let is_alike = wanted.iou == asked.iou && wanted.class_agnostic == asked.class_agnostic;
        self.has_other_suppression |= !is_alike;
    }
}

/// Returns the detections of a [`RecordedFrame`].
#[derive(Debug)]
pub(super) struct RecordedDetector {
    info: DetectorInfo,
    shown: RecordedFrame,
}

impl RecordedDetector {
    pub(super) fn new(model: &str, head: &ChunkHead, shown: RecordedFrame) -> Self {
        let labels = head.labels.iter().map(|label| label.as_str().into());
        Self {
            info: DetectorInfo {
                model: model.into(),
                backend: "history".into(),
                threads: None,
                tensor_copies: None,
                task: Task::ObjectDetection,
                input: None,
                labels: labels.collect(),
                knows_classes: head.knows_classes,
                follows_one_picture: head.follows_one_picture,
                space: None,
                own: OwnThresholds {
                    confidence: head.own.confidence,
                    iou: head.own.iou,
                    class_agnostic: head.own.class_agnostic,
                },
            },
            shown,
        }
    }
}

impl Detector for RecordedDetector {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn detect(
        &mut self,
        _: &Frame,
        params: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let wanted = Thresholds::asked(params, self.info.own);
        let mut shown = self.shown.0.lock();
        shown.compare(wanted);
        let found = shown.found.iter().copied();
        // A score is stored rounded.
        let least = wanted.confidence - 0.5 / 255.0;
        out.extend(found.filter(|raw| raw.score >= least));
        Ok(DetectTimes::default())
    }
}
