//! TensorFlow Lite files as ONNX: detectors of convolutions, whose weights have 16 or 32 bits.
//!
//! - An allow-list: an operator, type or option that is not read is refused by name.
//! - A damaged file is an error in one sentence, never a panic; its size bounds the work.
//! - The same file always becomes the same bytes, so that the result has a known checksum.
//! - Not here: where files come from ([`crate::registry`]).

mod convert;
mod convolution;
mod error;
mod flatbuffer;
mod schema;

pub use error::TfliteError;

/// Converts a TFLite file with one picture as its input to ONNX.
///
/// # Errors
/// [`TfliteError`]: the file is damaged, or has a part that is not supported.
pub fn to_onnx(file: &[u8]) -> Result<Vec<u8>, TfliteError> {
    convert::convert(&schema::Model::read(file)?, None)
}

/// Converts a TFLite file up to the tensor with this number. Its only output is the embedding of
/// the picture: the means of each channel over the four quarters of the tensor's places.
///
/// # Errors
/// As [`to_onnx`]; or if no operator computes the tensor, or it is not a picture of even sides.
pub fn features_to_onnx(file: &[u8], tensor: usize) -> Result<Vec<u8>, TfliteError> {
    convert::convert(&schema::Model::read(file)?, Some(tensor))
}
