//! Requests for jobs, and which of them the agent takes.
//!
//! - A folder must be absolute: the agent has no current folder.
//! - Over TCP no folder of the box is read or written, and no other job's results are used.

use std::path::{Path, PathBuf};

use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_jobs::plan::{CheckedPlan, Plan};
use watchkeeper_jobs::run::{JobFolderError, JobId, Planned, ScheduledRun};
use watchkeeper_jobs::{Step, Toolbox, counted};

use super::pool::PoolFull;

/// A plan that a client submits.
#[derive(Debug)]
pub struct JobRequest {
    pub plan: Plan,
    /// File, or words of a person.
    pub origin: String,
    /// Absolute path of an empty or new folder; absent: in the job's own folder.
    pub output: Option<PathBuf>,
    /// Where the request came in; `None` for a schedule.
    pub entrypoint: Option<Entrypoint>,
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
    /// The plan is not available yet: the names of the runtime, or its file, may appear later.
    #[error("{0}")]
    Unavailable(String),
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
    match is_remote {
        true => require_no_folder(plan.plan(), tools),
        false => require_absolute(plan.plan(), tools),
    }
}

fn require_no_folder(plan: &Plan, tools: &Toolbox) -> Result<(), JobServiceError> {
    let forbidden = |step: &Step, what: &str| {
        let sentence = format!("step {}: over TCP {what}", step.name);
        Err(JobServiceError::Forbidden(sentence))
    };
    if let Some(folder) = plan.folders(tools).next() {
        let what = "no folder of the box is read; use the pictures of events";
        return forbidden(folder.step, what);
    }
    for step in &plan.steps {
        let mut values = step.calls().flat_map(|call| call.params.values());
        if values.any(|value| value.to_string().contains("job://")) {
            return forbidden(step, "a job uses no results of other jobs");
        }
    }
    Ok(())
}

fn require_absolute(plan: &Plan, tools: &Toolbox) -> Result<(), JobServiceError> {
    // What is not one whole input is taken as it is written, and so is not absolute.
    let mut folders = plan.folders(tools);
    match folders.find(|folder| !Path::new(folder.text).is_absolute()) {
        None => Ok(()),
        Some(folder) => Err(JobServiceError::Forbidden(format!(
            "step {}, {}: {:?} must be an absolute path: the agent has no current folder",
            folder.step.name, folder.param, folder.text
        ))),
    }
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
        let is_allowed = |written: &str, input: &str| {
            let plan = read(&json!({
                "name": "x",
                "inputs": {"a": input},
                "steps": [
                    {"name": "list", "tool": "list_pictures", "params": {"folder": written}},
                ],
            }));
            require_absolute(&plan.unwrap(), &tools).is_ok()
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
