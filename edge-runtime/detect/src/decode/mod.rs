//! Decoders of output tensors, one file per family of networks.
//!
//! - [`decode`] chooses by the manifest; [`Request`] is what a decoder takes.
//! - Boxes: [`detr`], [`nanodet`], [`ssd`], [`yolov8`], [`yolox`], and their masks and keypoints in
//!   [`shapes`]. Whole pictures: [`anomaly`], [`classes`], [`depth`], [`embedding`], [`segments`].
//!   Text: [`lines`], [`ctc`]. Others: [`gaze`], [`prompted`].
//!
//! Invariants:
//! - Boxes are in pixels of the input, neither suppressed nor clipped.
//! - No value makes a decoder panic, and no box has a coordinate that is not finite.
//! - A tensor of an unexpected shape is an error that names both shapes.

pub mod anomaly;
pub mod classes;
pub mod ctc;
pub mod depth;
pub mod detr;
pub mod embedding;
mod error;
mod family;
pub mod gaze;
mod lattice;
pub mod lines;
pub mod nanodet;
pub mod prompted;
mod request;
pub mod segments;
pub mod shapes;
pub mod ssd;
#[cfg(test)]
pub(crate) mod testing;
pub mod yolov8;
pub mod yolox;

pub use error::DecodeError;
pub use family::{decode, features, scores};
pub use request::Request;
