//! A detector that returns what the history has of a frame.

use std::sync::Arc;

use parking_lot::Mutex;
use watchkeeper_detect::{
    DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, OwnThresholds, RawDetection,
};
use watchkeeper_models::manifest::Task;
use watchkeeper_vision::frame::Frame;

use crate::history::{ChunkHead, SeenBox, SeenFrame};

/// The frame that all detectors of a replay see.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordedFrame(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    found: Vec<RawDetection>,
    /// Whether a step asked for weaker detections than were recorded.
    lacks_weaker: bool,
}

impl RecordedFrame {
    pub(super) fn set(&self, frame: &SeenFrame) {
        let found = &mut self.0.lock().found;
        found.clear();
        found.extend(frame.boxes.iter().copied().map(SeenBox::raw));
    }

    /// Whether a step asked for weaker detections than were recorded.
    pub(super) fn lacks_weaker(&self) -> bool {
        self.0.lock().lacks_weaker
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
        Self {
            info: DetectorInfo {
                model: model.to_owned(),
                backend: "history".to_owned(),
                task: Task::ObjectDetection,
                input: None,
                labels: head
                    .labels
                    .iter()
                    .map(|label| label.as_str().into())
                    .collect(),
                knows_classes: head.knows_classes,
                follows_one_picture: head.follows_one_picture,
                space: None,
                own: OwnThresholds {
                    confidence: head.confidence,
                    ..OwnThresholds::default()
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
        let mut shown = self.shown.0.lock();
        let recorded = self.info.own.confidence;
        shown.lacks_weaker |= params
            .confidence
            .is_some_and(|c| c + f32::EPSILON < recorded);
        let is_strong =
            |raw: &&RawDetection| params.confidence.is_none_or(|least| raw.score >= least);
        out.extend(shown.found.iter().filter(is_strong));
        Ok(DetectTimes::default())
    }
}
