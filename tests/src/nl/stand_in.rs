//! Models of a task's box: networks with the labels of the task that find nothing.
//!
//! The runtime opens, checks and runs them like any other; [`super::play`] replaces their
//! detections by the script. The ONNX file is written here, because it has one more tensor for
//! every label: `output = mean(picture) * zeros(1 × (4 + labels) × 1)`, in the layout of YOLOv8.
//! Field numbers are those of `onnx.proto` (onnx/onnx, IR version 8).

use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use super::play::Models;

/// Classes of most detectors.
const COCO: &str = include_str!("../../../models/labels/coco-80.txt");
/// Name of the default model, which every box has.
pub const USUAL: &str = "coco80-detector";
/// Width and height of the network's input in pixels.
const SIDE: u64 = 64;

/// Parses the models that a scene names, such as `ppe detector (helmet, vest)`, and adds the
/// default one. Also returns those that no box can have: they list no classes, or need an
/// unsupported kind of model.
#[must_use]
pub fn models(written: &[String]) -> (Models, Vec<String>) {
    let mut models = Models::new();
    let mut absent = Vec::new();
    let coco = || COCO.lines().map(str::to_owned).collect::<Vec<_>>();
    models.insert(USUAL.to_owned(), coco());
    for text in written {
        let (name, labels) = match text.split_once('(') {
            Some((name, labels)) => (name, Some(labels.trim_end().trim_end_matches(')'))),
            None => (text.as_str(), None),
        };
        let name = slug(name);
        match labels {
            Some(labels) => {
                let labels = labels.split(',').map(|l| l.trim().to_owned());
                models.insert(name, labels.filter(|l| !l.is_empty()).collect());
            }
            None if name.contains("coco") => {}
            None => absent.push(text.clone()),
        }
    }
    (models, absent)
}

fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|w| !w.is_empty()).map(str::to_lowercase);
    words.collect::<Vec<_>>().join("-")
}

/// Writes the models into a folder as packages of the zoo.
///
/// # Errors
/// If the folder can't be written.
pub fn write(models: &Models, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, labels) in models {
        let write = |ending: &str, bytes: &[u8]| {
            let path = folder.join(format!("{name}.{ending}"));
            std::fs::write(&path, bytes).with_context(|| format!("can't write {}", path.display()))
        };
        write("onnx", &network(labels.len() as u64))?;
        write("toml", manifest(name, labels).as_bytes())?;
    }
    Ok(())
}

fn manifest(name: &str, labels: &[String]) -> String {
    format!(
        "name = {}\ntask = \"object-detection\"\nsummary = \"A stand-in that sees nothing\"\nconfidence = 0.25\nlabels = {}\n\n\
         [input]\nwidth = {SIDE}\nheight = {SIDE}\nlayout = \"nchw\"\ncolour = \"rgb\"\ndtype = \"f32\"\nfit = \"stretch\"\n\n\
         [decode]\nkind = \"yolov8\"\n\n[nms]\niou = 0.5\nclass_agnostic = false\n",
        json!(name),
        json!(labels)
    )
}

/// Minimal writer for protocol buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

const FLOAT: u64 = 1;

/// Describes name and shape of an input or output tensor.
fn tensor_info(name: &str, shape: &[u64]) -> Message {
    let dimensions = shape.iter().fold(Message::default(), |shape, size| {
        shape.message(1, &Message::default().number(1, *size))
    });
    let tensor = Message::default().number(1, FLOAT).message(2, &dimensions);
    Message::default()
        .text(1, name)
        .message(2, &Message::default().message(1, &tensor))
}

fn node(kind: &str, inputs: &[&str], output: &str) -> Message {
    let node = inputs
        .iter()
        .fold(Message::default(), |node, input| node.text(1, input));
    node.text(2, output).text(3, output).text(4, kind)
}

fn network(labels: u64) -> Vec<u8> {
    let fields = labels + 4;
    let zeros = [1, fields, 1]
        .iter()
        .fold(Message::default(), |tensor, size| tensor.number(1, *size));
    let zeros = zeros
        .number(2, FLOAT)
        .text(8, "zeros")
        .bytes(9, &vec![0; fields as usize * 4]);
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
    let mean = node("ReduceMean", &["images"], "mean")
        .message(5, &axes)
        .message(5, &keep);
    let graph = Message::default()
        .message(1, &mean)
        .message(1, &node("Mul", &["mean", "zeros"], "output0"))
        .text(2, "blind")
        .message(5, &zeros)
        .message(11, &tensor_info("images", &[1, 3, SIDE, SIDE]))
        .message(12, &tensor_info("output0", &[1, fields, 1]));
    let operators = Message::default().text(1, "").number(2, 13);
    let model = Message::default()
        .number(1, 8)
        .text(2, "watchkeeper")
        .message(7, &graph)
        .message(8, &operators);
    model.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_has_the_name_and_labels_of_the_scene() {
        let written = [
            "coco80 detector",
            "open-vocabulary detector",
            "PPE detector (helmet, no-helmet)",
        ];
        let (models, absent) = models(&written.map(str::to_owned));
        let names: Vec<&str> = models.keys().map(String::as_str).collect();
        assert_eq!(names, [USUAL, "ppe-detector"]);
        assert_eq!(
            models.get("ppe-detector").map(Vec::as_slice),
            Some(&["helmet".to_owned(), "no-helmet".to_owned()][..])
        );
        assert_eq!(absent, ["open-vocabulary detector"]);
    }
}
