//! `watchkeeper job`: plans, runs and results of jobs.
//!
//! - Jobs lie below the user's state folder. Only tools that ask the runtime or the archive need a
//!   daemon.
//! - A plan is repaired before it is run, and each change is printed. A plan that stays invalid is
//!   printed with all its faults.

mod assessment;
mod commands;
mod execution;
mod of_agent;
mod planning;
mod progress;
mod refine;
mod show;
mod statistics;
mod templates;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use watchkeeper_agent::jobs::{ToolSetup, toolbox};
use watchkeeper_assistant::jobs::PlannedRequest;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_config::Config;
use watchkeeper_jobs::counted;
use watchkeeper_jobs::plan::{CheckedPlan, MAX_PLAN_BYTES, check, read, read_parts, schema};
use watchkeeper_jobs::run::{JobFolder, JobFolderError, JobState};

use super::args::{Global, JobAction, JobPlanArgs, JobRunArgs};
use super::configuration;
use super::exit::Failure;
use super::output::Output;
use super::user_file;
pub(super) use commands::jobs_of_user;
use commands::{JobCommands, invalid, read_plan};
use of_agent::AgentJobs;

pub(super) fn run(action: JobAction, global: &Global, out: &Output) -> Result<(), Failure> {
    let config = configuration::read_for_sockets(global, out);
    let commands = JobCommands::new(&config, None)?;
    let agent = || AgentJobs::new(&config.agent_api.socket);
    match action {
        JobAction::Run(args) if args.owner.agent => agent()?.run_file(args, commands, out),
        JobAction::Run(args) => commands.run_file(args, out),
        JobAction::Plan(args) if args.agent => agent()?.run_words(args, commands, out),
        JobAction::Plan(args) => commands.plan(args, out),
        JobAction::Refine(args) => commands.refine(args, out),
        JobAction::Keep { id, name } => commands.keep(&id, name, out),
        JobAction::Templates { action } => commands.templates(action, out),
        JobAction::Validate { file } => commands.validate(&file, out),
        JobAction::Explain { what } => commands.explain(&what, out),
        JobAction::List(owner) if owner.agent => agent()?.list(out),
        JobAction::List(_) => show::list(&commands.jobs, out),
        JobAction::Stats => statistics::print(&commands.jobs, out),
        JobAction::Show {
            id,
            step,
            key,
            owner,
        } => match owner.agent {
            true => agent()?.show(&id, step.as_deref(), key.as_deref(), out),
            false => show::job(
                &commands.jobs.open(&id)?,
                step.as_deref(),
                key.as_deref(),
                out,
            ),
        },
        JobAction::Resume { id, owner } if owner.agent => agent()?.resume(&id, out),
        JobAction::Resume { id, .. } => {
            let job = commands.jobs.open(&id)?;
            match job.summary()?.state {
                JobState::Done => show::done_before(&job, out),
                _ => {
                    job.withdraw_cancel()?;
                    commands.run_to_end(job, out)
                }
            }
        }
        JobAction::Prune => {
            let removed = commands.prune()?;
            out.both(&json!({"removed": removed}), || {
                format!("Removed {}", counted(removed.len(), "job"))
            });
            Ok(())
        }
        JobAction::Cancel { id, owner } if owner.agent => agent()?.cancel(&id, out),
        JobAction::Cancel { id, .. } => cancel(&commands.jobs.open(&id)?, out),
        JobAction::Delete { id, owner } if owner.agent => agent()?.delete(&id, out),
        JobAction::Delete { id, .. } => commands.delete(&id, out),
        JobAction::Export { id } => export(&commands.jobs.open(&id)?, out),
        JobAction::Tools { name } => show::tools(&commands.tools, name.as_deref(), out),
        JobAction::Schema => {
            let schema = schema(&commands.tools);
            out.page(&serde_json::to_string_pretty(&schema).unwrap_or_default());
            Ok(())
        }
    }
}

/// Returns whether a request is one for a job.
pub(super) fn serves(text: &str, config: &Config) -> bool {
    let commands = JobCommands::new(config, None);
    commands.is_ok_and(|commands| commands.planner().serves(text))
}

/// Runs a request of the chat that [`serves`] accepts as a job, until it ends or `is_cancelled` is
/// set. Shows its plan, its progress and its files.
pub(super) fn answer_in_chat(
    text: &str,
    config: &Config,
    is_cancelled: &AtomicBool,
    out: &Output,
) -> Result<(), Failure> {
    let commands = JobCommands::new(config, Some(Entrypoint::Chat))?;
    let job = commands.plan_and_create(text, out)?;
    commands.run_until(job, &|| is_cancelled.load(Ordering::Relaxed), out)
}

pub(super) fn tool_names() -> Vec<&'static str> {
    // Only names are looked up: no socket is opened.
    let tools = toolbox(&ToolSetup::default());
    tools.specs().map(|spec| spec.name).collect()
}

/// Runs one tool with parameters as JSON, as a job of one step.
pub(super) fn run_tool(
    tool: &str,
    parameters: &str,
    config: &Config,
    is_cancelled: &AtomicBool,
    out: &Output,
) -> Result<(), Failure> {
    let parameters: Value = match parameters {
        "" => json!({}),
        text => serde_json::from_str(text).map_err(|error| {
            Failure::input(format!("the parameters of {tool} are not JSON: {error}"))
        })?,
    };
    let origin = format!("/manual {tool}");
    let steps = [json!({"name": "manual", "tool": tool, "params": parameters})];
    let plan = read(&json!({"name": "manual", "steps": steps}));
    let plan = plan.map_err(|faults| invalid(&origin, &faults))?;
    let commands = JobCommands::new(config, Some(Entrypoint::Chat))?;
    // Checked as written: a person's own parameters are not repaired.
    check(plan.clone(), &commands.tools).map_err(|faults| invalid(&origin, &faults))?;
    let job = commands.create(plan, &origin, None, None, out)?;
    commands.run_until(job, &|| is_cancelled.load(Ordering::Relaxed), out)
}

/// Runs a request in plain English that [`serves`] accepts, as `job plan --run` does.
pub(super) fn answer(text: &str, config: &Config, out: &Output) -> Result<(), Failure> {
    let commands = JobCommands::new(config, Some(Entrypoint::Ask))?;
    let job = commands.plan_and_create(text, out)?;
    commands.run_to_end(job, out)
}

impl JobCommands {
    fn run_file(&self, args: JobRunArgs, out: &Output) -> Result<(), Failure> {
        let origin = args.file.display().to_string();
        let output = args.output.clone();
        let plan = self.plan_of_file(args)?;
        self.create_and_run(plan, &origin, None, &output, out)
    }

    /// Plans a request, shows the plan, and creates its job.
    fn plan_and_create(&self, text: &str, out: &Output) -> Result<JobFolder, Failure> {
        let planned = self.plan_words(text, true, out)?;
        show::plan(&planned, out);
        self.create(planned.plan, text, Some(planned.planned), None, out)
    }

    fn plan(&self, args: JobPlanArgs, out: &Output) -> Result<(), Failure> {
        let text = args.words.join(" ");
        let PlannedRequest { plan, planned, .. } = self.plan_words(&text, !args.no_cache, out)?;
        if args.run {
            return self.create_and_run(plan, &text, Some(planned), &args.output, out);
        }
        out.object(&plan);
        // The output in JSON is the plan alone; `job validate` gives its faults in JSON.
        if !out.is_json() {
            out.page(show::yaml(&plan)?.trim_end());
            self.assess(Some(&plan), Vec::new()).note(out);
        }
        statistics::print_expected(&plan, &self.jobs, out)
    }

    fn delete(&self, id: &str, out: &Output) -> Result<(), Failure> {
        let id = self.jobs.whole_id(id)?;
        let job = self.jobs.open_exact(&id).ok();
        self.jobs.delete(&id)?;
        out.both(&json!({"deleted": id}), || format!("Deleted job {id}"));
        let output = job.map(|job| job.info().output.clone());
        if let Some(output) = output.filter(|output| output.exists()) {
            out.note(format!("its output folder {} stays", output.display()));
        }
        Ok(())
    }

    fn validate(&self, file: &Path, out: &Output) -> Result<(), Failure> {
        let name = file.display().to_string();
        let (plan, form) = read_parts(&user_file::read_text(file, MAX_PLAN_BYTES)?);
        self.assess(plan.as_ref(), form).show(&name, out)
    }

    fn explain(&self, what: &Path, out: &Output) -> Result<(), Failure> {
        let name = what.display().to_string();
        let plan = match self.jobs.open(&name) {
            Ok(job) => read(&job.info().plan),
            Err(JobFolderError::Unknown(_)) => Ok(read_plan(what)?),
            Err(error) => return Err(error.into()),
        };
        let plan = plan.map_err(|faults| invalid(&name, &faults))?;
        let repaired = self.repair(plan, &name)?;
        for change in &repaired.changes {
            out.note(format!("repaired: {change}"));
        }
        let plan: &CheckedPlan = &repaired.plan;
        show::explain(plan, &self.tools, out);
        statistics::print_expected(plan.plan(), &self.jobs, out)
    }
}

fn cancel(job: &JobFolder, out: &Output) -> Result<(), Failure> {
    let id = &job.info().id;
    let was_running = job.cancel()?;
    let done = json!({"job": id, "was_running": was_running});
    out.both(&done, || match was_running {
        true => format!("Asked job {id} to end"),
        false => format!("Job {id} is not running"),
    });
    Ok(())
}

fn export(job: &JobFolder, out: &Output) -> Result<(), Failure> {
    let trajectory = job.trajectory(&job.log()?);
    for transition in &trajectory.transitions {
        out.page(&serde_json::to_string(transition).unwrap_or_default());
    }
    for fault in &trajectory.faults {
        out.note(format!(
            "the plan can't be read, so rewards are unknown: {fault}"
        ));
    }
    Ok(())
}
