//! Tools, jobs and templates of a user, and what all commands do with a plan.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde_json::Value;
use watchkeeper_agent::jobs::{ToolSetup, toolbox};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_config::Config;
use watchkeeper_jobs::plan::{
    Fault, MAX_PLAN_BYTES, Plan, Repaired, anchor, read_parts, read_text, repair,
};
use watchkeeper_jobs::run::{JobLimits, Jobs};
use watchkeeper_jobs::template_store::TemplateStore;
use watchkeeper_jobs::{Toolbox, counted};

use super::super::args::JobRunArgs;
use super::super::exit::Failure;
use super::super::state_folder::state_folder;
use super::super::user_file;

/// The `channel` of jobs of the command itself in the trace.
const CHANNEL: &str = "job";

/// Folder of all jobs below the user's state folder.
const FOLDER: &str = "jobs";
/// Folder of kept and cached plans, beside them.
const TEMPLATES: &str = "job-templates";

pub(crate) fn jobs_of_user() -> Result<Jobs, Failure> {
    Ok(Jobs::new(state_folder()?.join(FOLDER)))
}

/// Tools and jobs of this user.
pub(super) struct JobCommands {
    pub(super) tools: Toolbox,
    pub(super) jobs: Jobs,
    pub(super) templates: TemplateStore,
    pub(super) config: Config,
    /// Whether plans are for the agent, whose jobs can't be looked up here.
    pub(super) is_for_agent: bool,
    limits: JobLimits,
    pub(super) trace: Trace,
    /// The user's state folder.
    pub(super) home: PathBuf,
    pub(super) entrypoint: Entrypoint,
}

impl JobCommands {
    /// Opens what a command needs. The trace names `entrypoint`, or [`CHANNEL`] without one.
    pub(super) fn new(config: &Config, entrypoint: Option<Entrypoint>) -> Result<Self, Failure> {
        let channel = entrypoint.map_or(CHANNEL, Entrypoint::name);
        let (state, limits) = (state_folder()?, config.agent.job_limits);
        Ok(Self {
            tools: toolbox(&ToolSetup::new(config)),
            jobs: jobs_of_user()?,
            templates: TemplateStore::new(state.join(TEMPLATES)),
            limits: JobLimits {
                max_jobs: limits.max_jobs,
                max_bytes: limits.max_bytes,
                max_days: limits.max_days,
            },
            trace: Trace::new(&state, channel).with_audit_limits(config.agent.audit),
            config: config.clone(),
            is_for_agent: false,
            home: state,
            entrypoint: entrypoint.unwrap_or(Entrypoint::Ask),
        })
    }

    pub(super) fn prune(&self) -> Result<Vec<String>, Failure> {
        let now_ms = jiff::Timestamp::now().as_millisecond();
        Ok(self.jobs.prune(&self.limits, now_ms)?)
    }

    pub(super) fn anchored(&self, mut plan: Plan) -> Result<Plan, Failure> {
        anchor(&mut plan, &self.tools).map_err(no_current_folder)?;
        Ok(plan)
    }

    /// Reads a plan and replaces its inputs. All faults are reported together.
    pub(super) fn plan_of_file(&self, args: JobRunArgs) -> Result<Plan, Failure> {
        let name = args.file.display().to_string();
        let (mut plan, form) = read_parts(&user_file::read_text(&args.file, MAX_PLAN_BYTES)?);
        if let Some(plan) = &mut plan {
            set_inputs(plan, args.inputs)?;
        }
        self.assess(plan.as_ref(), form).require_repairable(&name)?;
        // Without a plan a fault of form is left.
        plan.ok_or_else(|| invalid(&name, &[] as &[Fault]))
    }

    pub(super) fn repair(&self, plan: Plan, name: &str) -> Result<Repaired, Failure> {
        repair(plan, &self.tools).map_err(|left| {
            let repairs = left
                .changes
                .iter()
                .map(|change| format!("repair: {change}"));
            invalid(name, &left.faults).with(repairs)
        })
    }
}

fn set_inputs(plan: &mut Plan, inputs: Vec<(String, String)>) -> Result<(), Failure> {
    for (key, value) in inputs {
        let Some(input) = plan.inputs.get_mut(&key) else {
            let known = match plan.inputs.is_empty() {
                true => "no inputs".to_owned(),
                false => plan.inputs.keys().cloned().collect::<Vec<_>>().join(", "),
            };
            let sentence = format!("--input {key}: the plan has no such input; it has {known}");
            return Err(Failure::input(sentence));
        };
        *input = match input {
            // "2026" may be the name of a folder.
            Value::String(_) => Value::String(value),
            _ => serde_json::from_str(&value).unwrap_or(Value::String(value)),
        };
    }
    Ok(())
}

pub(super) fn no_current_folder(error: std::io::Error) -> Failure {
    Failure::failed(format!("the current folder: {error}"))
}

pub(super) fn read_plan(file: &Path) -> Result<Plan, Failure> {
    let name = file.display().to_string();
    read_text(&user_file::read_text(file, MAX_PLAN_BYTES)?)
        .map_err(|faults| invalid(&name, &faults))
}

pub(super) fn invalid(name: &str, faults: &[impl Display]) -> Failure {
    let number = counted(faults.len(), "fault");
    Failure::input(format!("{name}: {number}")).with(faults.iter().map(ToString::to_string))
}
