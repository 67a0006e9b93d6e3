//! Models of whole pictures: embeddings, segmentation, depth and anomalies.
//!
//! - A model performs its own task and refuses every other one by name.
//! - Results are in pixels of the picture that the caller passed.

use std::sync::Arc;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::DecodeKind;
use watchkeeper_vision::frame::{Frame, Picture};

use super::decode::anomaly::{self, Anomaly};
use super::decode::depth::DepthMap;
use super::decode::segments::{Segment, SegmentParams};
use super::decode::{Request, depth, embedding, segments};
use super::letterbox::Letterbox;
use super::stream_network::{SharedNetwork, StreamNetwork};
use super::text::TextEncoder;
use crate::detection::DetectTimes;
use crate::detector::{Detector, DetectorInfo};
use crate::error::DetectError;

/// Class of pixels that belong to no segment.
const BACKGROUND: &str = "background";

/// A model of whole pictures.
pub(crate) struct WholeImageModel {
    info: DetectorInfo,
    manifest: Arc<Manifest>,
    network: StreamNetwork,
    /// Where the model compares pictures with texts.
    text_encoder: Option<TextEncoder>,
}

/// The picture's place in the input. It is computed before the network runs, so that the outputs
/// are read while they are lent.
fn fitted(picture: &Picture, manifest: &Manifest) -> Result<Letterbox, DetectError> {
    let (width, height) = (picture.width, picture.height);
    let place = Letterbox::fit(width, height, &manifest.input);
    place.ok_or(DetectError::Picture { width, height })
}

impl WholeImageModel {
    /// Creates a model for one stream.
    pub(super) fn new(
        manifest: Arc<Manifest>,
        network: SharedNetwork,
        text_encoder: Option<TextEncoder>,
    ) -> Self {
        let network = StreamNetwork::new(&manifest.name, manifest.input.clone(), network);
        Self {
            info: DetectorInfo::of(&manifest, network.shared()),
            network,
            manifest,
            text_encoder,
        }
    }
}

impl Detector for WholeImageModel {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn embed(&mut self, frame: &Frame, out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        out.clear();
        if !matches!(self.manifest.decode.kind, DecodeKind::Embedding) {
            return Err(self.unsupported());
        }
        let manifest = &self.manifest;
        let (_, times) = self.network.run(&frame.picture, &[], &mut |outputs| {
            embedding::decode(&Request::of(manifest, outputs, 0.0), out)
        })?;
        Ok(times)
    }

    fn features(
        &mut self,
        frame: &Frame,
        logits: bool,
        out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        if logits {
            return Err(self
                .network
                .failed("it has no logits, because it has no classes"));
        }
        self.embed(frame, out)
    }

    fn anomaly(&mut self, frame: &Frame, out: &mut Anomaly) -> Result<DetectTimes, DetectError> {
        *out = Anomaly::default();
        let DecodeKind::Anomaly {
            threshold,
            deviation,
        } = self.manifest.decode.kind
        else {
            return Err(self.unsupported());
        };
        let picture = &frame.picture;
        let manifest = &self.manifest;
        let place = fitted(picture, manifest)?;
        let (_, times) = self.network.run(picture, &[], &mut |outputs| {
            let (score, map) = anomaly::decode(&Request::of(manifest, outputs, 0.0), &place)?;
            *out = Anomaly {
                score,
                threshold,
                deviation,
                map,
            };
            Ok(())
        })?;
        Ok(times)
    }

    fn embed_text(&mut self, text: &str) -> Result<Arc<[f32]>, DetectError> {
        match &mut self.text_encoder {
            Some(encoder) => encoder.embedding(text),
            None => Err(self.unsupported()),
        }
    }

    fn segment(
        &mut self,
        frame: &Frame,
        confidence: Option<f32>,
        out: &mut Vec<Segment>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let DecodeKind::Segments { scores } = self.manifest.decode.kind else {
            return Err(self.unsupported());
        };
        let picture = &frame.picture;
        let manifest = &self.manifest;
        let place = fitted(picture, manifest)?;
        let labels = &self.info.labels;
        let params = SegmentParams {
            scores,
            confidence: confidence.unwrap_or(manifest.confidence),
            is_something: &|class| {
                let label = labels.get(class);
                label.is_some_and(|label| !label.is_empty() && **label != *BACKGROUND)
            },
            place: &place,
        };
        let (_, times) = self.network.run(picture, &[], &mut |outputs| {
            segments::decode(&Request::of(manifest, outputs, 0.0), &params, out)
        })?;
        Ok(times)
    }

    fn depth(&mut self, frame: &Frame, out: &mut DepthMap) -> Result<DetectTimes, DetectError> {
        *out = DepthMap::default();
        if !matches!(self.manifest.decode.kind, DecodeKind::Depth) {
            return Err(self.unsupported());
        }
        let picture = &frame.picture;
        let manifest = &self.manifest;
        let place = fitted(picture, manifest)?;
        let (_, times) = self.network.run(picture, &[], &mut |outputs| {
            *out = depth::decode(&Request::of(manifest, outputs, 0.0), &place)?;
            Ok(())
        })?;
        Ok(times)
    }
}
