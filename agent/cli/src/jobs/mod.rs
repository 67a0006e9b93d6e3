//! `watchkeeper job`: plans, runs and results of jobs.
//!
//! - Jobs lie below the user's state folder and need no daemon; only the tool `event_pictures` asks
//!   the runtime. With `--agent` they are the agent's.
//! - The bounds of stored jobs hold after each new one.
//! - A plan is repaired before it is run, and each change is printed. A plan that stays invalid is
//!   printed with all its faults.

mod of_agent;
mod plans;
mod progress;
mod show;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use watchkeeper_agent::jobs::{job_trace, toolbox};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_config::Config;
use watchkeeper_jobs::plan::{
    CheckedPlan, Fault, Plan, Repaired, check, read, read_parts, repair, schema,
};
use watchkeeper_jobs::run::{
    Ended, JobEvent, JobFolder, JobFolderError, JobLimits, JobState, Jobs, RunError, Runner,
    trajectory,
};
use watchkeeper_jobs::{Toolbox, counted, planner};

use super::args::{Global, JobAction, JobArgs, JobOutput, JobPlanArgs, JobRunArgs};
use super::configuration;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::state_folder::state_folder;
use of_agent::AgentJobs;
use plans::{anchor_plan, invalid, plan_of_file, plan_words, read_file, read_plan};
use progress::Progress;

/// The `channel` of jobs of the command itself in the trace.
const CHANNEL: &str = "job";

/// Folder of all jobs below the user's state folder.
const FOLDER: &str = "jobs";

pub(super) fn run(args: JobArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let config = configuration::read_for_sockets(global, out);
    let commands = JobCommands::of(&config)?;
    if args.agent {
        return AgentJobs::new(config.agent_api.socket)?.run(args.action, &commands.tools, out);
    }
    match args.action {
        JobAction::Run(args) => commands.run_file(args, out),
        JobAction::Plan(args) => commands.plan(args, out),
        JobAction::Validate { file } => commands.validate(&file, out),
        JobAction::Explain { what } => commands.explain(&what, out),
        JobAction::List => show::list(&commands.jobs, out),
        JobAction::Show { id, step, key } => {
            let job = commands.jobs.open(&id)?;
            show::job(&job, step.as_deref(), key.as_deref(), out)
        }
        JobAction::Resume { id } => {
            let job = commands.jobs.open(&id)?;
            match job.summary()?.state {
                JobState::Done => show::done_before(&job, out),
                _ => commands.start(&job, out),
            }
        }
        JobAction::Prune => {
            let removed = commands.prune()?;
            out.both(&json!({"removed": removed}), || {
                format!("Removed {}", counted(removed.len(), "job"))
            });
            Ok(())
        }
        JobAction::Cancel { id } => cancel(&commands.jobs.open(&id)?, out),
        JobAction::Delete { id } => {
            let job = commands.jobs.open(&id)?;
            let deleted = json!({"deleted": job.info().id});
            let (id, output) = (job.info().id.clone(), job.info().output.clone());
            commands.jobs.delete(job)?;
            out.both(&deleted, || format!("Deleted job {id}"));
            if output.exists() {
                out.note(format!("its output folder {} stays", output.display()));
            }
            Ok(())
        }
        JobAction::Export { id } => export(&commands.jobs.open(&id)?, out),
        JobAction::Tools { name } => show::tools(&commands.tools, name.as_deref(), out),
        JobAction::Schema => {
            let schema = schema(&commands.tools);
            out.page(&serde_json::to_string_pretty(&schema).unwrap_or_default());
            Ok(())
        }
    }
}

/// Whether a text is a request for a job, which needs no session.
pub(super) fn understands(text: &str) -> bool {
    planner::understands(text, jiff::Zoned::now().datetime())
}

/// Runs a request of the chat as a job until it ends or `is_cancelled` is set: shows its plan, its
/// progress and its files.
pub(super) fn answer_in_chat(
    text: &str,
    config: &Config,
    is_cancelled: &AtomicBool,
    out: &Output,
) -> Result<(), Failure> {
    let mut commands = JobCommands::of(config)?;
    commands.trace = trace(Entrypoint::Chat.name(), config)?;
    let plan = plan_words(text)?;
    let steps = plan.steps.iter().map(|step| step.call.tool.clone());
    let steps: Vec<String> = steps.collect();
    out.object(&json!({"type": "plan", "plan": plan}));
    out.line(format!("Plan: {}", steps.join(", ")));
    let job = commands.create(plan, text, None, out)?;
    commands.run_until(&job, &|| is_cancelled.load(Ordering::Relaxed), out)
}

/// The user's trace, as a channel writes it.
fn trace(channel: &'static str, config: &Config) -> Result<Trace, Failure> {
    Ok(Trace::new(&state_folder()?, channel).with_audit_limits(config.agent.audit))
}

/// Runs a request in plain English that the planner understands, as `job plan --run` does.
pub(super) fn answer(text: &str, config: &Config, out: &Output) -> Result<(), Failure> {
    let args = JobPlanArgs {
        words: vec![text.to_owned()],
        run: true,
        output: JobOutput { output: None },
    };
    let mut commands = JobCommands::of(config)?;
    commands.trace = trace(Entrypoint::Ask.name(), config)?;
    commands.plan(args, out)
}

/// Tools and jobs of this user.
struct JobCommands {
    tools: Toolbox,
    jobs: Jobs,
    limits: JobLimits,
    trace: Trace,
}

impl JobCommands {
    fn of(config: &Config) -> Result<Self, Failure> {
        let limits = config.agent.job_limits;
        Ok(Self {
            tools: toolbox(&config.runtime_socket),
            jobs: Jobs::new(state_folder()?.join(FOLDER)),
            limits: JobLimits {
                max_jobs: limits.max_jobs,
                max_bytes: limits.max_bytes,
                max_days: limits.max_days,
            },
            trace: trace(CHANNEL, config)?,
        })
    }

    fn prune(&self) -> Result<Vec<String>, Failure> {
        let now_ms = jiff::Timestamp::now().as_millisecond();
        Ok(self.jobs.prune(&self.limits, now_ms)?)
    }

    fn run_file(&self, args: JobRunArgs, out: &Output) -> Result<(), Failure> {
        let origin = args.file.display().to_string();
        let output = args.output.clone();
        self.create_and_run(plan_of_file(args)?, &origin, &output, out)
    }

    fn plan(&self, args: JobPlanArgs, out: &Output) -> Result<(), Failure> {
        let text = args.words.join(" ");
        let plan = plan_words(&text)?;
        if args.run {
            return self.create_and_run(plan, &text, &args.output, out);
        }
        out.object(&plan);
        if !out.is_json() {
            out.page(show::yaml(&plan)?.trim_end());
        }
        Ok(())
    }

    fn create_and_run(
        &self,
        plan: Plan,
        origin: &str,
        output: &JobOutput,
        out: &Output,
    ) -> Result<(), Failure> {
        let job = self.create(plan, origin, output.output.as_deref(), out)?;
        self.start(&job, out)
    }

    /// Repairs a plan and creates its job.
    fn create(
        &self,
        mut plan: Plan,
        origin: &str,
        output: Option<&Path>,
        out: &Output,
    ) -> Result<JobFolder, Failure> {
        anchor_plan(&mut plan, &self.tools)?;
        let repaired = self.repair(plan, origin)?;
        for change in &repaired.changes {
            out.note(format!("repaired: {change}"));
        }
        let job = self.jobs.create(&repaired.plan, origin, output)?;
        job_trace::submitted(&self.trace, job.info()).map_err(|error| {
            let sentence = format!("the audit log can't be written: {error}; free disk space");
            Failure::new(Exit::Failed, sentence)
        })?;
        // The new job counts, but is the last to go.
        let removed = self.prune()?;
        if !removed.is_empty() {
            out.note(format!("removed old jobs: {}", removed.join(", ")));
        }
        Ok(job)
    }

    fn repair(&self, plan: Plan, name: &str) -> Result<Repaired, Failure> {
        repair(plan, &self.tools).map_err(|left| {
            let repairs = left
                .changes
                .iter()
                .map(|change| format!("repair: {change}"));
            invalid(name, &left.faults).with(repairs)
        })
    }

    /// Runs a job in this process until it ends or Ctrl-C.
    fn start(&self, job: &JobFolder, out: &Output) -> Result<(), Failure> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let on_signal = Arc::clone(&cancelled);
        watch_for_interrupt(move || on_signal.store(true, Ordering::Relaxed))?;
        self.run_until(job, &|| cancelled.load(Ordering::Relaxed), out)
    }

    /// Runs a job in this process until it ends or is cancelled.
    fn run_until(
        &self,
        job: &JobFolder,
        is_cancelled: &dyn Fn() -> bool,
        out: &Output,
    ) -> Result<(), Failure> {
        let id = &job.info().id;
        out.object(&json!({"type": "job", "job": id, "output": job.info().output}));
        if !out.is_json() {
            out.note(format!("job {id}"));
        }
        let runner = Runner::new(self.tools.clone(), self.jobs.clone());
        let mut progress = Progress::new(out);
        let mut report = |event: JobEvent<'_>| {
            job_trace::step(&self.trace, id, &event);
            progress.show(&event);
        };
        let ended = runner.run(job, &mut report, is_cancelled);
        out.end_live_line();
        job_trace::ended(&self.trace, job.info(), &ended);
        let ended = ended?;
        show::result(job, ended, out)?;
        match ended {
            Ended::Done => Ok(()),
            Ended::Failed => {
                let sentence =
                    format!("job {id} failed; `watchkeeper job resume {id}` tries the rest again");
                Err(Failure::new(Exit::Failed, sentence))
            }
            Ended::Cancelled => {
                let sentence =
                    format!("job {id} was cancelled; `watchkeeper job resume {id}` goes on");
                Err(Failure::new(Exit::Failed, sentence))
            }
        }
    }

    fn validate(&self, file: &Path, out: &Output) -> Result<(), Failure> {
        let name = file.display().to_string();
        let (plan, mut faults) = read_parts(&read_file(file)?);
        let number = plan.as_ref().map_or(0, |plan| plan.steps.len());
        let mut left = faults.clone();
        let mut changes = Vec::new();
        if let Some(plan) = plan {
            faults.extend(check(plan.clone(), &self.tools).err().unwrap_or_default());
            match repair(plan, &self.tools) {
                Ok(repaired) => changes = repaired.changes,
                Err(unrepaired) => {
                    left.extend(unrepaired.faults);
                    changes = unrepaired.changes;
                }
            }
        }
        if faults.is_empty() {
            let done = json!({"valid": true, "steps": number});
            out.both(&done, || {
                format!("{name}: valid, {}", counted(number, "step"))
            });
            return Ok(());
        }
        let texts =
            |faults: &[Fault]| -> Vec<String> { faults.iter().map(ToString::to_string).collect() };
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        out.object(
            &json!({"valid": false, "faults": texts(&faults), "repairs": changes,
            "unrepaired": texts(&left)}),
        );
        let repairs = changes.iter().map(|change| format!("repair: {change}"));
        let ends = match left.len() {
            0 => "`job run` repairs all of them".to_owned(),
            number => format!("{} can't be repaired", counted(number, "fault")),
        };
        Err(invalid(&name, &faults).with(repairs).with([ends]))
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
        Ok(())
    }
}

/// Calls `on_interrupt` at the first Ctrl-C or SIGTERM. A second one ends the process: a tool may
/// hang.
fn watch_for_interrupt(on_interrupt: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    let failed =
        |error: std::io::Error| Failure::new(Exit::Failed, format!("can't start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let signals = runtime.block_on(async {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok((interrupt, signal(SignalKind::terminate())?))
    });
    let (mut interrupt, mut terminate) = signals.map_err(failed)?;
    let watch = move || {
        runtime.block_on(either(&mut interrupt, &mut terminate));
        on_interrupt();
        runtime.block_on(either(&mut interrupt, &mut terminate));
        std::process::exit(Exit::Failed.code().into());
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(watch).map(drop).map_err(failed)
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
    let plan = read(&job.info().plan).map_err(|faults| invalid(&job.info().id, &faults))?;
    for transition in trajectory(&job.log()?, plan.rewards) {
        out.page(&serde_json::to_string(&transition).unwrap_or_default());
    }
    Ok(())
}

impl From<JobFolderError> for Failure {
    fn from(error: JobFolderError) -> Self {
        let exit = match error {
            JobFolderError::Unknown(_)
            | JobFolderError::Ambiguous { .. }
            | JobFolderError::NotEmpty(_)
            | JobFolderError::NotText(_) => Exit::BadInput,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}
