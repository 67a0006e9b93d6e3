//! Pictures to detections.
//!
//! Owns the [`Detector`] seam: every back end (pure Rust network, ONNX Runtime, the motion detector, later TensorRT)
//! answers the same question. Invariant: boxes are in pixels of the picture that was handed in, clipped to it, sorted by
//! falling score; no tensor type leaves this folder.
//!
//! Map: [`pool`] opens detectors; [`neural`] is the one over a network that finds objects or classifies, [`whole`] says other
//! things of whole pictures, [`read`] reads them, [`gaze`] tells where faces look, [`prompted`] which pixels belong to what is pointed at,
//! [`actions`] what happens in a run of frames; `look` is one stream's way to a network and
//! `text` the way from words to numbers, with [`preprocess`] (planes to tensor, [`letterbox`]
//! geometry), [`network`] (the back-end seam: [`rten`] and `ort`, chosen by [`backend`]), [`decode`] (tensors to boxes),
//! [`nms`], and [`shared`] (streams take turns at one session); [`motion`] is the one that needs no weights.

pub mod actions;
pub mod backend;
mod colour;
pub mod decode;
mod detection;
mod detector;
mod error;
pub mod fair_mutex;
pub mod gaze;
pub mod letterbox;
pub mod motion;
pub mod network;
pub mod neural;
pub mod nms;
#[cfg(feature = "ort")]
pub mod ort;
mod ort_library;
pub mod pool;
pub mod preprocess;
pub mod prompted;
pub mod read;
pub mod rten;
mod stream_network;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod warm_up;
pub mod whole;

pub use backend::BackendChoice;
pub use decode::anomaly::Anomaly;
pub use decode::depth::DepthMap;
pub use decode::prompted::PromptedMask;
pub use decode::segments::Segment;
pub use decode::shapes::Shape;
pub use detection::{DetectParams, DetectTimes, RawDetection};
pub use detector::{Detector, DetectorInfo, FaceGaze, ReadLine, RunWanted};
pub use error::DetectError;
pub use ort_library::OrtPlaces;
pub use pool::{DetectorPool, OpenError, OpenRequest};
pub use stream_network::SharedNetwork;
