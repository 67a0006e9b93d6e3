//! Translates the engine's check of a pipeline into problems of the API.
//!
//! - Nothing is decided here: `config check` and a deployment find the same errors.

use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_engine::deploy::{self, SpecError};

pub use watchkeeper_engine::deploy::Plan;

/// Checks and compiles a specification.
///
/// # Errors
/// [`Problem`] for the first error, with its field, its value and the allowed values, and the
/// number of further errors.
pub fn plan(spec: &PipelineSpec) -> Result<Plan, Problem> {
    deploy::plan(spec).map_err(problem)
}

/// Turns the errors of a specification into one problem.
pub(super) fn problem(errors: Vec<SpecError>) -> Problem {
    let Some(first) = errors.first() else {
        return Problem::invalid_value("the pipeline is not valid");
    };
    let more = match errors.len() {
        1 => String::new(),
        n => format!("; and {} more", n - 1),
    };
    let code = match first {
        SpecError::Workflow(_) | SpecError::Parameter { .. } | SpecError::Unsupplied(_) => {
            ProblemCode::InvalidWorkflow
        }
        SpecError::ModelUnused(_) | SpecError::Unfit(_) => ProblemCode::Model,
        SpecError::Rule(_)
        | SpecError::Detect { .. }
        | SpecError::StopAfter(_)
        | SpecError::TargetFps(_) => ProblemCode::InvalidRequest,
    };
    let mut problem = Problem::new(422, code, format!("{first}{more}"));
    problem.field = Some(first.field().to_owned());
    match first {
        SpecError::Workflow(_) => {}
        SpecError::Parameter { value, .. } => problem.value.clone_from(value),
        SpecError::Unsupplied(name) | SpecError::ModelUnused(name) => {
            problem.value = Some(name.clone());
        }
        SpecError::Unfit(error) => problem.value = Some(error.model.clone()),
        SpecError::Rule(error) => {
            problem.value = Some(error.value.clone());
            problem.allowed.clone_from(&error.allowed);
        }
        SpecError::Detect {
            seconds: number, ..
        }
        | SpecError::StopAfter(number)
        | SpecError::TargetFps(number) => problem.value = Some(number.to_string()),
    }
    problem.workflow_errors = errors
        .into_iter()
        .filter_map(|error| match error {
            SpecError::Workflow(error) | SpecError::Parameter { error, .. } => Some(*error),
            SpecError::Unsupplied(_)
            | SpecError::ModelUnused(_)
            | SpecError::Rule(_)
            | SpecError::Unfit(_)
            | SpecError::Detect { .. }
            | SpecError::StopAfter(_)
            | SpecError::TargetFps(_) => None,
        })
        .collect();
    problem
}
