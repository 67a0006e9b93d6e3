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

/// Returns whether a file is a whole ONNX model, by its outermost fields.
pub fn is_whole(file: Vec<u8>) -> bool {
    const GRAPH: u32 = 7;
    Message::read(file.into()).is_ok_and(|model| model.get(GRAPH).is_some())
}
