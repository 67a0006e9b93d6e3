//! Models of a task's box: networks with the labels of the task that find nothing.
//!
//! The runtime opens, checks and runs them like any other; [`super::play`] replaces their
//! detections by the script. The ONNX file is written here, because it has one more tensor for
//! every label. That is `output = mean(picture) * zeros(1 × (4 + labels) × 1)`, in the layout of
//! YOLOv8.

use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use super::play::Models;
use crate::onnx::{FLOAT, Message, floats, mean_of, model, node, tensor_info};

/// Classes of most detectors.
const COCO: &str = include_str!("../../../models/labels/coco-80.txt");
/// Name of the default model, which every box has.
pub const USUAL: &str = "coco80-detector";
/// Width and height of the network's input in pixels.
const SIDE: u64 = 64;

/// Parses the models that a scene names, such as `ppe detector (helmet, vest)`, and adds the
/// default one. Also returns those that no box can have: they list no classes, or need an
/// unsupported kind of model.
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

pub(super) fn slug(name: &str) -> String {
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

fn network(labels: u64) -> Vec<u8> {
    let fields = labels + 4;
    let zeros = floats("zeros", &[1, fields, 1], 0.0);
    let mean = mean_of("images", "mean");
    let product = node("Mul", &["mean", "zeros"], "output0");
    let graph = Message::default()
        .message(1, &mean)
        .message(1, &product)
        .text(2, "blind")
        .message(5, &zeros)
        .message(11, &tensor_info("images", FLOAT, &[1, 3, SIDE, SIDE]))
        .message(12, &tensor_info("output0", FLOAT, &[1, fields, 1]));
    model(&graph)
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
