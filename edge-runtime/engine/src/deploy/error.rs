//! What is wrong with a specification.

use watchkeeper_contract::problem::with_allowed;
use watchkeeper_contract::workflow::WorkflowError;

use crate::rules::RuleError;

/// What is wrong with a specification.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The workflow does not compile.
    #[error("the workflow does not compile: {}{}", .0.message, place(.0))]
    Workflow(Box<WorkflowError>),
    /// The workflow compiles, but no step could use a value that the specification gives it.
    #[error("{}", .error.message)]
    Parameter {
        /// Path of the value, such as `parameters.confidence`.
        field: String,
        /// What was found there; absent where a value is missing.
        value: Option<String>,
        /// The same as the engine tells it.
        error: Box<WorkflowError>,
    },
    /// The workflow compiles, but it waits for something that a camera does not give.
    #[error(
        "workflow input {0:?} (WorkflowBatchInput) can't be supplied by a camera, so no step behind it would ever run; \
         make the value in the workflow, as a detection step makes predictions"
    )]
    Unsupplied(String),
    /// A model is named, but nothing in the workflow detects.
    #[error(
        "model {0:?} has no effect, because the workflow has no detection step; leave it out or add one"
    )]
    ModelUnused(String),
    /// A rule is wrong.
    #[error(transparent)]
    Rule(Box<RuleError>),
    /// A model can't do what a step asks of it.
    #[error(transparent)]
    Unfit(Box<Unfit>),
    /// A number of the detection mode is out of range.
    #[error("{field} is {seconds}; use seconds between 0 (excluded) and 86400")]
    Detect {
        /// Which.
        field: &'static str,
        /// What was found.
        seconds: f64,
    },
    /// The end is before the beginning.
    #[error("stop_after_s is {0}; use a number of seconds over 0, or leave it out")]
    StopAfter(f64),
}

impl SpecError {
    /// Path of the field in the specification, such as `rules[0].when.zone`.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::Workflow(_) | Self::Unsupplied(_) => "workflow",
            Self::Parameter { field, .. } => field,
            Self::ModelUnused(_) => "model",
            Self::Rule(error) => &error.field,
            Self::Unfit(error) => error.field,
            Self::Detect { field, .. } => field,
            Self::StopAfter(_) => "stop_after_s",
        }
    }
}

impl SpecError {
    /// All of it in one line: what was wrong, where, and what is allowed there.
    #[must_use]
    pub fn in_full(&self) -> String {
        let allowed = match self {
            Self::Workflow(error) => error.allowed.as_slice(),
            Self::Rule(error) => error.allowed.as_slice(),
            Self::Parameter { .. }
            | Self::Unsupplied(_)
            | Self::ModelUnused(_)
            | Self::Unfit(_)
            | Self::Detect { .. }
            | Self::StopAfter(_) => &[],
        };
        with_allowed(self.to_string(), allowed)
    }
}

fn place(error: &WorkflowError) -> String {
    match (&error.step, &error.property) {
        (Some(step), Some(property)) => format!(" (step {step:?}, property {property:?})"),
        (Some(step), None) => format!(" (step {step:?})"),
        (None, _) => String::new(),
    }
}

/// A model that can't do what a step asks of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step {step:?} asks model {model:?} for {asked}")]
pub struct Unfit {
    /// Name of the step.
    pub step: String,
    /// Which model.
    pub model: String,
    /// Field of the specification that names it.
    pub field: &'static str,
    /// What it can't do, why, and what to do about it.
    pub asked: String,
}
