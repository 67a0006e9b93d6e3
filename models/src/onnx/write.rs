//! Parts of new ONNX files.
//!
//! - Field numbers are those of `onnx.proto` (onnx/onnx, IR version 8), operators are of opset 13.

use super::message::Message;

/// Type of a tensor of `f32`.
pub const FLOAT: u64 = 1;
/// Type of a tensor of `i8`.
pub const INT8: u64 = 3;
/// Type of a tensor of `i64`.
pub const INT64: u64 = 7;
/// Type of a tensor of `f16`.
pub const FLOAT16: u64 = 10;

/// Describes name, type and shape of an input or output tensor.
pub fn tensor_info(name: &str, kind: u64, shape: &[u64]) -> Message {
    let dimensions = shape.iter().fold(Message::default(), |shape, size| {
        shape.message(1, &Message::default().number(1, *size))
    });
    let tensor = Message::default().number(1, kind).message(2, &dimensions);
    Message::default()
        .text(1, name)
        .message(2, &Message::default().message(1, &tensor))
}

/// Describes an operation.
pub fn node(kind: &str, inputs: &[&str], output: &str) -> Message {
    let node = inputs
        .iter()
        .fold(Message::default(), |node, input| node.text(1, input));
    node.text(2, output).text(3, output).text(4, kind)
}

/// Describes a tensor of constants; `data` is little endian.
pub fn constant(name: &str, kind: u64, shape: &[u64], data: &[u8]) -> Message {
    let tensor = shape
        .iter()
        .fold(Message::default(), |tensor, size| tensor.number(1, *size));
    tensor.number(2, kind).text(8, name).bytes(9, data)
}

/// Describes a tensor of `i64` with one axis.
pub fn integers(name: &str, shape: &[u64], values: &[i64]) -> Message {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    constant(name, INT64, shape, &data)
}

/// Returns the bytes of a file with this graph.
pub fn model(graph: &Message) -> Vec<u8> {
    let operators = Message::default().text(1, "").number(2, 13);
    let model = Message::default()
        .number(1, 8)
        .text(2, "watchkeeper")
        .message(7, graph)
        .message(8, &operators);
    model.to_bytes()
}
