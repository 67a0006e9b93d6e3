//! Requests and reports about workflows: validation, a run on pictures, a dry run, the catalogue.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::{Decision, RuleEvent};
use crate::model::BackendChange;
use crate::pipeline::{PipelineResults, PipelineSpec, PipelineWarning};
use crate::rule::Severity;

/// Answer of `workflow validate`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ValidateReport {
    /// True when the definition compiles.
    pub ok: bool,
    /// Everything that is wrong, not only the first problem.
    pub errors: Vec<WorkflowError>,
    /// Batch dimensionality of every step, when it compiles.
    pub steps: BTreeMap<String, StepDims>,
    /// Dimensionality and kinds of every output, when it compiles.
    pub outputs: BTreeMap<String, OutputInfo>,
    /// Properties without effect, when it compiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<WorkflowWarning>,
}

/// A property of a step that has no effect: one that its block doesn't have, or a zone without
/// area.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowWarning {
    /// Name of the step.
    pub step: String,
    /// Name of the property, as written.
    pub property: String,
    /// One sentence: what was found, and what it means.
    pub message: String,
    /// The property that was probably meant.
    pub nearest: Option<String>,
}

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowError {
    /// Class of the error, such as `InvalidReferenceTargetError`.
    pub class: String,
    /// Step (or `$inputs`, `$outputs`) it is about; null where it is about the whole definition.
    #[serde(default)]
    pub step: Option<String>,
    /// Property (or input or output name) it is about; null where it is about the whole step.
    #[serde(default)]
    pub property: Option<String>,
    /// One sentence: what was found, and what to write instead.
    pub message: String,
    /// Values that are allowed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The nearest valid spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

/// Values of one property that the one-line form lists; the JSON form has all.
const MAX_LISTED: usize = 20;

/// The error as one line: place, message, nearest spelling, allowed values.
impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.step, &self.property) {
            (Some(step), Some(property)) => write!(f, "{step}.{property}: ")?,
            (Some(place), None) | (None, Some(place)) => write!(f, "{place}: ")?,
            (None, None) => {}
        }
        f.write_str(&self.message)?;
        let names = |value: &String| self.message.contains(value.as_str());
        if let Some(nearest) = self.nearest.as_ref().filter(|n| !names(n)) {
            write!(f, "; did you mean {nearest}?")?;
        }
        if self.allowed.iter().all(names) {
            return Ok(());
        }
        let listed: Vec<&str> = self
            .allowed
            .iter()
            .take(MAX_LISTED)
            .map(String::as_str)
            .collect();
        write!(f, "; allowed: {}", listed.join(", "))?;
        match self.allowed.len().saturating_sub(MAX_LISTED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Batch dimensionality of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepDims {
    /// Dimensionality at which the step is executed.
    pub exec_dim: u32,
    /// Dimensionality of its outputs.
    pub out_dim: u32,
}

/// Dimensionality and kinds of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputInfo {
    pub dim: u32,
    pub kind: OutputKinds,
}

/// Kinds of an output: it may be of any of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OutputKinds {
    /// Kinds of one value.
    One(Vec<String>),
    /// Kinds of each output of a step, where the selector is `$steps.NAME.*`.
    All(BTreeMap<String, Vec<String>>),
}

/// A workflow to be run once on pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRun {
    /// The definition, in Roboflow's JSON.
    #[schema(value_type = Object)]
    pub workflow: serde_json::Value,
    /// JPEG, PNG or WebP files in base64; several are one batch. Every image input gets them.
    #[serde(default)]
    pub images: Vec<String>,
    /// Values of the other inputs, by name.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Model used instead of every detection model: a name in the zoo, or a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Result of a run on pictures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct WorkflowRunResult {
    /// One object a picture, as Roboflow's engine serialises it.
    #[schema(value_type = Vec<Object>)]
    pub results: Vec<serde_json::Value>,
    /// Steps that failed; what depends on them is null in the results.
    pub failed: Vec<FailedStep>,
    /// Sentences about settings without effect, such as a filter on a class that the model does not
    /// have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A pipeline to be tried on some seconds of video; nothing of it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DryRun {
    /// Pipeline to try. `record`, `show`, `paused` and `stop_after_s` have no effect.
    pub pipeline: PipelineSpec,
    /// Seconds of source time to process, over 0 and at most 60.
    pub seconds: f64,
    /// Media id of a kept clip to process instead of the next seconds of the source, as fast as it
    /// can be. Its pictures are enlarged to those of the source, and have the time at which they
    /// were recorded. A clip of another source is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip: Option<String>,
    /// Absolute path of a video file, a picture or a folder of pictures to process instead. It is
    /// below a folder of `runtime.dry_run_roots`, also after its symbolic links. Its pictures need
    /// the shape of those of the source, are scaled to them, and get the privacy mask of the
    /// source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// Counts and events that a pipeline would have reported.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct DryRunReport {
    /// Model and back end that were used, such as `yolox-nano on rten`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detector: Option<String>,
    /// The latest change of each model's back end. Until it ends, the times below are those of the
    /// former back end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backend_changes: Vec<BackendChange>,
    /// Names of the rules that were in force.
    pub rules: Vec<String>,
    /// Counts. `events` is the sum of the events below and those left out.
    pub results: PipelineResults,
    /// Processor time of all other threads meanwhile, in seconds: decoding. 0 where another
    /// pipeline takes the frames of this source anyway. Absent if pipelines ran only on other
    /// sources, or only the one that this one replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_s: Option<f64>,
    /// Frames a second that it would have looked at if it had kept up with its source. More than it
    /// did where the network or the processor was too slow. 0 where it is not known.
    #[serde(default)]
    pub wanted_fps: f64,
    /// The events that would have been journaled, the first 200.
    pub events: Vec<DryRunEvent>,
    /// Number of events left out.
    pub more_events: u64,
    /// Settings that can't take effect as meant.
    pub warnings: Vec<PipelineWarning>,
    /// Why it ended before the seconds were over, such as the end of a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// An event that would have been journaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DryRunEvent {
    /// How much it would have mattered.
    pub severity: Severity,
    /// The decision about it.
    pub decision: Decision,
    /// Details of the event.
    pub event: RuleEvent,
}

/// A step that failed in a run on pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedStep {
    pub step: String,
    /// The error in one sentence.
    pub message: String,
}

/// One line of the block catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockSummary {
    /// Canonical type, such as `roboflow_core/byte_tracker@v3`.
    pub r#type: String,
    /// Other type strings that mean the same block.
    pub aliases: Vec<String>,
    /// Group in the catalogue.
    pub category: String,
    /// The block in one sentence.
    pub summary: String,
}

/// Everything about one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockDetails {
    /// The catalogue line.
    #[serde(flatten)]
    pub summary: BlockSummary,
    /// JSON Schema of a step of this block.
    #[schema(value_type = Object)]
    pub schema: serde_json::Value,
    /// Kinds of each output, by name.
    pub outputs: BTreeMap<String, Vec<String>>,
}
