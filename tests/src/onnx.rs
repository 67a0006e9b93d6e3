//! Writes ONNX files: small networks, among them some that no machine can run.
//!
//! Field numbers are those of `onnx.proto` (onnx/onnx, IR version 8).

use std::path::{Path, PathBuf};

/// Width and height of the picture that a hostile network takes.
pub const SIDE: u64 = 64;

/// Type of a tensor of `f32`.
pub const FLOAT: u64 = 1;
const INT64: u64 = 7;
const BOOL: u64 = 9;

/// Minimal writer for protocol buffers.
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

fn constant(name: &str, kind: u64, shape: &[u64], data: &[u8]) -> Message {
    let tensor = shape
        .iter()
        .fold(Message::default(), |tensor, size| tensor.number(1, *size));
    tensor.number(2, kind).text(8, name).bytes(9, data)
}

/// A constant whose values are all equal.
#[must_use]
pub fn floats(name: &str, shape: &[u64], value: f32) -> Message {
    let count: u64 = shape.iter().product();
    let data: Vec<u8> = (0..count).flat_map(|_| value.to_le_bytes()).collect();
    constant(name, FLOAT, shape, &data)
}

fn integers(name: &str, shape: &[u64], values: &[i64]) -> Message {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    constant(name, INT64, shape, &data)
}

/// The mean of a picture, one number.
#[must_use]
pub fn mean_of(picture: &str, output: &str) -> Message {
    // Attributes of ReduceMean: INTS is kind 7, INT kind 2.
    let axes = [1, 2, 3]
        .iter()
        .fold(Message::default().text(1, "axes"), |a, axis| {
            a.number(8, *axis)
        });
    let axes = axes.number(20, 7);
    let keep = Message::default()
        .text(1, "keepdims")
        .number(3, 0)
        .number(20, 2);
    node("ReduceMean", &[picture], output)
        .message(5, &axes)
        .message(5, &keep)
}

/// The bytes of a file with this graph.
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

/// A network that a runtime must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hostile {
    /// A constant of 2^20 x 2^20 numbers, which some back ends compute when they load the file.
    ConstantOfShape,
    /// The mean of the picture, repeated to 161 GB.
    Expand,
    /// A loop of 10^12 turns.
    Loop,
    /// None: the network of a detector that finds nothing.
    Harmless,
}

impl Hostile {
    /// The bytes of the file: a detector in the layout of YOLOv8 with one class.
    #[must_use]
    pub fn network(self) -> Vec<u8> {
        let graph = match self {
            Self::ConstantOfShape => {
                let graph = Message::default()
                    .message(1, &node("ConstantOfShape", &["large"], "ones"))
                    .message(1, &sum_of("ones", "sum"))
                    .message(1, &node("Mul", &["mean", "sum"], "number"));
                graph.message(5, &integers("large", &[2], &[1 << 20, 1 << 20]))
            }
            Self::Expand => {
                let graph = Message::default()
                    .message(1, &node("Expand", &["mean", "large"], "copies"))
                    .message(1, &sum_of("copies", "number"));
                graph.message(5, &integers("large", &[2], &[200_000, 201_250]))
            }
            Self::Loop => endless_loop(),
            Self::Harmless => Message::default().message(1, &node("Identity", &["mean"], "number")),
        };
        let graph = Message::default()
            .message(1, &mean_of("images", "mean"))
            .append(graph)
            .message(1, &node("Mul", &["number", "zeros"], "output0"))
            .text(2, "hostile")
            .message(5, &floats("zeros", &[1, 5, 1], 0.0))
            .message(11, &tensor_info("images", FLOAT, &[1, 3, SIDE, SIDE]))
            .message(12, &tensor_info("output0", FLOAT, &[1, 5, 1]));
        model(&graph)
    }

    /// Writes `NAME.onnx` and its manifest into a folder; returns the path of the network.
    ///
    /// # Errors
    /// If the folder can't be written.
    pub fn write(self, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{name}.onnx"));
        std::fs::write(&path, self.network())?;
        std::fs::write(path.with_extension("toml"), manifest(name))?;
        Ok(path)
    }
}

impl Message {
    fn append(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

fn manifest(name: &str) -> String {
    format!(
        "name = {name:?}\ntask = \"object-detection\"\nsummary = \"A network of a test\"\nconfidence = 0.25\nlabels = [\"thing\"]\n\n\
         [input]\nwidth = {SIDE}\nheight = {SIDE}\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"stretch\"\n\n\
         [decode]\nkind = \"yolov8\"\n\n[nms]\niou = 0.5\nclass_agnostic = false\n"
    )
}

/// A sentence model that repeats the sum of its tokens to 161 GB.
#[must_use]
pub fn hostile_sentence_model() -> Vec<u8> {
    let to_floats = Message::default()
        .text(1, "to")
        .number(3, FLOAT)
        .number(20, 2);
    let one = Message::default().number(1, 1);
    let any = Message::default().text(2, "tokens");
    let shape = Message::default().message(1, &one).message(1, &any);
    let tensor = Message::default().number(1, INT64).message(2, &shape);
    let tokens = Message::default()
        .text(1, "input_ids")
        .message(2, &Message::default().message(1, &tensor));
    let cast = node("Cast", &["input_ids"], "numbers").message(5, &to_floats);
    let graph = Message::default()
        .message(1, &cast)
        .message(1, &sum_of("numbers", "sum"))
        .message(1, &node("Expand", &["sum", "large"], "copies"))
        .message(1, &sum_of("copies", "number"))
        .message(1, &node("Mul", &["number", "zeros"], "sentence_embedding"))
        .text(2, "hostile")
        .message(5, &integers("large", &[2], &[200_000, 201_250]))
        .message(5, &floats("zeros", &[1, 16], 0.0))
        .message(11, &tokens)
        .message(12, &tensor_info("sentence_embedding", FLOAT, &[1, 16]));
    model(&graph)
}

/// The sum over all axes, as one number.
fn sum_of(input: &str, output: &str) -> Message {
    let keep = Message::default()
        .text(1, "keepdims")
        .number(3, 0)
        .number(20, 2);
    node("ReduceSum", &[input], output).message(5, &keep)
}

/// Adds the mean to itself, 10^12 times.
fn endless_loop() -> Message {
    let body = Message::default()
        .message(1, &node("Identity", &["go_on"], "goes_on"))
        .message(1, &node("Mul", &["before", "one"], "after"))
        .text(2, "body")
        .message(5, &floats("one", &[1], 1.0))
        .message(11, &tensor_info("turn", INT64, &[]))
        .message(11, &tensor_info("go_on", BOOL, &[]))
        .message(11, &tensor_info("before", FLOAT, &[1]))
        .message(12, &tensor_info("goes_on", BOOL, &[]))
        .message(12, &tensor_info("after", FLOAT, &[1]));
    // GRAPH is kind 5.
    let body = Message::default()
        .text(1, "body")
        .message(6, &body)
        .number(20, 5);
    let turns = node("Loop", &["turns", "yes", "mean"], "number").message(5, &body);
    Message::default()
        .message(1, &turns)
        .message(5, &integers("turns", &[], &[1_000_000_000_000]))
        .message(5, &constant("yes", BOOL, &[], &[1]))
}
