//! Detection in pictures: neural networks and the built-in motion detector.
//!
//! - `pool` opens models. Each implements [`Detector`]: [`neural`] (objects, classes),
//!   `whole_image` (embeddings, segments, depth, anomalies), `read` (text), `gaze`,
//!   `prompted` (masks of prompts), `actions`, [`motion`].
//! - A network runs behind [`network`] ([`rten`], `ort` or [`trt`], chosen by [`backend`];
//!   [`availability`] lists them), in a [`precision`]; [`calibration`] makes int8. Its back end may
//!   [`change`] while it runs. Streams share it through a `fair_semaphore`.
//! - [`preprocess`] and [`letterbox`] turn a picture into a tensor; [`decode`] and [`nms`] turn
//!   tensors into bounding boxes. [`night_gain`] raises dark frames, [`tiles`] runs a detector
//!   on parts of a picture too.
//! - Bounding boxes are in pixels of the picture that the caller passed, clipped to it, sorted by
//!   falling score.
//! - No tensor type leaves this crate.

mod actions;
pub mod availability;
pub mod backend;
mod backend_in_use;
pub mod calibration;
pub mod change;
mod colour;
pub mod decode;
mod detection;
mod detector;
mod error;
mod fair_semaphore;
mod gaze;
pub mod letterbox;
pub mod motion;
pub mod network;
pub mod neural;
pub mod night_gain;
pub mod nms;
#[cfg(feature = "ort")]
mod ort;
mod ort_library;
#[cfg(feature = "ort")]
mod ort_providers;
mod picture_network;
mod pool;
pub mod precision;
pub mod preprocess;
mod prompted;
mod read;
pub mod rten;
mod scale;
mod stream_network;
#[cfg(test)]
pub(crate) mod testing;
mod text;
pub mod tiles;
pub mod trt;
mod turns;
mod warm_up;
mod whole_image;
mod workers;

pub use backend::BackendChoice;
pub use backend_in_use::{BackendInUse, ChangeReport, ChangeState};
pub use decode::anomaly::Anomaly;
pub use decode::depth::DepthMap;
pub use decode::prompted::PromptedMask;
pub use decode::segments::Segment;
pub use decode::shapes::Shape;
pub use detection::{DetectParams, DetectTimes, RawDetection};
pub use detector::{Detector, DetectorInfo, FaceGaze, OwnThresholds, ReadLine, RunWanted};
pub use error::DetectError;
pub use fair_semaphore::Claim;
pub use ort_library::{NO_TELEMETRY_ENV, OrtSettings};
pub use pool::{DetectorPool, OpenError, OpenRequest};
pub use precision::Precision;
pub use stream_network::SharedNetwork;
pub use workers::worker_time;
