//! Requests for jobs, and which of them the agent takes.
//!
//! - A folder must be absolute: the agent has no current folder.
//! - Over TCP no folder of the box is read or written, and no other job's results are used.

use std::path::{Path, PathBuf};

use serde_json::Value;
use watchkeeper_jobs::plan::{CheckedPlan, Plan};
use watchkeeper_jobs::run::{JobFolderError, JobId, Planned, ScheduledRun};
use watchkeeper_jobs::tool::{Kind, Param};
use watchkeeper_jobs::{Step, Toolbox, counted};

use super::pool::PoolFull;

/// A plan that somebody wants to run.
#[derive(Debug)]
pub struct JobRequest {
    pub plan: Plan,
    /// File, or words of a person.
    pub origin: String,
    /// Absolute path of an empty or new folder; absent: in the job's own folder.
    pub output: Option<PathBuf>,
    /// Where the request came in; a schedule's is the agent's own.
    pub channel: &'static str,
    pub schedule: Option<ScheduledRun>,
    /// How the plan was made, if it was made from a request.
    pub planned: Option<Planned>,
}

/// Why a request for a job fails.
#[derive(Debug, thiserror::Error)]
pub enum JobServiceError {
    #[error(transparent)]
    Full(#[from] PoolFull),
    #[error("the plan has {}: {}", counted(.0.len(), "fault"), .0.join("; "))]
    Invalid(Vec<String>),
    #[error("{0}")]
    Forbidden(String),
    #[error("job {0} runs or waits; cancel it first")]
    Active(JobId),
    #[error("job {0} is done; nothing is left to resume")]
    Done(JobId),
    #[error(transparent)]
    Folder(#[from] JobFolderError),
    #[error("the audit log can't be written: {0}; free disk space")]
    Audit(std::io::Error),
}

impl JobServiceError {
    /// Whether the job is damaged, and no later attempt can read it.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Folder(error) if error.is_damage())
    }
}

/// Refuses what the agent can't run, or what may not be asked over TCP.
pub(super) fn require_allowed(
    plan: &CheckedPlan,
    tools: &Toolbox,
    output: Option<&Path>,
    is_remote: bool,
) -> Result<(), JobServiceError> {
    let forbidden = |sentence: String| Err(JobServiceError::Forbidden(sentence));
    if is_remote && output.is_some() {
        return forbidden("output: over TCP a job writes into its own folder only".to_owned());
    }
    if output.is_some_and(|output| !output.is_absolute()) {
        return forbidden("output: write an absolute path".to_owned());
    }
    let plan = plan.plan();
    for step in &plan.steps {
        for call in step.calls() {
            for (name, value) in &call.params {
                let spec = tools.spec(&call.tool);
                let param = spec.and_then(|spec| spec.params.iter().find(|p| p.name == name));
                match is_remote {
                    true => require_no_folder(step, param, value)?,
                    false => require_absolute(plan, step, param, value)?,
                }
            }
        }
    }
    Ok(())
}

fn require_no_folder(
    step: &Step,
    param: Option<&Param>,
    value: &Value,
) -> Result<(), JobServiceError> {
    let what = if value.to_string().contains("job://") {
        "a job uses no results of other jobs"
    } else if param.is_some_and(|param| param.kind == Kind::Folder) {
        "no folder of the box is read; use the pictures of events"
    } else {
        return Ok(());
    };
    let sentence = format!("step {}: over TCP {what}", step.name);
    Err(JobServiceError::Forbidden(sentence))
}

fn require_absolute(
    plan: &Plan,
    step: &Step,
    param: Option<&Param>,
    value: &Value,
) -> Result<(), JobServiceError> {
    let Some(param) = param.filter(|param| param.kind == Kind::Folder) else {
        return Ok(());
    };
    let written = value.as_str().unwrap_or_default();
    let input = written.strip_prefix("${inputs.");
    let input = input.and_then(|text| text.strip_suffix('}'));
    let folder = input.and_then(|input| plan.inputs.get(input)?.as_str());
    // Whatever is not one whole input is taken as it is written, and so is not absolute.
    let folder = folder.unwrap_or(written);
    if Path::new(folder).is_absolute() {
        return Ok(());
    }
    let sentence = format!(
        "step {}, {}: {folder:?} must be an absolute path: the agent has no current folder",
        step.name, param.name
    );
    Err(JobServiceError::Forbidden(sentence))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;
    use watchkeeper_jobs::plan::read;
    use watchkeeper_jobs::tools::picture_tools;

    use super::*;

    #[test]
    fn only_folders_that_are_known_to_be_absolute_are_read() {
        let tools = picture_tools();
        let spec = tools.spec("list_pictures").unwrap();
        let is_allowed = |written: &str, input: &str| {
            let plan = read(&json!({
                "name": "x",
                "inputs": {"a": input},
                "steps": [
                    {"name": "list", "tool": "list_pictures", "params": {"folder": written}},
                ],
            }));
            let plan = plan.unwrap();
            let written = Value::from(written);
            require_absolute(&plan, &plan.steps[0], spec.params.first(), &written).is_ok()
        };
        for (written, input, expected) in [
            ("/srv/a", "x", true),
            ("${inputs.a}", "/srv/a", true),
            ("a", "/srv", false),
            ("${inputs.a}", "a", false),
            ("${inputs.a}/x", "a", false),
            ("${inputs.a}${inputs.a}", "a", false),
            ("${inputs.b}", "/srv", false),
        ] {
            assert_eq!(is_allowed(written, input), expected, "{written} {input}");
        }
    }
}
