//! Host of a workflow's steps on still pictures.

use std::sync::Arc;

use jiff::Timestamp;
use watchkeeper_contract::effect::Effect;
use watchkeeper_contract::id::SourceId;
use watchkeeper_engine::workflow::{
    Anomaly, Array, ClassScore, DetectRequest, Features, Gaze, Host, ImageValue, Layer,
    PromptedMask, RgbPixels, RunWanted, Writing,
};
use watchkeeper_vision::detections::Detections;
use watchkeeper_vision::frame::{Frame, FrameId, Picture};
use watchkeeper_vision::geometry::BBox;

use crate::clock;
use crate::pipeline::inference::host::DetectHost;

/// Host of the steps; treats each picture as a frame.
pub(super) struct PictureHost {
    pub(super) inner: DetectHost,
    /// Whether boxes are rounded to whole pixels, as Roboflow's engine does for its packages.
    pub(super) whole_pixels: bool,
}

impl PictureHost {
    /// Calls the inner host for one picture.
    fn with_frame<T>(
        &mut self,
        image: &ImageValue,
        ask: impl FnOnce(&mut DetectHost) -> Result<T, String>,
    ) -> Result<T, String> {
        let pixels = &image.pixels;
        self.inner.begin(frame(&pixels.rgb()), pixels, false);
        let answer = ask(&mut self.inner);
        self.inner.end();
        answer
    }
}

impl Host for PictureHost {
    fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
        let mut found = self.with_frame(request.image, |host| host.detect(request))?;
        if self.whole_pixels {
            for d in &mut found.boxes {
                let b = d.bbox;
                let [x1, y1, x2, y2] = [b.x1, b.y1, b.x2, b.y2].map(f64::round_ties_even);
                d.bbox = BBox::new(x1, y1, x2, y2);
            }
        }
        Ok(found)
    }

    fn classify(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<ClassScore>, String> {
        self.with_frame(image, |host| host.classify(model_id, image))
    }

    fn embed(&mut self, model_id: &str, image: &ImageValue) -> Result<Vec<f32>, String> {
        self.with_frame(image, |host| host.embed(model_id, image))
    }

    fn embed_text(&mut self, model_id: &str, text: &str) -> Result<Vec<f32>, String> {
        self.inner.embed_text(model_id, text)
    }

    fn read_text(&mut self, model_id: &str, image: &ImageValue) -> Result<Writing, String> {
        self.with_frame(image, |host| host.read_text(model_id, image))
    }

    fn segment(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        confidence: Option<f64>,
    ) -> Result<Detections, String> {
        self.with_frame(image, |host| host.segment(model_id, image, confidence))
    }

    fn segment_prompted(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        boxes: &[BBox],
        several: bool,
    ) -> Result<Vec<PromptedMask>, String> {
        self.with_frame(image, |host| {
            host.segment_prompted(model_id, image, boxes, several)
        })
    }

    fn features(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        layer: Layer,
    ) -> Result<Features, String> {
        self.with_frame(image, |host| host.features(model_id, image, layer))
    }

    fn anomaly(&mut self, model_id: &str, image: &ImageValue) -> Result<Anomaly, String> {
        self.with_frame(image, |host| host.anomaly(model_id, image))
    }

    fn wants_run(&mut self, model_id: &str) -> Result<RunWanted, String> {
        self.inner.wants_run(model_id)
    }

    fn recognise(
        &mut self,
        model_id: &str,
        frames: &[Arc<RgbPixels>],
    ) -> Result<Vec<ClassScore>, String> {
        self.inner.recognise(model_id, frames)
    }

    fn depth(&mut self, model_id: &str, image: &ImageValue) -> Result<Array, String> {
        self.with_frame(image, |host| host.depth(model_id, image))
    }

    fn gaze(
        &mut self,
        model_id: &str,
        image: &ImageValue,
        finds_faces: bool,
    ) -> Result<Vec<Gaze>, String> {
        self.with_frame(image, |host| host.gaze(model_id, image, finds_faces))
    }

    fn emit(&mut self, step: &str, effect: Effect) -> Result<(), String> {
        self.inner.emit(step, effect)
    }

    fn has_secret(&self, name: &str) -> bool {
        self.inner.has_secret(name)
    }

    fn wall_clock(&self) -> Option<Timestamp> {
        self.inner.wall_clock()
    }

    fn knows_classes(&self, request: &DetectRequest<'_>) -> bool {
        self.inner.knows_classes(request)
    }
}

fn frame(rgb: &RgbPixels) -> Frame {
    let id = FrameId {
        source: SourceId::new("still").expect("a valid name"),
        seq: 1,
    };
    let picture = Picture::rgb(rgb.width, rgb.height, rgb.data.clone());
    Frame::still(id, std::time::Instant::now(), clock::wall(), picture)
}
