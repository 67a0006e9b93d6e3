//! Runs a job in this process until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use watchkeeper_jobs::plan::Plan;
use watchkeeper_jobs::run::{Ended, JobFolder, Planned, Runner};
use watchkeeper_jobs::{absent_folders, check_addresses};

use super::super::args::JobOutput;
use super::super::exit::{Exit, Failure};
use super::super::output::Output;
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
        let repaired = self.repair(self.anchored(plan)?, origin)?;
        for change in &repaired.changes {
            out.note(format!("repaired: {change}"));
        }
        let plan = &repaired.plan;
        let faults = check_addresses(plan.plan(), &self.jobs);
        if !faults.is_empty() {
            return Err(invalid(origin, &faults));
        }
        for folder in absent_folders(plan.plan(), &self.tools) {
            out.note(format!("there is no folder {folder}"));
        }
        let output = output.output.as_deref();
        let job = self.jobs.create_planned(plan, origin, output, planned)?;
        self.run_to_end(job, out)
    }

    /// Runs a job in this process until it ends or Ctrl-C. After a failed step the language model
    /// that made the plan may revise the rest.
    pub(super) fn run_to_end(&self, mut job: JobFolder, out: &Output) -> Result<(), Failure> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let on_signal = Arc::clone(&cancelled);
        watch_for_interrupt(move || on_signal.store(true, Ordering::Relaxed))?;
        loop {
            let ended = self.run_once(&job, &cancelled, out)?;
            let id = job.info().id.clone();
            let sentence = match ended {
                Ended::Done => {
                    self.cache_plan(&job, out);
                    return Ok(());
                }
                Ended::Failed if self.revise(&mut job, out) => continue,
                Ended::Failed => {
                    format!("job {id} failed; `watchkeeper job resume {id}` tries the rest again")
                }
                Ended::Cancelled => {
                    format!("job {id} was cancelled; `watchkeeper job resume {id}` goes on")
                }
            };
            return Err(Failure::new(Exit::Failed, sentence));
        }
    }

    fn run_once(
        &self,
        job: &JobFolder,
        cancelled: &AtomicBool,
        out: &Output,
    ) -> Result<Ended, Failure> {
        let id = &job.info().id;
        out.object(&json!({"type": "job", "job": id, "output": job.info().output}));
        if !out.is_json() {
            out.note(format!("job {id}"));
        }
        let runner = Runner::new(self.tools.clone(), self.jobs.clone());
        let mut progress = Progress::new(out);
        let ended = runner.run(job, &mut |event| progress.show(&event), &|| {
            cancelled.load(Ordering::Relaxed)
        });
        out.end_live_line();
        let ended = ended?;
        show::result(job, ended, out)?;
        Ok(ended)
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
