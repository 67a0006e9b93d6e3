//! The detector over a network: scale, infer, decode, suppress, map back.
//!
//! One value a stream; the network itself may be shared. Invariant: a stream holds its turn at the network only while it
//! infers and reads the outputs in place; scaling and suppression of several streams run side by side. Times measure work:
//! waiting for a turn is in none of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_models::Manifest;
use watchkeeper_models::manifest::{DecodeKind, Task};

use super::decode::shapes::{Shape, Shapes};
use super::decode::{self, DecodeError};
use super::network::{Network, Tensor};
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
    /// What was read of the objects of a picture besides their boxes, and what was made of it.
    read: Shapes,
    shapes: Vec<Shape>,
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
            task: manifest.task,
            labels: manifest.labels.clone(),
            knows_classes: true,
            follows_one_picture: false,
        };
        Self {
            info,
            preprocessor: Preprocessor::new(manifest.input.clone()),
            manifest,
            network,
            read: Shapes::default(),
            shapes: Vec::new(),
        }
    }

    fn only(&self) -> DetectError {
        DetectError::Task {
            model: self.info.model.clone(),
            task: self.info.task,
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

/// Runs a network and has its outputs read in place. Answers when it began, and how long it took before the reading.
///
/// # Errors
/// What the back end said, or what is wrong with the outputs.
fn infer(
    network: &SharedNetwork,
    tensor: &[f32],
    read: &mut dyn FnMut(&[Tensor<'_>]) -> Result<(), DecodeError>,
) -> Result<(Instant, Duration), String> {
    let (mut took, mut done) = (Duration::ZERO, Ok(()));
    let mut turn = network.enter();
    let start = Instant::now();
    turn.infer(tensor, &mut |outputs| {
        took = start.elapsed();
        done = read(outputs);
    })?;
    drop(turn);
    done.map_err(|e| e.to_string())?;
    Ok((start, took))
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
        decoded = decode::decode(manifest, outputs, 1.0, &mut Vec::new())
            .and_then(|()| Shapes::default().read(manifest, outputs, &[]));
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
        self.shapes.clear();
        if self.info.task == Task::Classification {
            return Err(self.only());
        }
        let start = Instant::now();
        let place = self.preprocessor.run(&frame.picture)?;
        let preprocess = start.elapsed();

        let confidence = params.confidence.unwrap_or(self.manifest.confidence);
        let own = self.manifest.nms;
        let weed = |out: &mut Vec<RawDetection>| {
            out.retain(|d| !self.info.labels[d.class_id].is_empty());
            suppress(
                out,
                params.iou_threshold.or(own.map(|nms| nms.iou)),
                params
                    .class_agnostic_nms
                    .unwrap_or(own.is_some_and(|nms| nms.class_agnostic)),
                params.max_detections,
            );
        };
        let ran = infer(&self.network, self.preprocessor.tensor(), &mut |outputs| {
            decode::decode(&self.manifest, outputs, confidence, out)?;
            if params.shapes {
                // Within the turn: what is said of those that go need not be kept.
                weed(out);
                self.read.read(&self.manifest, outputs, out)?;
            }
            Ok(())
        });
        let (start, infer) = ran.map_err(|e| self.failed(e))?;
        if !params.shapes {
            weed(out);
        }
        let (width, height) = (
            f64::from(place.source_width),
            f64::from(place.source_height),
        );
        for d in out.iter_mut() {
            d.bbox = place.to_source(&d.bbox).clip(width, height);
        }
        if params.shapes {
            let shape = |(i, d): (usize, &RawDetection)| {
                self.read.shape(&self.manifest, i, &d.bbox, &place)
            };
            let shapes = out.iter().enumerate().map_while(shape);
            self.shapes.extend(shapes);
            // Those of boxes that go.
            let mut areas = out.iter().map(|d| d.bbox.area());
            self.shapes.retain(|_| areas.next() > Some(0.0));
        }
        out.retain(|d| d.bbox.area() > 0.0);
        Ok(DetectTimes {
            preprocess,
            infer,
            postprocess: start.elapsed().saturating_sub(infer),
        })
    }

    fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    fn classify(&mut self, frame: &Frame, out: &mut Vec<f32>) -> Result<DetectTimes, DetectError> {
        out.clear();
        let DecodeKind::Classes { scores } = self.manifest.decode.kind else {
            return Err(self.only());
        };
        let start = Instant::now();
        self.preprocessor.run(&frame.picture)?;
        let preprocess = start.elapsed();
        let ran = infer(&self.network, self.preprocessor.tensor(), &mut |outputs| {
            decode::scores(&self.manifest, scores, outputs, out)
        });
        let (start, infer) = ran.map_err(|e| self.failed(e))?;
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
