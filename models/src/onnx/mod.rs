//! ONNX files: new ones, and others with less precision.
//!
//! - [`half`]: float16 in place of float32 where little is lost.
//! - [`quantize`]: int8 by measured ranges.
//! - A file that is edited keeps every field that is not replaced, known here or not.
//! - A damaged file is an error in one sentence, never a panic.
//! - Not here: what a network computes.

mod edit;
pub mod half;
mod message;
mod operators;
pub mod quantize;
mod write;

pub use edit::OnnxError;
pub use message::Message;
pub use write::{FLOAT, FLOAT16, INT8, INT64, constant, integers, model, node, tensor_info};
