//! Runs a job in this process until it ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use watchkeeper_agent::jobs::{JobServiceError, job_trace};
use watchkeeper_jobs::absent_folders;
use watchkeeper_jobs::plan::Plan;
use watchkeeper_jobs::run::{Ended, JobEvent, JobFolder, Planned, Provenance, Runner};

use super::super::args::{JobOutput, JobOwner};
use super::super::event_loop;
use super::super::exit::{Exit, Failure};
use super::super::output::Output;
use super::super::run::Signals;
use super::commands::{JobCommands, invalid};
use super::progress::Progress;
use super::show;

impl JobCommands {
    pub(super) fn create_and_run(
        &self,
        plan: Plan,
        origin: &str,
        planned: Option<Planned>,
        output: &JobOutput,
        out: &Output,
    ) -> Result<(), Failure> {
        let job = self.create(plan, origin, planned, output.output.as_deref(), out)?;
        self.run_to_end(job, out)
    }

    /// Repairs a plan and creates its job.
    pub(super) fn create(
        &self,
        plan: Plan,
        origin: &str,
        planned: Option<Planned>,
        output: Option<&Path>,
        out: &Output,
    ) -> Result<JobFolder, Failure> {
        let repaired = self.repair(self.anchored(plan)?, origin)?;
        for change in &repaired.changes {
            out.note(format!("repaired: {change}"));
        }
        let plan = &repaired.plan;
        let absent = absent_folders(plan.plan(), &self.tools);
        if !absent.is_empty() {
            let why = format!("there is no folder {}", absent.join(", "));
            return Err(Failure::input(why).with(["name one that exists".to_owned()]));
        }
        let from = Provenance {
            planned,
            ..Provenance::default()
        };
        let created = job_trace::create(&self.jobs, &self.trace, plan, origin, output, from);
        let job = created.map_err(|error| match error {
            JobServiceError::Invalid(faults) => invalid(origin, &faults),
            JobServiceError::Folder(error) => error.into(),
            error => Failure::failed(error.to_string()),
        })?;
        // The new job counts, but is the last to go.
        let removed = self.prune()?;
        if !removed.is_empty() {
            out.note(format!("removed old jobs: {}", removed.join(", ")));
        }
        Ok(job)
    }

    /// Runs a job in this process until it ends or Ctrl-C.
    pub(super) fn run_to_end(&self, job: JobFolder, out: &Output) -> Result<(), Failure> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let on_signal = Arc::clone(&cancelled);
        watch_for_interrupt(move || on_signal.store(true, Ordering::Relaxed))?;
        self.run_until(job, &|| cancelled.load(Ordering::Relaxed), out)
    }

    /// Runs a job in this process until it ends or is cancelled. After a failed step the language
    /// model that made the plan may revise the rest.
    pub(super) fn run_until(
        &self,
        mut job: JobFolder,
        is_cancelled: &dyn Fn() -> bool,
        out: &Output,
    ) -> Result<(), Failure> {
        let id = job.info().id.clone();
        out.object(&json!({"type": "job", "job": id, "output": job.info().output}));
        if !out.is_json() {
            out.note(format!("job {id}"));
        }
        let runner = Runner::new(self.tools.clone(), self.jobs.clone());
        let progress = Progress::new(out);
        let mut report = |event: JobEvent<'_>| {
            job_trace::step(&self.trace, &id, &event);
            progress.show(&event);
        };
        let mut revise =
            |job: &JobFolder, is_cancelled: &dyn Fn() -> bool| self.revise(job, is_cancelled, out);
        let ended = runner.run_revised(&mut job, &mut report, is_cancelled, &mut revise);
        out.end_live_line();
        job_trace::ended(&self.trace, job.info(), &ended);
        let ended = ended?;
        let (output, log) = (&job.info().output, job.log()?);
        show::result(&id, output, &log, Some(ended), JobOwner::USER, out);
        if ended != Ended::Done {
            return Err(show::not_done(&id, Some(ended), JobOwner::USER));
        }
        self.cache_plan(&job, out);
        if job.info().from.planned.is_some() {
            show::next_steps(&id, out);
        }
        Ok(())
    }
}

/// Calls `on_interrupt` at the first signal that ends a run. A second one ends the process: a tool
/// may hang.
fn watch_for_interrupt(on_interrupt: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let runtime = event_loop::new()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let watch = move || {
        runtime.block_on(signals.recv());
        on_interrupt();
        runtime.block_on(signals.recv());
        std::process::exit(Exit::Failed.code().into());
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    let failed = |error: std::io::Error| Failure::failed(format!("can't start: {error}"));
    thread.spawn(watch).map(drop).map_err(failed)
}
