//! Model packages as Roboflow's inference keeps them on disk: a folder with the network, its
//! classes and two descriptions.
//!
//! Owns the reading of `model_config.json`, `inference_config.json` and `class_names.txt` beside
//! `weights.onnx`. A package becomes a manifest in our own notation and goes through the same
//! check.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::manifest::Manifest;
use crate::raw::ManifestError;

/// The network of a package.
const WEIGHTS: &str = "weights.onnx";
/// Kind of the network.
const CONFIG: &str = "model_config.json";
/// Its input, and the processing of its outputs.
const INFERENCE: &str = "inference_config.json";
/// Class names, one a line.
const CLASSES: &str = "class_names.txt";

#[derive(Deserialize)]
struct ModelConfig {
    model_architecture: String,
    task_type: String,
    backend_type: String,
}

#[derive(Deserialize)]
struct InferenceConfig {
    network_input: NetworkInput,
}

#[derive(Deserialize)]
struct NetworkInput {
    training_input_size: Size,
    #[serde(default = "rgb")]
    color_mode: String,
    #[serde(default)]
    resize_mode: String,
    padding_value: Option<u8>,
    scaling_factor: Option<f64>,
}

#[derive(Deserialize)]
struct Size {
    width: u32,
    height: u32,
}

fn rgb() -> String {
    "rgb".to_owned()
}

/// Returns whether a folder is a package.
#[must_use]
pub fn is_package(folder: &Path) -> bool {
    folder.join(CONFIG).is_file() && folder.join(WEIGHTS).is_file()
}

/// Reads the manifest of a package, and the path of its network.
///
/// # Errors
/// [`ManifestError`] with the file that is missing or holds an unknown value.
pub fn read(folder: &Path) -> Result<(Manifest, PathBuf), ManifestError> {
    let config: ModelConfig = json(&folder.join(CONFIG))?;
    let inference: InferenceConfig = json(&folder.join(INFERENCE))?;
    let classes = text(&folder.join(CLASSES))?;
    let refuse = |key: &str, message: String| ManifestError::Shape {
        file: folder.join(CONFIG),
        key: format!("{key}: "),
        message,
    };
    let decode = match config.task_type.as_str() {
        "object-detection" => "yolov8",
        "instance-segmentation" => "yolov8-seg",
        other => {
            let message =
                format!("is {other:?}; object-detection and instance-segmentation are supported");
            return Err(refuse("task_type", message));
        }
    };
    if config.backend_type != "onnx" {
        let message = format!("is {:?}; onnx is supported", config.backend_type);
        return Err(refuse("backend_type", message));
    }
    match config.model_architecture.as_str() {
        "yolov8" | "yolov9" | "yolov11" | "yolov12" | "yolo11" => {}
        other => {
            let message = format!("is {other:?}; networks with the layout of yolov8 are supported");
            return Err(refuse("model_architecture", message));
        }
    };
    let input = inference.network_input;
    let fit = match input.resize_mode.as_str() {
        "stretch" => "fit = \"stretch\"".to_owned(),
        _ => format!(
            "fit = \"letterbox\"\nplacement = \"centre-exact\"\npad = {}",
            input.padding_value.unwrap_or(127)
        ),
    };
    let labels: Vec<String> = classes
        .lines()
        .map(|line| toml::Value::String(line.trim().to_owned()).to_string())
        .collect();
    let written = format!(
        "name = \"package\"\ntask = \"{task}\"\nconfidence = 0.4\nlabels = [{labels}]\n\
         [input]\nwidth = {width}\nheight = {height}\nlayout = \"nchw\"\ncolour = \"{colour}\"\ndtype = \"f32\"\n\
         scale = {scale}\n{fit}\n[decode]\nkind = \"{decode}\"\n[nms]\niou = 0.3\nclass_agnostic = false\n",
        task = config.task_type,
        labels = labels.join(", "),
        width = input.training_input_size.width,
        height = input.training_input_size.height,
        colour = if input.color_mode == "bgr" {
            "bgr"
        } else {
            "rgb"
        },
        scale = 1.0 / input.scaling_factor.unwrap_or(255.0),
    );
    let manifest = Manifest::parse(&folder.join(INFERENCE), &written)?;
    Ok((manifest, folder.join(WEIGHTS)))
}

fn text(path: &Path) -> Result<String, ManifestError> {
    let failed = |source: io::Error| ManifestError::Read {
        file: path.to_owned(),
        source,
    };
    fs::read_to_string(path).map_err(failed)
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ManifestError> {
    serde_json::from_str(&text(path)?).map_err(|e| ManifestError::Shape {
        file: path.to_owned(),
        key: String::new(),
        message: e.to_string(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use super::{CLASSES, CONFIG, INFERENCE, WEIGHTS, is_package, read};
    use std::fs;

    fn package(task: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(WEIGHTS, "");
        write(
            CONFIG,
            &format!(
                r#"{{"model_architecture": "yolov8", "task_type": "{task}", "backend_type": "onnx"}}"#
            ),
        );
        write(
            INFERENCE,
            r#"{"network_input": {"training_input_size": {"height": 480, "width": 640}, "resize_mode": "letterbox",
                "padding_value": 127, "scaling_factor": 255}}"#,
        );
        write(CLASSES, "person\nbig \"car\"\n");
        folder
    }

    #[test]
    fn a_package_becomes_a_manifest() {
        let folder = package("object-detection");
        assert!(is_package(folder.path()));
        let (manifest, weights) = read(folder.path()).unwrap();
        assert_eq!((manifest.input.width, manifest.input.height), (640, 480));
        assert_eq!(&*manifest.labels[1], "big \"car\"");
        assert_eq!(weights, folder.path().join(WEIGHTS));
    }

    #[test]
    fn a_package_with_masks_has_their_layout() {
        let (manifest, _) = read(package("instance-segmentation").path()).unwrap();
        assert_eq!(manifest.decode.kind.name(), "yolov8-seg");
    }

    #[test]
    fn package_for_another_task_is_refused() {
        let error = read(package("classification").path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("task_type: is \"classification\""),
            "{error}"
        );
    }
}
