//! Errors in a pipeline specification.

use watchkeeper_contract::problem::with_allowed;
use watchkeeper_contract::workflow::WorkflowError;

use crate::rules::RuleError;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error("the workflow does not compile: {}{}", .0.message, place(.0))]
    Workflow(Box<WorkflowError>),
    /// A value of `parameters` is not valid for any step that reads it.
    #[error("{}", .error.message)]
    Parameter {
        /// Path of the value, such as `parameters.confidence`.
        field: String,
        /// The value found; absent if it is missing.
        value: Option<String>,
        error: Box<WorkflowError>,
    },
    /// A workflow input that no camera supplies.
    #[error(
        "no camera supplies workflow input {0:?} (WorkflowBatchInput), so no step after it would \
         run; compute the value in the workflow, as a detection step computes predictions"
    )]
    Unsupplied(String),
    #[error(
        "model {0:?} has no effect, because the workflow has no detection step; leave it out or \
         add one"
    )]
    ModelUnused(String),
    #[error(transparent)]
    Rule(Box<RuleError>),
    #[error(transparent)]
    Unfit(Box<Unfit>),
    /// A number of the detection mode is out of range.
    #[error("{field} is {seconds}; use seconds between 0 (excluded) and 86400")]
    Detect { field: &'static str, seconds: f64 },
    #[error("stop_after_s is {0}; use a number of seconds over 0, or leave it out")]
    StopAfter(f64),
    #[error("target_fps is {0}; use frames a second over 0 and up to 1000, or leave it out")]
    TargetFps(f64),
}

impl SpecError {
    /// Path of the field in the specification, such as `rules[0].when.zone`.
    pub fn field(&self) -> &str {
        match self {
            Self::Workflow(_) | Self::Unsupplied(_) => "workflow",
            Self::Parameter { field, .. } => field,
            Self::ModelUnused(_) => "model",
            Self::Rule(error) => &error.field,
            Self::Unfit(error) => error.field,
            Self::Detect { field, .. } => field,
            Self::StopAfter(_) => "stop_after_s",
            Self::TargetFps(_) => "target_fps",
        }
    }
}

impl SpecError {
    /// The message with the accepted values, in one line.
    pub fn in_full(&self) -> String {
        let (allowed, nearest) = match self {
            Self::Workflow(error) => (error.allowed.as_slice(), error.nearest.as_deref()),
            Self::Rule(error) => (error.allowed.as_slice(), error.nearest.as_deref()),
            Self::Parameter { .. }
            | Self::Unsupplied(_)
            | Self::ModelUnused(_)
            | Self::Unfit(_)
            | Self::Detect { .. }
            | Self::StopAfter(_)
            | Self::TargetFps(_) => (&[][..], None),
        };
        with_allowed(self.to_string(), allowed, nearest)
    }
}

fn place(error: &WorkflowError) -> String {
    match (&error.step, &error.property) {
        (Some(step), Some(property)) => format!(" (step {step:?}, property {property:?})"),
        (Some(step), None) => format!(" (step {step:?})"),
        (None, _) => String::new(),
    }
}

/// A model that lacks the task that a step needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step {step:?} asks model {model:?} for {asked}")]
pub struct Unfit {
    pub step: String,
    pub model: String,
    /// Field of the specification that names the model.
    pub field: &'static str,
    /// Need of the step, kind of the model, and remedy.
    pub asked: String,
}
