//! Tensors to boxes, one file a family of networks; to what objects are besides ([`shapes`]); to the scores of whole pictures ([`classes`]), the
//! numbers that stand for them ([`embedding`]), how unusual they are ([`anomaly`]), the classes of their pixels ([`segments`]) and their depth ([`depth`]); to lines of text ([`lines`])
//! and what they say ([`ctc`]); to where a face looks ([`gaze`]); to the pixels of what is pointed at ([`prompted`]).
//!
//! Pure functions. They answer boxes in input pixels, neither suppressed nor clipped; the crate does that for all
//! families alike. Invariant: whatever the numbers are, no decoder panics, and no box with a number that is not finite
//! comes out; a tensor of an unexpected shape is an error that names both shapes.

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
#[cfg(test)]
pub(crate) mod testing;
pub mod yolov8;
pub mod yolox;

pub use error::DecodeError;
pub use family::{decode, features, scores};
pub use request::Request;
