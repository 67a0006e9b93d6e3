//! Errors in a definition, in the peer's classes.
//!
//! - Checks push and continue, so that one pass reports everything.
//! - Problems are pushed in the order in which the peer would find them.

use std::fmt;

use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::workflow::WorkflowError;

/// Maximum number of problems reported per definition; each one costs a search for suggestions.
const MAX_PROBLEMS: usize = 200;
/// Maximum number of allowed values listed per problem.
const MAX_ALLOWED: usize = 100;

/// Maximum characters of a message, name or value; what was found may be as long as the document.
const MAX_TEXT: usize = 2000;

/// Class of a problem, named as in Roboflow's compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    WorkflowSyntaxError,
    DuplicatedNameError,
    InvalidReferenceTargetError,
    ReferenceTypeError,
    ExecutionGraphStructureError,
    StepInputDimensionalityError,
    StepInputLineageError,
    ControlFlowDefinitionError,
    NotSupportedExecutionEngineError,
    WorkflowDefinitionError,
    RuntimeInputError,
    DynamicBlockError,
    InnerWorkflowInvalidStepEntryError,
    InnerWorkflowNestingDepthError,
    InnerWorkflowTotalCountError,
    InnerWorkflowParameterBindingsUnknownInputError,
    InnerWorkflowParameterBindingsMissingRequiredError,
    WorkflowEnvironmentConfigurationError,
    StepExecutionError,
}

impl ErrorClass {
    pub(crate) fn problem(self, message: impl Into<String>) -> Problem {
        Problem(Box::new(WorkflowError {
            class: self.to_string(),
            step: None,
            property: None,
            message: message.into(),
            allowed: Vec::new(),
            nearest: None,
        }))
    }
}

/// Writes the name over the API, which is that of the variant.
impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A problem under construction.
#[derive(Debug)]
pub(crate) struct Problem(Box<WorkflowError>);

impl Problem {
    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        ErrorClass::WorkflowSyntaxError.problem(message)
    }

    pub(crate) fn step(mut self, step: impl Into<String>) -> Self {
        self.0.step = Some(step.into());
        self
    }

    pub(crate) fn property(mut self, property: impl Into<String>) -> Self {
        self.0.property = Some(property.into());
        self
    }

    /// Sets the allowed values and the one nearest to `found`. A long list is cut to the nearest
    /// and the first ones.
    pub(crate) fn allowed<S: Into<String>>(
        mut self,
        found: &str,
        allowed: impl IntoIterator<Item = S>,
    ) -> Self {
        self.0.allowed = allowed.into_iter().map(Into::into).collect();
        self.0.nearest =
            nearest(found, self.0.allowed.iter().map(String::as_str)).map(str::to_owned);
        if self.0.allowed.len() > MAX_ALLOWED {
            self.0.allowed.truncate(MAX_ALLOWED);
            if let Some(nearest) = &self.0.nearest
                && !self.0.allowed.contains(nearest)
            {
                self.0.allowed.insert(0, nearest.clone());
            }
        }
        self
    }

    /// Sets only the nearest spelling, for lists too long to read.
    pub(crate) fn nearest_of<'a>(
        mut self,
        found: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.0.nearest = nearest(found, known).map(str::to_owned);
        self
    }

    /// Sets what to use instead.
    pub(crate) fn nearest_is(mut self, nearest: impl Into<String>) -> Self {
        self.0.nearest = Some(nearest.into());
        self
    }

    pub(crate) fn done(self) -> WorkflowError {
        let mut error = *self.0;
        cut(&mut error.message);
        for text in [&mut error.step, &mut error.property, &mut error.nearest] {
            text.iter_mut().for_each(cut);
        }
        error.allowed.iter_mut().for_each(cut);
        error
    }
}

/// Cuts the middle of a long text: its end often has the remedy.
fn cut(text: &mut String) {
    let chars = text.chars().count();
    if chars > MAX_TEXT {
        let half = MAX_TEXT / 2;
        let start: String = text.chars().take(half).collect();
        let end: String = text.chars().skip(chars - half).collect();
        *text = format!("{start} … {end}");
    }
}

#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<WorkflowError>);

impl Problems {
    pub(crate) fn push(&mut self, problem: Problem) {
        if !self.is_full() {
            self.0.push(problem.done());
        }
    }

    /// Returns whether no more problems are taken, so that expensive checks can stop.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MAX_PROBLEMS
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_vec(mut self) -> Vec<WorkflowError> {
        if self.is_full() {
            let cut =
                format!("only the first {MAX_PROBLEMS} problems are reported; fix these first");
            self.0.push(Problem::syntax(cut).done());
        }
        self.0
    }
}
