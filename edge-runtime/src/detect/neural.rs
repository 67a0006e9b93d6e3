//! The detector over a network: scale, infer, decode, suppress, map back.
//!
//! One value a stream; the network itself may be shared. Invariant: a stream holds its turn at the network only while it
//! infers and reads the outputs in place; scaling and suppression of several streams run side by side. Times measure work:
//! waiting for a turn is in none of them.

use std::sync::Arc;
use std::time::Instant;

use watchkeeper_models::Manifest;

use super::decode::{self, DecodeError};
use super::network::Network;
use super::nms::suppress;
use super::preprocess::Preprocessor;
use super::shared::Turnstile;
use super::{DetectError, DetectParams, DetectTimes, Detector, DetectorInfo, RawDetection};
use crate::frame::Frame;

/// A network that streams take turns at.
pub type SharedNetwork = Arc<Turnstile<Box<dyn Network>>>;

/// Detects with a network.
pub struct NeuralDetector {
    info: DetectorInfo,
    manifest: Arc<Manifest>,
    preprocessor: Preprocessor,
    network: SharedNetwork,
}

impl std::fmt::Debug for NeuralDetector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.info.fmt(f)
    }
}

impl NeuralDetector {
    /// A detector for one stream over a network that others may use too.
    #[must_use]
    pub fn new(manifest: Arc<Manifest>, network: SharedNetwork) -> Self {
        let info = DetectorInfo {
            model: manifest.name.clone(),
            backend: network.enter().backend().to_owned(),
            labels: manifest.labels.clone(),
            knows_classes: true,
            follows_one_picture: false,
        };
        Self {
            info,
            preprocessor: Preprocessor::new(manifest.input.clone()),
            manifest,
            network,
        }
    }

    fn failed(&self, message: impl ToString) -> DetectError {
        DetectError::Backend {
            model: self.info.model.clone(),
            backend: self.info.backend.clone(),
            message: message.to_string(),
        }
    }
}

/// Why a network is not what it should be.
#[derive(Debug)]
pub(crate) enum Rehearsal {
    /// It can't be run; what the back end said.
    Run(String),
    /// It runs, and its outputs are not what the manifest says.
    Outputs(DecodeError),
}

/// Runs the network once on a grey picture: a file whose outputs are not what its manifest says is found out when it is
/// opened, and the first real frame finds everything warm.
///
/// # Errors
/// [`Rehearsal`], one clause.
pub(crate) fn rehearse(network: &mut dyn Network, manifest: &Manifest) -> Result<(), Rehearsal> {
    let input = vec![
        0.5;
        super::network::input_shape(&manifest.input)
            .iter()
            .product()
    ];
    let mut decoded: Result<(), DecodeError> = Ok(());
    let ran = network.infer(&input, &mut |outputs| {
        decoded = decode::decode(manifest, outputs, 1.0, &mut Vec::new());
    });
    ran.map_err(Rehearsal::Run)?;
    decoded.map_err(Rehearsal::Outputs)
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
        let start = Instant::now();
        let place = self.preprocessor.run(&frame.picture)?;
        let preprocess = start.elapsed();

        let confidence = params.confidence.unwrap_or(self.manifest.confidence);
        let mut decoded = Ok(());
        let mut turn = self.network.enter();
        let start = Instant::now();
        let mut infer = None;
        let ran = turn.infer(self.preprocessor.tensor(), &mut |outputs| {
            infer = Some(start.elapsed());
            decoded = decode::decode(&self.manifest, outputs, confidence, out);
        });
        drop(turn);
        ran.map_err(|e| self.failed(e))?;
        decoded.map_err(|e| self.failed(e))?;

        out.retain(|d| !self.info.labels[d.class_id].is_empty());
        let own = self.manifest.nms;
        suppress(
            out,
            params.iou_threshold.or(own.map(|nms| nms.iou)),
            params
                .class_agnostic_nms
                .unwrap_or(own.is_some_and(|nms| nms.class_agnostic)),
            params.max_detections,
        );
        let (width, height) = (
            f64::from(place.source_width),
            f64::from(place.source_height),
        );
        for d in out.iter_mut() {
            d.bbox = place.to_source(&d.bbox).clip(width, height);
        }
        out.retain(|d| d.bbox.area() > 0.0);
        let infer = infer.unwrap_or_default();
        Ok(DetectTimes {
            preprocess,
            infer,
            postprocess: start.elapsed().saturating_sub(infer),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::testing::{detect, manifest, rgb_frame, scripted};

    #[test]
    fn boxes_come_back_in_source_pixels_and_clipped() {
        // 128x64 in a 64x64 input: half size, at the top. One thing reaches past the right edge.
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
