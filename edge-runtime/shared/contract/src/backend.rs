//! Back ends as the API shows them, and measurements of models on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Name of the back end of the motion detector, which is part of the program.
pub const BUILT_IN: &str = "builtin";

/// The back ends of this box.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BackendReport {
    /// In the order in which `auto` tries them for a model that was not measured.
    pub backends: Vec<BackendInfo>,
    /// Models that were measured on this box, by name.
    pub measured: Vec<MeasuredModel>,
}

/// A program part or library that runs networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackendInfo {
    /// Value of `runtime.inference.backend`, such as `ort`.
    pub name: String,
    pub available: bool,
    /// Version, where the back end names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Path of its library; absent for a part of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Why it is not available, one clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// What would make it available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Execution providers in the order in which they are tried, such as `CPU`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
}

/// A model, and how fast the back ends of this box run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MeasuredModel {
    /// Name or path with which it was opened.
    pub model: String,
    /// The faster of rten and ONNX Runtime. Where it is rten, `auto` leaves ONNX Runtime out from
    /// the next opening of the model on.
    pub fastest: String,
    /// Median time of one inference by back end, in milliseconds.
    pub infer_ms: BTreeMap<String, f64>,
}

/// Measurements of one model, `watchkeeper models bench`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelBench {
    pub model: String,
    /// Width and height of the network's input in pixels; zeros for the motion detector.
    pub input: [u32; 2],
    /// Width and height of the examined picture in pixels.
    pub picture: [u32; 2],
    /// Runs before the measurement, which no figure includes.
    pub warm_up_runs: u32,
    pub backends: Vec<BackendBench>,
}

/// Measurements of one model on one back end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackendBench {
    pub backend: String,
    /// Execution provider that ran it, such as `CPU`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Why it could not be measured; all figures are absent or zero then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    pub runs: usize,
    /// Frames a second, one after the other.
    pub fps: f64,
    pub preprocess: StageTimes,
    pub infer: StageTimes,
    pub postprocess: StageTimes,
    /// Threads of one inference, where the back end has some on the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Peak memory of the process in megabytes; absent where several back ends shared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_mb: Option<f64>,
    /// Copies of whole tensors in one run, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_copies: Option<u32>,
}

/// A calibration of one model, `watchkeeper models calibrate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCalibration {
    pub model: String,
    /// Back end on which both networks were measured.
    pub backend: String,
    /// Tensors that became int8, besides weights.
    pub tensors: usize,
    /// Frames that gave the ranges of the tensors.
    pub range_frames: usize,
    /// Frames on which both networks were compared and measured.
    pub golden_frames: usize,
    /// Certain boxes of the network of float32.
    pub boxes: usize,
    /// In each frame those that the network of int8 lost or those that only it has, whichever are
    /// more; summed over all golden frames.
    pub changed_boxes: usize,
    /// Median time of one run of the network of `fp16`, on the same frames as `int8_ms`.
    pub before_ms: f64,
    pub int8_ms: f64,
    /// The kept file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Why it was not kept, one clause with the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// Percentiles of one stage, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StageTimes {
    pub p50_ms: f64,
    pub p99_ms: f64,
}
