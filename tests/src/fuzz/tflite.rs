//! Target `tflite`: a TensorFlow Lite file that becomes ONNX.
//!
//! - A refusal is one line that names the part of the file.
//! - An accepted file becomes the same bytes each time, and not many more than it has.

use watchkeeper_models::tflite::to_onnx;

/// Bytes of a node with its names and attributes; the file has fewer for an operator.
const MAX_NODE: usize = 4096;

pub(super) fn tflite(input: &[u8]) {
    match to_onnx(input) {
        Ok(onnx) => {
            assert_eq!(to_onnx(input).as_ref(), Ok(&onnx));
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
