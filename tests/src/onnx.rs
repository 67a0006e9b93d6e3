//! Small networks as ONNX files, among them some that no machine can run.

use std::path::{Path, PathBuf};

use watchkeeper_models::onnx::INT64;
pub use watchkeeper_models::onnx::{FLOAT, Message, constant, integers, model, node, tensor_info};

/// Width and height of the picture that a hostile network takes.
pub const SIDE: u64 = 64;

const BOOL: u64 = 9;

/// A constant whose values are all equal.
pub fn floats(name: &str, shape: &[u64], value: f32) -> Message {
    let count: u64 = shape.iter().product();
    let data: Vec<u8> = (0..count).flat_map(|_| value.to_le_bytes()).collect();
    constant(name, FLOAT, shape, &data)
}

/// The mean of a picture, one number.
pub fn mean_of(picture: &str, output: &str) -> Message {
    node("ReduceMean", &[picture], output)
        .ints("axes", &[1, 2, 3])
        .int("keepdims", 0)
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

/// A convolution whose windows lie side by side.
fn convolution(inputs: &[&str], output: &str, side: u64) -> Message {
    node("Conv", inputs, output)
        .ints("kernel_shape", &[side, side])
        .ints("strides", &[side, side])
        .ints("pads", &[0; 4])
        .int("group", 1)
}

/// Sides of the grid in which [`write_bright_cells`] finds boxes.
const CELLS: u64 = 4;

/// Writes `NAME.onnx` and its manifest: a detector whose boxes are the cells of a grid, with their
/// brightness as the scores. It has two convolutions; their weights have no more digits than
/// float16.
///
/// # Errors
/// If the folder can't be written.
pub fn write_bright_cells(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let (count, side) = (CELLS * CELLS, SIDE / CELLS);
    let data = |values: Vec<f32>| {
        values
            .into_iter()
            .flat_map(f32::to_le_bytes)
            .collect::<Vec<_>>()
    };
    let places: Vec<(u64, u64)> = (0..count).map(|i| (i % CELLS, i / CELLS)).collect();
    let middle = |i: u64| (i * side + side / 2) as f32;
    let columns = places.iter().map(|(x, _)| middle(*x));
    let rows = places.iter().map(|(_, y)| middle(*y));
    let sizes = std::iter::repeat_n(side as f32, 2 * places.len());
    let boxes = columns.chain(rows).chain(sizes).collect();
    let pixels = usize::try_from(side * side)?;
    let mean = vec![1.0 / pixels as f32; pixels];
    let graph = Message::default()
        .message(1, &convolution(&["images", "colours"], "grey", 1))
        .message(1, &convolution(&["grey", "mean"], "cells", side))
        .message(1, &node("Reshape", &["cells", "row"], "scores"))
        .message(
            1,
            &node("Concat", &["boxes", "scores"], "output0").int("axis", 1),
        )
        .text(2, "bright")
        .message(
            5,
            &constant(
                "colours",
                FLOAT,
                &[1, 3, 1, 1],
                &data([0.25, 0.5, 0.25].map(|share| share / 256.0).to_vec()),
            ),
        )
        .message(
            5,
            &constant("mean", FLOAT, &[1, 1, side, side], &data(mean)),
        )
        .message(5, &constant("boxes", FLOAT, &[1, 4, count], &data(boxes)))
        .message(5, &integers("row", &[3], &[1, 1, count.cast_signed()]))
        .message(11, &tensor_info("images", FLOAT, &[1, 3, SIDE, SIDE]))
        .message(12, &tensor_info("output0", FLOAT, &[1, 5, count]));
    let path = folder.join(format!("{name}.onnx"));
    std::fs::write(&path, model(&graph))?;
    std::fs::write(path.with_extension("toml"), manifest(name))?;
    Ok(path)
}

fn manifest(name: &str) -> String {
    format!(
        "name = {name:?}\ntask = \"object-detection\"\nsummary = \"A network of a test\"\nconfidence = 0.25\nlabels = [\"thing\"]\n\n\
         [input]\nwidth = {SIDE}\nheight = {SIDE}\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"stretch\"\n\n\
         [decode]\nkind = \"yolov8\"\n\n[nms]\niou = 0.5\nclass_agnostic = false\n"
    )
}

/// A sentence model that repeats the sum of its tokens to 161 GB.
pub fn hostile_sentence_model() -> Vec<u8> {
    let one = Message::default().number(1, 1);
    let any = Message::default().text(2, "tokens");
    let shape = Message::default().message(1, &one).message(1, &any);
    let tensor = Message::default().number(1, INT64).message(2, &shape);
    let tokens = Message::default()
        .text(1, "input_ids")
        .message(2, &Message::default().message(1, &tensor));
    let cast = node("Cast", &["input_ids"], "numbers").int("to", FLOAT);
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
    node("ReduceSum", &[input], output).int("keepdims", 0)
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
