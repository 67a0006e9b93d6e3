//! Target `tflite`: a TensorFlow Lite file that becomes ONNX.
//!
//! - A refusal is one line that names the part of the file.
//! - An accepted file becomes the same bytes each time, and not many more than it has.

use watchkeeper_models::tflite::{TfliteError, features_to_onnx, to_onnx};

/// Bytes of a node with its names and attributes; the file has fewer for an operator.
const MAX_NODE: usize = 4096;

pub(super) fn tflite(input: &[u8]) {
    check(input, to_onnx);
    // A byte of the file is as good a number of a tensor as any.
    let tensor = usize::from(input.last().copied().unwrap_or_default());
    check(input, |file| features_to_onnx(file, tensor));
}

fn check(input: &[u8], convert: impl Fn(&[u8]) -> Result<Vec<u8>, TfliteError>) {
    match convert(input) {
        Ok(onnx) => {
            assert_eq!(convert(input).as_ref(), Ok(&onnx));
            // Weights of 16 bits become 32, and a constant may have two readers.
            let most = input.len().saturating_mul(MAX_NODE);
            assert!(
                onnx.len() <= most,
                "{} bytes of {}",
                onnx.len(),
                input.len()
            );
        }
        Err(refused) => {
            let message = refused.to_string();
            assert!(message.contains("TFL"), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
