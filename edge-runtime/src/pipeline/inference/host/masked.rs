//! Boxes of the classes that a privacy mask hides.
//!
//! - A frame's boxes are known only if each class was looked for in the whole frame by a model that
//!   knows it.

use std::sync::Arc;

use watchkeeper_detect::nms::unsuppressed;
use watchkeeper_detect::{DetectParams, DetectorInfo, RawDetection};
use watchkeeper_engine::workflow::DetectRequest;
use watchkeeper_vision::geometry::BBox;

/// Confidence from which an object is masked, where steps ask for a higher one.
const MIN_CONFIDENCE: f32 = 0.2;

/// Overlap up to which two objects of a class are both masked, where steps suppress earlier.
const MIN_IOU: f32 = 0.7;

/// Thresholds of a step: what it gets, while more is asked for and masked.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepThresholds {
    confidence: f32,
    /// Absent: the model suppresses nothing.
    iou: Option<f32>,
    class_agnostic: bool,
}

impl StepThresholds {
    /// The thresholds of a request, and of the model where it leaves them open.
    pub(super) fn of(request: &DetectRequest<'_>, info: &DetectorInfo) -> Self {
        let confidence = request.confidence.map(|confidence| confidence as f32);
        let iou = request.iou_threshold.map(|iou| iou as f32);
        let class_agnostic = request.class_agnostic_nms;
        Self {
            confidence: confidence.unwrap_or(info.own.confidence),
            iou: iou.or(info.own.iou),
            class_agnostic: class_agnostic.unwrap_or(info.own.class_agnostic),
        }
    }

    /// Asks for every object to mask.
    pub(super) fn widen(&self, params: &mut DetectParams) {
        params.confidence = Some(self.confidence.min(MIN_CONFIDENCE));
        params.iou_threshold = self.iou.map(|iou| iou.max(MIN_IOU));
        params.class_agnostic_nms = Some(false);
    }

    /// Positions of the objects, of those found for the mask, that the step gets; the best come
    /// first.
    pub(super) fn of_step(&self, found: &[RawDetection]) -> Vec<bool> {
        let is_sure = |raw: &RawDetection| raw.score >= self.confidence;
        match self.iou {
            Some(iou) => unsuppressed(found, iou, self.class_agnostic)
                .into_iter()
                .zip(found)
                .map(|(is_kept, raw)| is_kept && is_sure(raw))
                .collect(),
            None => found.iter().map(is_sure).collect(),
        }
    }
}

/// The boxes found in one frame.
#[derive(Debug)]
pub(super) struct MaskedBoxes {
    classes: Arc<[String]>,
    /// Whether each class was looked for.
    is_known: Vec<bool>,
    /// A model may have found more objects than it returned.
    is_full: bool,
    boxes: Vec<BBox>,
}

impl MaskedBoxes {
    pub(super) fn new(classes: Arc<[String]>) -> Self {
        Self {
            is_known: vec![false; classes.len()],
            classes,
            is_full: false,
            boxes: Vec::new(),
        }
    }

    /// Starts a frame.
    pub(super) fn begin(&mut self) {
        self.is_known.fill(false);
        self.is_full = false;
        self.boxes.clear();
    }

    /// Adds what a model that looks for `known` found in the whole frame.
    pub(super) fn add(
        &mut self,
        known: &[&str],
        found: impl Iterator<Item = (Arc<str>, BBox)>,
        is_full: bool,
    ) {
        for (class, is_known) in self.classes.iter().zip(&mut self.is_known) {
            *is_known |= known.contains(&class.as_str());
        }
        self.is_full |= is_full;
        let found = found.filter(|(name, _)| self.classes.iter().any(|class| **class == **name));
        self.boxes.extend(found.map(|(_, bbox)| bbox));
    }

    /// The boxes, if all are known.
    pub(super) fn boxes(&self) -> Option<&[BBox]> {
        let is_known = !self.is_full && self.is_known.iter().all(|is_known| *is_known);
        is_known.then_some(&*self.boxes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person() -> (Arc<str>, BBox) {
        (Arc::from("person"), BBox::new(1.0, 2.0, 3.0, 4.0))
    }

    #[test]
    fn boxes_are_known_once_each_class_was_looked_for() {
        let classes = ["person", "plate"].map(str::to_owned);
        let mut masked = MaskedBoxes::new(Arc::from(classes));
        assert!(masked.boxes().is_none());
        let car = (Arc::from("car"), BBox::new(5.0, 5.0, 6.0, 6.0));
        masked.add(&["person", "car"], [person(), car].into_iter(), false);
        assert!(masked.boxes().is_none(), "no model looked for plates");
        masked.add(&["plate"], std::iter::empty(), false);
        assert_eq!(masked.boxes().map(<[BBox]>::len), Some(1));
        masked.begin();
        assert!(masked.boxes().is_none());
    }

    #[test]
    fn full_answer_of_a_model_is_not_trusted() {
        let mut masked = MaskedBoxes::new(Arc::from(["person".to_owned()]));
        masked.add(&["person"], [person()].into_iter(), true);
        assert!(masked.boxes().is_none());
    }
}
