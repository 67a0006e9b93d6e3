//! The detector over a network: scale, infer, decode, suppress, map back.
//!
//! - An open-vocabulary network takes the picture and the embeddings of the descriptions.
//! - One value serves one stream; the network may be shared
//!   ([`stream_network`](super::stream_network)). Suppression and mapping of several streams run in
//!   parallel.

use std::sync::Arc;
use std::time::Instant;

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{ClassScores, DecodeKind, Task};
use watchkeeper_vision::frame::Frame;

use super::decode;
use super::decode::shapes::{Shape, Shapes};
use super::letterbox::Letterbox;
use super::network::Feed;
use super::nms::suppress;
use super::stream_network::{SharedNetwork, StreamNetwork};
use super::text::TextEncoder;
use crate::detection::{DetectParams, DetectTimes, RawDetection};
use crate::detector::{Detector, DetectorInfo};
use crate::error::DetectError;

/// An object detector or classifier over a network.
pub struct NeuralDetector {
    info: DetectorInfo,
    manifest: Arc<Manifest>,
    network: StreamNetwork,
    /// Of an open-vocabulary model.
    text_encoder: Option<TextEncoder>,
    /// Mask coefficients or keypoints as read from the outputs, and the shapes made of them.
    read: Shapes,
    shapes: Vec<Shape>,
}

impl NeuralDetector {
    /// Creates a detector for one stream.
    #[must_use]
    pub fn new(manifest: Arc<Manifest>, network: SharedNetwork) -> Self {
        let network = StreamNetwork::new(&manifest.name, manifest.input.clone(), network);
        Self {
            info: DetectorInfo::of(&manifest, network.shared()),
            network,
            manifest,
            text_encoder: None,
            read: Shapes::default(),
            shapes: Vec::new(),
        }
    }

    /// Adds the text encoder of an open-vocabulary model.
    #[must_use]
    pub(super) fn with_text_encoder(mut self, encoder: TextEncoder) -> Self {
        self.text_encoder = Some(encoder);
        self
    }
}

impl NeuralDetector {
    /// Maps boxes from the input to the picture, computes their shapes, and drops empty boxes.
    fn map_to_source(
        &mut self,
        place: &Letterbox,
        params: &DetectParams,
        out: &mut Vec<RawDetection>,
    ) {
        let (width, height) = (
            f64::from(place.source_width),
            f64::from(place.source_height),
        );
        for d in out.iter_mut() {
            d.bbox = place.to_source(&d.bbox).clip(width, height);
        }
        if params.shapes {
            let shape =
                |(i, d): (usize, &RawDetection)| self.read.shape(&self.manifest, i, &d.bbox, place);
            let shapes = out.iter().enumerate().map_while(shape);
            self.shapes.extend(shapes);
            // Drop the shapes of the boxes that are dropped below.
            let mut areas = out.iter().map(|d| d.bbox.area());
            self.shapes
                .retain(|_| areas.next() > Some(0.0) || params.flat);
        }
        out.retain(|d| d.bbox.area() > 0.0 || params.flat);
    }
}

impl Detector for NeuralDetector {
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
        self.shapes.clear();
        if self.info.task == Task::Classification {
            return Err(self.unsupported());
        }
        let names = &params.described;
        let embeddings = match &mut self.text_encoder {
            Some(encoder) if !names.is_empty() => encoder.embeddings(names)?,
            None if names.is_empty() => Vec::new(),
            _ => return Err(self.unsupported()),
        };
        let (classes, shape) = match names.len() {
            0 => (self.manifest.classes(), [0; 3]),
            n => (n, [1, n, embeddings.len() / n]),
        };
        let descriptions = [Feed::floats(&shape, &embeddings)];
        let further = if names.is_empty() {
            &[]
        } else {
            &descriptions[..]
        };

        let confidence = params.confidence.unwrap_or(self.manifest.confidence);
        let own = self.manifest.nms;
        let labels = &self.info.labels;
        let suppress_boxes = |out: &mut Vec<RawDetection>| {
            // An empty name marks an unused class id.
            out.retain(|d| labels.get(d.class_id).is_none_or(|label| !label.is_empty()));
            suppress(
                out,
                params.iou_threshold.or(own.map(|nms| nms.iou)),
                params
                    .class_agnostic_nms
                    .unwrap_or(own.is_some_and(|nms| nms.class_agnostic)),
                params.max_detections,
            );
        };
        self.network.set_gain(params.gain);
        let (place, mut times) = self.network.run(&frame.picture, further, &mut |outputs| {
            decode::decode(&self.manifest, classes, outputs, confidence, out)?;
            if params.shapes {
                // Suppress while the outputs are lent, so that only the coefficients of remaining
                // boxes are copied.
                suppress_boxes(out);
                self.read.read(&self.manifest, outputs, out)?;
            }
            Ok(())
        })?;
        let start = Instant::now();
        if !params.shapes {
            suppress_boxes(out);
        }
        self.map_to_source(&place, params, out);
        times.postprocess += start.elapsed();
        Ok(times)
    }

    fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    fn classify(&mut self, frame: &Frame, out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        out.clear();
        let DecodeKind::Classes { scores, .. } = self.manifest.decode.kind else {
            return Err(self.unsupported());
        };
        let (_, times) = self.network.run(&frame.picture, &[], &mut |outputs| {
            decode::scores(&self.manifest, scores, outputs, out)
        })?;
        Ok(times)
    }

    fn features(
        &mut self,
        frame: &Frame,
        logits: bool,
        out: &mut Vec<f32>,
    ) -> Result<DetectTimes, DetectError> {
        out.clear();
        let DecodeKind::Classes {
            scores,
            has_features,
        } = self.manifest.decode.kind
        else {
            return Err(self.unsupported());
        };
        if logits && scores == ClassScores::Plain {
            return Err(self.network.failed(
                "its file outputs scores, not logits: export it without the softmax, \
                 and set scores = \"softmax\" in its manifest",
            ));
        }
        if !logits && !has_features {
            return Err(self.network.failed(
                "its file does not output the features of its last layer: export them as a second \
                 output, and set has_features = true in its manifest",
            ));
        }
        let (_, times) = self.network.run(&frame.picture, &[], &mut |outputs| {
            decode::features(&self.manifest, logits, outputs, out)
        })?;
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{detect, manifest, rgb_frame, scripted};

    #[test]
    fn boxes_come_back_in_source_pixels_and_clipped() {
        // 128x64 in a 64x64 input: half size, at the top. One box exceeds the right edge.
        let network = scripted(&[([60.0, 10.0, 20.0, 10.0], 0.9, 0)]);
        let mut detector = NeuralDetector::new(manifest(), network);
        let found = detect(&mut detector, &rgb_frame(128, 64, [9, 9, 9]));
        assert_eq!(found.len(), 1);
        let b = found[0].bbox;
        assert_eq!((b.x1, b.y1, b.x2, b.y2), (100.0, 10.0, 128.0, 30.0));
    }

    #[test]
    fn thing_in_the_padding_is_no_detection() {
        let network = scripted(&[([30.0, 50.0, 10.0, 10.0], 0.9, 0)]);
        let mut detector = NeuralDetector::new(manifest(), network);
        assert_eq!(detect(&mut detector, &rgb_frame(128, 64, [9, 9, 9])), []);
    }

    #[test]
    fn caller_decides_on_confidence_and_number() {
        let network = scripted(&[
            ([10.0, 10.0, 8.0, 8.0], 0.2, 0),
            ([30.0, 10.0, 8.0, 8.0], 0.6, 1),
            ([50.0, 10.0, 8.0, 8.0], 0.8, 1),
        ]);
        let mut detector = NeuralDetector::new(manifest(), network);
        let frame = rgb_frame(64, 64, [9, 9, 9]);
        let mut out = Vec::new();
        let mut count = |confidence, max_detections| {
            let params = DetectParams {
                confidence,
                max_detections,
                ..DetectParams::default()
            };
            detector
                .detect(&frame, &params, &mut out)
                .expect("scripted network works");
            out.iter().map(|d| d.score).collect::<Vec<_>>()
        };
        assert_eq!(count(None, 300), [0.8, 0.6]);
        assert_eq!(count(Some(0.1), 300), [0.8, 0.6, 0.2]);
        assert_eq!(count(Some(0.1), 1), [0.8]);
    }

    #[test]
    fn picture_of_no_size_is_an_error_and_the_next_one_is_examined() {
        let network = scripted(&[([30.0, 10.0, 8.0, 8.0], 0.9, 1)]);
        let mut detector = NeuralDetector::new(manifest(), network);
        let mut out = vec![];
        let refused = detector.detect(&rgb_frame(0, 0, [0; 3]), &DetectParams::default(), &mut out);
        assert!(matches!(refused, Err(DetectError::Picture { .. })));
        assert_eq!(detect(&mut detector, &rgb_frame(64, 64, [0; 3])).len(), 1);
    }
}
