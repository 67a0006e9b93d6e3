//! Writes ONNX files.
//!
//! - Field numbers are those of `onnx.proto` (onnx/onnx, IR version 8), operators those of set 13.
//! - Not here: reading them (crate `detect`), and what a network computes.

/// Type of a tensor of `f32`.
pub const FLOAT: u64 = 1;
/// Type of a tensor of `i64`.
pub const INT64: u64 = 7;

/// Writer of one protocol buffer message.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    #[must_use]
    pub fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    #[must_use]
    pub fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    #[must_use]
    pub fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    #[must_use]
    pub fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Appends the fields of another message.
    #[must_use]
    pub fn append(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Appends an attribute of numbers to a node.
    #[must_use]
    pub fn ints(self, name: &str, values: &[u64]) -> Self {
        const INTS: u64 = 7;
        let attribute = values
            .iter()
            .fold(Self::default().text(1, name), |a, value| {
                a.number(8, *value)
            });
        self.message(5, &attribute.number(20, INTS))
    }

    /// Appends an attribute of one number to a node.
    #[must_use]
    pub fn int(self, name: &str, value: u64) -> Self {
        const INT: u64 = 2;
        let attribute = Self::default().text(1, name).number(3, value);
        self.message(5, &attribute.number(20, INT))
    }
}

/// Describes name, type and shape of an input or output tensor.
#[must_use]
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
#[must_use]
pub fn node(kind: &str, inputs: &[&str], output: &str) -> Message {
    let node = inputs
        .iter()
        .fold(Message::default(), |node, input| node.text(1, input));
    node.text(2, output).text(3, output).text(4, kind)
}

/// Describes a tensor of constants; `data` is little endian.
#[must_use]
pub fn constant(name: &str, kind: u64, shape: &[u64], data: &[u8]) -> Message {
    let tensor = shape
        .iter()
        .fold(Message::default(), |tensor, size| tensor.number(1, *size));
    tensor.number(2, kind).text(8, name).bytes(9, data)
}

/// Describes a tensor of `i64` with one axis.
#[must_use]
pub fn integers(name: &str, shape: &[u64], values: &[i64]) -> Message {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    constant(name, INT64, shape, &data)
}

/// Returns the bytes of a file with this graph.
#[must_use]
pub fn model(graph: &Message) -> Vec<u8> {
    let operators = Message::default().text(1, "").number(2, 13);
    let model = Message::default()
        .number(1, 8)
        .text(2, "watchkeeper")
        .message(7, graph)
        .message(8, &operators);
    model.0
}
