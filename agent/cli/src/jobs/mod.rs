//! `watchkeeper job`: plans, runs and results of jobs.
//!
//! - Jobs lie below the user's state folder and need no daemon; only the tool `event_pictures` asks
//!   the runtime.
//! - A plan is repaired before it is run, and each change is printed. A plan that stays invalid is
//!   printed with all its faults.

mod event_pictures;
mod progress;
mod show;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use watchkeeper_jobs::plan::{
    CheckedPlan, Fault, MAX_PLAN_BYTES, Plan, Repaired, anchor, check, read, read_parts, read_text,
    repair, schema,
};
use watchkeeper_jobs::run::{Ended, JobFolder, JobFolderError, Jobs, RunError, Runner, trajectory};
use watchkeeper_jobs::tools::picture_tools;
use watchkeeper_jobs::{Toolbox, counted, planner};

use super::args::{Global, JobAction, JobOutput, JobPlanArgs, JobRunArgs};
use super::configuration;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::state_folder::state_folder;
use event_pictures::EventPictures;
use progress::Progress;

/// Folder of all jobs below the user's state folder.
const FOLDER: &str = "jobs";

pub(super) fn run(action: JobAction, global: &Global, out: &Output) -> Result<(), Failure> {
    let config = configuration::read_for_sockets(global, out);
    let commands = JobCommands::new(config.runtime_socket)?;
    match action {
        JobAction::Run(args) => commands.run_file(args, out),
        JobAction::Plan(args) => commands.plan(args, out),
        JobAction::Validate { file } => commands.validate(&file, out),
        JobAction::Explain { what } => commands.explain(&what, out),
        JobAction::List => show::list(&commands.jobs, out),
        JobAction::Show { id, step, key } => show::job(
            &commands.jobs.open(&id)?,
            step.as_deref(),
            key.as_deref(),
            out,
        ),
        JobAction::Resume { id } => {
            let job = commands.jobs.open(&id)?;
            match show::is_done(&job)? {
                true => show::done_before(&job, out),
                false => commands.start(&job, out),
            }
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

/// Runs a request in plain English that the planner understands, as `job plan --run` does.
pub(super) fn answer(text: &str, socket: PathBuf, out: &Output) -> Result<(), Failure> {
    let args = JobPlanArgs {
        words: vec![text.to_owned()],
        run: true,
        output: JobOutput { output: None },
    };
    JobCommands::new(socket)?.plan(args, out)
}

/// The jobs of this user.
pub(super) fn jobs_of_user() -> Result<Jobs, Failure> {
    Ok(Jobs::new(state_folder()?.join(FOLDER)))
}

/// Tools and jobs of this user.
struct JobCommands {
    tools: Toolbox,
    jobs: Jobs,
}

impl JobCommands {
    fn new(socket: PathBuf) -> Result<Self, Failure> {
        let mut tools = picture_tools();
        tools.add(Arc::new(EventPictures::new(socket)));
        let jobs = jobs_of_user()?;
        Ok(Self { tools, jobs })
    }

    fn run_file(&self, args: JobRunArgs, out: &Output) -> Result<(), Failure> {
        let mut plan = read_plan(&args.file)?;
        for (key, value) in args.inputs {
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
        let origin = args.file.display().to_string();
        self.create_and_run(plan, &origin, &args.output, out)
    }

    fn plan(&self, args: JobPlanArgs, out: &Output) -> Result<(), Failure> {
        let text = args.words.join(" ");
        let now = jiff::Zoned::now().datetime();
        let plan = planner::plan(&text, now).map_err(|e| Failure::input(e.to_string()))?;
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
        mut plan: Plan,
        origin: &str,
        output: &JobOutput,
        out: &Output,
    ) -> Result<(), Failure> {
        anchor(&mut plan, &self.tools)
            .map_err(|error| Failure::new(Exit::Failed, format!("the current folder: {error}")))?;
        let repaired = self.repair(plan, origin)?;
        for change in &repaired.changes {
            out.note(format!("repaired: {change}"));
        }
        let job = self
            .jobs
            .create(&repaired.plan, origin, output.output.as_deref())?;
        self.start(&job, out)
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
        let id = &job.info().id;
        out.object(&json!({"type": "job", "job": id, "output": job.info().output}));
        if !out.is_json() {
            out.note(format!("job {id}"));
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        let on_signal = Arc::clone(&cancelled);
        watch_for_interrupt(move || on_signal.store(true, Ordering::Relaxed))?;
        let runner = Runner::new(self.tools.clone(), self.jobs.clone());
        let mut progress = Progress::new(out);
        let ended = runner.run(job, &mut |event| progress.show(&event), &|| {
            cancelled.load(Ordering::Relaxed)
        });
        out.end_live_line();
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

fn read_plan(file: &Path) -> Result<Plan, Failure> {
    let name = file.display().to_string();
    read_text(&read_file(file)?).map_err(|faults| invalid(&name, &faults))
}

/// Reads a file of at most the size of a plan, or standard input for `-`.
fn read_file(file: &Path) -> Result<String, Failure> {
    let unreadable = |error| Failure::input(format!("{} can't be read: {error}", file.display()));
    // One byte more than allowed shows that the file is too large.
    let limit = MAX_PLAN_BYTES as u64 + 1;
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_string(&mut text)
    } else {
        let file = fs::File::open(file).map_err(unreadable)?;
        file.take(limit).read_to_string(&mut text)
    };
    read.map_err(unreadable)?;
    Ok(text)
}

fn invalid(name: &str, faults: &[Fault]) -> Failure {
    let number = counted(faults.len(), "fault");
    Failure::input(format!("{name}: {number}")).with(faults.iter().map(ToString::to_string))
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
