//! Model packages as Roboflow's inference keeps them on disk: a folder with the network, its
//! classes and two descriptions.
//!
//! Owns the reading of `model_config.json`, `inference_config.json` and `class_names.txt` beside
//! `weights.onnx`. A package becomes a manifest in our own notation and goes through the same
//! check.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::manifest::Manifest;
use crate::raw::{MAX_FILE, ManifestError, read_small};

/// The network of a package.
const WEIGHTS: &str = "weights.onnx";
/// Kind of the network.
const CONFIG: &str = "model_config.json";
/// Input of the network, and the processing of its outputs.
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
    let refuse_in = |file: &str, key: &str, message: String| ManifestError::Shape {
        file: folder.join(file),
        key: format!("{key}: "),
        message,
    };
    let refuse = |key: &str, message: String| refuse_in(CONFIG, key, message);
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
    let fit = fit(&input).map_err(|message| refuse_in(INFERENCE, "resize_mode", message))?;
    let colour = match &*input.color_mode {
        known @ ("rgb" | "bgr") => known,
        other => {
            let message = format!("is {other:?}; rgb and bgr are supported");
            return Err(refuse_in(INFERENCE, "color_mode", message));
        }
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
        scale = 1.0 / input.scaling_factor.unwrap_or(255.0),
    );
    let manifest = Manifest::parse(&folder.join(INFERENCE), &written)?;
    Ok((manifest, folder.join(WEIGHTS)))
}

/// Returns the keys of our manifest for how a picture is fitted into the input.
fn fit(input: &NetworkInput) -> Result<String, String> {
    match &*input.resize_mode {
        "stretch" => Ok("fit = \"stretch\"".to_owned()),
        "center-crop" => Ok("fit = \"crop\"".to_owned()),
        "letterbox" => Ok(format!(
            "fit = \"letterbox\"\nplacement = \"centre-exact\"\npad = {}",
            input.padding_value.unwrap_or(127)
        )),
        other => Err(format!(
            "is {other:?}; stretch, letterbox and center-crop are supported"
        )),
    }
}

fn text(path: &Path) -> Result<String, ManifestError> {
    let failed = |source: io::Error| ManifestError::Read {
        file: path.to_owned(),
        source,
    };
    read_small(path, MAX_FILE).map_err(failed)
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
    use crate::manifest::Fit;
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
    fn unknown_resize_mode_and_colour_are_refused_by_name() {
        let folder = package("object-detection");
        let file = folder.path().join(INFERENCE);
        let text = fs::read_to_string(&file).unwrap();
        let with = |from: &str, to: &str| {
            fs::write(&file, text.replace(from, to)).unwrap();
            read(folder.path()).map(|(manifest, _)| manifest.input.fit)
        };
        let fault = |from, to| with(from, to).unwrap_err().to_string();
        assert_eq!(with("letterbox", "center-crop").unwrap(), Fit::Crop);
        let error = fault("letterbox", "letterbx");
        assert!(error.contains("resize_mode: is \"letterbx\""), "{error}");
        let error = fault("\"resize_mode\": \"letterbox\",", "");
        assert!(error.contains("resize_mode"), "{error}");
        let error = fault(
            "\"padding_value\"",
            "\"color_mode\": \"gray\", \"padding_value\"",
        );
        assert!(error.contains("color_mode: is \"gray\""), "{error}");
    }

    #[test]
    fn class_names_above_a_manifests_size_are_refused() {
        let folder = package("object-detection");
        let classes = fs::File::create(folder.path().join(CLASSES)).unwrap();
        classes.set_len(50 << 30).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(CLASSES), "{error}");
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
