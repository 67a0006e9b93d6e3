//! Answers of models, cached for frames on which the motion filter is closed.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_engine::workflow::{
    Anomaly, Array, ClassScore, Features, Gaze, ImageValue, PromptedMask, Writing,
};
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::geometry::BBox;

/// The answers about the pictures of one frame, in the order of the calls.
#[derive(Debug)]
pub(super) struct FrameAnswers<T> {
    pub(super) held: Vec<PictureAnswer<T>>,
    /// Calls in the current frame.
    pub(super) calls: usize,
}

/// The answer about one picture; `None` if the model failed.
#[derive(Debug)]
pub(super) struct PictureAnswer<T> {
    pub(super) place: CropOrigin,
    pub(super) found: Option<T>,
}

impl<T> Default for FrameAnswers<T> {
    fn default() -> Self {
        Self {
            held: Vec::new(),
            calls: 0,
        }
    }
}

/// The part of the camera's picture that an image shows: its upper left corner and size in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CropOrigin {
    pub(super) offset: [i64; 2],
    pub(super) size: [u32; 2],
}

impl CropOrigin {
    pub(super) fn of(image: &ImageValue) -> Self {
        Self {
            offset: image.place.as_ref().map_or([0, 0], |p| p.root.offset),
            size: image.size(),
        }
    }
}

impl<T> FrameAnswers<T> {
    /// The cached answer of the current call, if it was about the same crop.
    pub(super) fn cached(&self, place: CropOrigin) -> Option<&T> {
        let answer = self.held.get(self.calls)?;
        answer.found.as_ref().filter(|_| answer.place == place)
    }

    /// Stores the answer of the current call and ends the call.
    pub(super) fn store(&mut self, place: CropOrigin, found: Option<T>) {
        let answer = PictureAnswer { place, found };
        match self.held.get_mut(self.calls) {
            Some(old) => *old = answer,
            // Calls come in order, so this is the next one.
            None => self.held.push(answer),
        }
        self.calls += 1;
    }

    /// Like [`Self::store`] with a copy, in the memory of the answer that it replaces.
    pub(super) fn store_copy(&mut self, place: CropOrigin, found: Option<&T>)
    where
        T: Clone,
    {
        match (self.held.get_mut(self.calls), found) {
            (
                Some(PictureAnswer {
                    place: of,
                    found: Some(old),
                }),
                Some(new),
            ) => {
                *of = place;
                old.clone_from(new);
                self.calls += 1;
            }
            _ => self.store(place, found.cloned()),
        }
    }

    /// Ends the frame. Unless `holds`, answers beyond its last call are dropped.
    pub(super) fn end(&mut self, holds: bool) {
        let calls = std::mem::take(&mut self.calls);
        if !holds {
            self.held.truncate(calls);
        }
    }
}

/// Answers of models that were asked for something else than objects, by step.
#[derive(Debug, Default)]
pub(super) struct ModelAnswers {
    pub(super) classes: BTreeMap<Arc<str>, FrameAnswers<Vec<ClassScore>>>,
    pub(super) numbers: BTreeMap<Arc<str>, FrameAnswers<Vec<f32>>>,
    pub(super) writings: BTreeMap<Arc<str>, FrameAnswers<Writing>>,
    pub(super) segments: BTreeMap<Arc<str>, FrameAnswers<Detections>>,
    pub(super) depths: BTreeMap<Arc<str>, FrameAnswers<Array>>,
    pub(super) gazes: BTreeMap<Arc<str>, FrameAnswers<Vec<Gaze>>>,
    pub(super) prompted: BTreeMap<Arc<str>, FrameAnswers<PromptedMasks>>,
    pub(super) features: BTreeMap<Arc<str>, FrameAnswers<Features>>,
    pub(super) anomalies: BTreeMap<Arc<str>, FrameAnswers<Anomaly>>,
}

/// Masks, and the boxes that they were asked for.
#[derive(Debug, Clone)]
pub(super) struct PromptedMasks {
    pub(super) boxes: Vec<BBox>,
    pub(super) several: bool,
    pub(super) masks: Vec<PromptedMask>,
}

impl ModelAnswers {
    /// Ends the frame, see [`FrameAnswers::end`].
    pub(super) fn end(&mut self, holds: bool) {
        self.classes.values_mut().for_each(|all| all.end(holds));
        self.numbers.values_mut().for_each(|all| all.end(holds));
        self.writings.values_mut().for_each(|all| all.end(holds));
        self.segments.values_mut().for_each(|all| all.end(holds));
        self.depths.values_mut().for_each(|all| all.end(holds));
        self.gazes.values_mut().for_each(|all| all.end(holds));
        self.prompted.values_mut().for_each(|all| all.end(holds));
        self.features.values_mut().for_each(|all| all.end(holds));
        self.anomalies.values_mut().for_each(|all| all.end(holds));
    }
}

/// Selects the cache of one kind of answer.
pub(super) type AnswerCache<T> = fn(&mut ModelAnswers) -> &mut BTreeMap<Arc<str>, FrameAnswers<T>>;
