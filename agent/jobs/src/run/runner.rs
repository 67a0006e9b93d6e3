//! Runs a job: one thread for each running step, and one that decides and writes the log.
//!
//! - Which step starts, is tried again or is skipped is decided by [`Execution`], which is sans-IO.
//! - A step counts as done once its result and its line of the log are on disk.
//! - A step that panics has failed; the job continues.
//! - At most [`MAX_THREADS`] steps run at a time. A cancellation is noticed within [`TICK`].
//! - A job stays locked while its plan is revised, and its log open: it can be cancelled, and a
//!   crash leaves it interrupted.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::claims::{claimed, is_begun};
use super::error::JobFolderError;
use super::events::{JobEvent, RunError};
use super::execution::{AfterFailure, Ended, Execution, Start, StepState};
use super::folder::{JobFolder, Jobs, RunLock, finished};
use super::log::{JobLog, LogRecord, StepResult};
use crate::plan::reference::{self, Address, INPUTS, Reference};
use crate::plan::{Call, CheckedPlan, Step, check_without_box, read};
use crate::target::{part, remove};
use crate::tool::{Context, Gauge, ToolError, ToolOutput, Toolbox};

/// Longest time until a cancellation is noticed, and between two reports of progress.
const TICK: Duration = Duration::from_millis(200);

/// Most steps that run at a time.
const MAX_THREADS: usize = 8;

/// Runs jobs with these tools.
#[derive(Debug)]
pub struct Runner {
    tools: Toolbox,
    jobs: Jobs,
    threads: usize,
}

/// Returns another plan for the rest of a job after a failed step. It ends early once its last
/// argument returns true.
pub type Revise<'r> = &'r mut dyn FnMut(&JobFolder, &dyn Fn() -> bool) -> Option<CheckedPlan>;

/// Result that a step's thread sends back.
struct Answer {
    step: usize,
    outcome: Result<ToolOutput, ToolError>,
}

/// A step that runs.
struct Running {
    step: usize,
    gauge: Arc<Gauge>,
}

impl Runner {
    pub fn new(tools: Toolbox, jobs: Jobs) -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Self {
            tools,
            jobs,
            threads: threads.min(MAX_THREADS),
        }
    }

    /// Runs a job, or resumes one that was interrupted, failed or cancelled: steps that are done
    /// stay so, all others are tried again.
    ///
    /// Blocks until it ends. `is_cancelled` is asked five times a second.
    ///
    /// # Errors
    /// If another process runs it or its log can't be written. If its plan no longer fits the
    /// tools, the job has failed.
    pub fn run(
        &self,
        job: &JobFolder,
        report: &mut dyn FnMut(JobEvent<'_>),
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Ended, RunError> {
        let lock = job.lock()?;
        let (ended, log) = self.run_locked(&lock, job, report, is_cancelled)?;
        log.append(LogRecord::Ended { how: ended })?;
        Ok(ended)
    }

    /// Runs a job as [`Self::run`] does. As long as `revise` returns another plan after a failed
    /// step, that is stored and run.
    ///
    /// # Errors
    /// Those of [`Self::run`], or if a revised plan does not fit the job.
    pub fn run_revised(
        &self,
        job: &mut JobFolder,
        report: &mut dyn FnMut(JobEvent<'_>),
        is_cancelled: &dyn Fn() -> bool,
        revise: Revise<'_>,
    ) -> Result<Ended, RunError> {
        let lock = job.lock()?;
        loop {
            let (mut ended, log) = self.run_locked(&lock, job, report, is_cancelled)?;
            if ended == Ended::Failed {
                let must_end = || is_cancelled() || job.is_cancel_recorded();
                let revised = revise(job, &must_end);
                if must_end() {
                    ended = Ended::Cancelled;
                } else if let Some(plan) = revised {
                    job.revise(&plan, &self.tools)?;
                    continue;
                }
            }
            log.append(LogRecord::Ended { how: ended })?;
            return Ok(ended);
        }
    }

    /// Runs a locked job. Returns its log, in which its end is not yet recorded.
    fn run_locked(
        &self,
        lock: &RunLock,
        job: &JobFolder,
        report: &mut dyn FnMut(JobEvent<'_>),
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(Ended, JobLog), RunError> {
        let (log, lines) = job.begin(lock)?;
        log.append(LogRecord::Opened)?;
        let plan = read(&job.info().plan).and_then(|plan| check_without_box(plan, &self.tools));
        let plan = match plan {
            Ok(plan) => plan,
            Err(faults) => {
                let how = Ended::Failed;
                log.append(LogRecord::Ended { how })?;
                return Err(RunError::Plan(faults));
            }
        };
        let mut execution = Execution::new(&plan);
        let mut results = HashMap::new();
        for (name, result) in finished(&lines) {
            let mut steps = plan.plan().steps.iter();
            if let Some(step) = steps.position(|step| step.name == name) {
                execution.restore_done(step);
            }
            results.insert(name, result.sha256);
        }
        let shared = Shared {
            runner: self,
            plan: &plan,
            job,
            log,
            claims: Mutex::new(claimed(&lines, &job.info().output)),
            results: Mutex::new(results),
            cancelled: AtomicBool::new(false),
        };
        let ended = thread::scope(|scope| {
            let ended = shared.drive(scope, &mut execution, report, is_cancelled);
            // After an error the threads that are left must end too.
            shared.cancelled.store(true, Ordering::Relaxed);
            ended
        })?;
        Ok((ended, shared.log))
    }
}

/// Data that all threads of a run share.
struct Shared<'r> {
    runner: &'r Runner,
    plan: &'r CheckedPlan,
    job: &'r JobFolder,
    log: JobLog,
    /// Names in the output folder and the steps that have them.
    claims: Mutex<HashMap<String, String>>,
    /// SHA-256 of the results of done steps.
    results: Mutex<HashMap<String, String>>,
    cancelled: AtomicBool,
}

impl Shared<'_> {
    fn drive<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        execution: &mut Execution<'_>,
        report: &mut dyn FnMut(JobEvent<'_>),
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Ended, RunError> {
        let begin = Instant::now();
        let (answers, inbox) = sync_channel(self.runner.threads);
        let mut running: Vec<Running> = Vec::new();
        loop {
            let free = self.runner.threads.saturating_sub(running.len());
            for start in execution.start(begin.elapsed(), free) {
                running.push(self.start(scope, start, &answers, report)?);
            }
            if let Some(ended) = execution.ended() {
                return Ok(ended);
            }
            let now = begin.elapsed();
            let free = self.runner.threads.saturating_sub(running.len());
            let wakes = execution.wakes_at(free);
            let wakes = wakes.map(|at| at.saturating_sub(now));
            match receive(&inbox, wakes.unwrap_or(TICK).min(TICK)) {
                Some(answer) => {
                    running.retain(|one| one.step != answer.step);
                    self.settle(answer, execution, report, begin.elapsed())?;
                }
                None => self.report_progress(&running, report),
            }
            if !self.cancelled.load(Ordering::Relaxed)
                && (is_cancelled() || self.job.is_cancel_recorded())
            {
                self.cancelled.store(true, Ordering::Relaxed);
                execution.cancel();
            }
        }
    }

    fn step(&self, place: usize) -> Option<&Step> {
        self.plan.plan().steps.get(place)
    }

    fn report_progress(&self, running: &[Running], report: &mut dyn FnMut(JobEvent<'_>)) {
        for one in running {
            let (done, total) = one.gauge.read();
            if let Some(step) = self.step(one.step) {
                report(JobEvent::Progress { step, done, total });
            }
        }
    }

    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        start: Start,
        answers: &SyncSender<Answer>,
        report: &mut dyn FnMut(JobEvent<'_>),
    ) -> Result<Running, RunError> {
        let gauge = Arc::new(Gauge::default());
        let running = Running {
            step: start.step,
            gauge: Arc::clone(&gauge),
        };
        let Some((step, call)) = self
            .step(start.step)
            .and_then(|step| Some((step, step.calls().nth(start.call)?)))
        else {
            return Ok(running);
        };
        self.log.append(LogRecord::Started {
            step: step.name.clone(),
            tool: call.tool.clone(),
            params: call.params.clone(),
            attempt: start.attempt,
        })?;
        let attempt = start.attempt;
        report(JobEvent::Started { step, attempt });
        let answers = answers.clone();
        let spawned = thread::Builder::new()
            .name(format!("step-{}", step.name))
            .spawn_scoped(scope, move || {
                let run = AssertUnwindSafe(|| self.run_tool(step, call, &gauge));
                let outcome = catch_unwind(run).unwrap_or_else(|_| {
                    Err(ToolError::Permanent(
                        "the tool panicked; report this".to_owned(),
                    ))
                });
                // The receiver is gone only after an error of the log.
                answers
                    .send(Answer {
                        step: start.step,
                        outcome,
                    })
                    .ok();
            });
        spawned.map_err(|source| RunError::Thread {
            step: step.name.clone(),
            source,
        })?;
        Ok(running)
    }

    fn run_tool(&self, step: &Step, call: &Call, gauge: &Gauge) -> Result<ToolOutput, ToolError> {
        let tools = &self.runner.tools;
        let tool = tools.get(&call.tool).ok_or_else(|| {
            // The plan was checked against the same tools.
            ToolError::Permanent(format!("no tool {}", call.tool))
        })?;
        let params = self.resolve(call)?;
        for param in tool.spec().params {
            let value = params.get(param.name);
            let is_list = value.is_some_and(|value| value.is_array());
            if let Some(value) = value.filter(|_| !is_list)
                && let Some(wanted) = param.kind.refuse(value)
            {
                let sentence = format!("{}: {} is not {wanted}", param.name, short(value));
                return Err(ToolError::Permanent(sentence));
            }
        }
        let is_cancelled = || self.cancelled.load(Ordering::Relaxed);
        let context = Context {
            step: &step.name,
            output: &self.job.info().output,
            seen: &self.job.seen_file(),
            claim: &|name: &str| self.claim(&step.name, name),
            deadline: Instant::now() + Duration::from_secs(step.timeout_s),
            is_cancelled: &is_cancelled,
            gauge,
            is_revisable: self.job.info().from.is_revisable(),
        };
        tool.run(params, &context)
    }

    /// Gives a name in the output folder to a step.
    fn claim(&self, step: &str, name: &str) -> Result<(), ToolError> {
        let mut claims = self.claims.lock();
        match claims.get(name) {
            Some(owner) if owner == step => return Ok(()),
            Some(owner) => {
                let sentence = format!("step {owner} writes {name} too; choose another name");
                return Err(ToolError::Permanent(sentence));
            }
            None => {}
        }
        let path = self.job.info().output.join(name);
        if path.symlink_metadata().is_ok() {
            let sentence = format!("{} is not of this job; move it away", path.display());
            return Err(ToolError::Permanent(sentence));
        }
        let (step, name) = (step.to_owned(), name.to_owned());
        let record = LogRecord::Claimed {
            step: step.clone(),
            name: name.clone(),
        };
        let logged = self.log.append(record);
        logged.map_err(|error| ToolError::Permanent(error.to_string()))?;
        claims.insert(name, step);
        Ok(())
    }

    /// The parameters of a call with the values of its references.
    fn resolve(&self, call: &Call) -> Result<Map<String, Value>, ToolError> {
        let find = |reference: &Reference| -> Result<Value, Unresolved> {
            let Reference { owner, key } = reference;
            if owner == INPUTS {
                let input = self.plan.plan().inputs.get(key).cloned();
                return input.ok_or_else(|| Unresolved(format!("no input {key}")));
            }
            let known = self.results.lock().get(owner).cloned();
            let sha256 = known.ok_or_else(|| Unresolved(format!("step {owner} is not done")))?;
            pick(self.job.load(owner, &sha256), owner, key)
        };
        let open = |address: &Address| -> Result<Value, Unresolved> {
            let job = self.runner.jobs.open_exact(&address.job);
            let job = job.map_err(|error| Unresolved(error.to_string()))?;
            pick(job.result(&address.step), &address.step, &address.key)
        };
        let resolved = call.params.iter().map(|(name, value)| {
            let value = reference::resolve(value, &find, &open);
            Ok((
                name.clone(),
                value.map_err(|error| ToolError::Permanent(error.0))?,
            ))
        });
        resolved.collect()
    }

    /// Writes the outcome of a step to the log, and what follows from it.
    fn settle(
        &self,
        answer: Answer,
        execution: &mut Execution<'_>,
        report: &mut dyn FnMut(JobEvent<'_>),
        now: Duration,
    ) -> Result<(), RunError> {
        let Some(step) = self.step(answer.step) else {
            return Ok(());
        };
        match answer.outcome {
            Ok(done) => {
                if !done.files.is_empty() {
                    self.job.record_files(&step.name, &done.files)?;
                }
                let result = StepResult {
                    sha256: self.job.store(&step.name, &done.values)?,
                    summary: done.summary,
                    files: done.files,
                };
                self.log.append(LogRecord::Finished {
                    step: step.name.clone(),
                    result: result.clone(),
                })?;
                self.results
                    .lock()
                    .insert(step.name.clone(), result.sha256.clone());
                execution.succeeded(answer.step);
                let result = &result;
                report(JobEvent::Finished { step, result });
            }
            Err(error) => {
                let next = execution.failed(answer.step, &error, now);
                let again_in = match next {
                    AfterFailure::Again { in_ } => Some(in_),
                    AfterFailure::Alternative | AfterFailure::GivenUp => None,
                };
                if again_in.is_none() {
                    self.remove_partial(&step.name);
                }
                let why = error.to_string();
                self.log.append(LogRecord::Failed {
                    step: step.name.clone(),
                    why: why.clone(),
                    again_in_s: again_in.map(|pause| pause.as_secs_f64()),
                })?;
                let why = why.as_str();
                report(JobEvent::Failed {
                    step,
                    why,
                    again_in,
                });
                if next == AfterFailure::GivenUp {
                    self.log_skipped(step, execution)?;
                }
            }
        }
        Ok(())
    }

    /// Removes what a step that failed has begun in the output folder, and frees the names. What
    /// the disk refuses stays the step's until it is done again.
    fn remove_partial(&self, step: &str) {
        let output = &self.job.info().output;
        self.claims.lock().retain(|name, owner| {
            if owner != step {
                return true;
            }
            for path in [part(output, name), output.join(name)] {
                remove(&path).ok();
            }
            is_begun(output, name)
        });
    }

    fn log_skipped(&self, failed: &Step, execution: &Execution<'_>) -> Result<(), RunError> {
        for (step, state) in self.plan.plan().steps.iter().zip(execution.states()) {
            match state {
                StepState::Skipped { because } if *because == failed.name => {
                    self.log.append(LogRecord::Skipped {
                        step: step.name.clone(),
                        because: because.clone(),
                    })?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why a reference has no value.
struct Unresolved(String);

impl From<String> for Unresolved {
    fn from(why: String) -> Self {
        Self(why)
    }
}

/// One value of a result.
fn pick(
    values: Result<Map<String, Value>, JobFolderError>,
    step: &str,
    key: &str,
) -> Result<Value, Unresolved> {
    let mut values = values.map_err(|error| Unresolved(error.to_string()))?;
    let value = values.remove(key);
    value.ok_or_else(|| Unresolved(format!("step {step} has no result {key}")))
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(60).collect()
}

fn receive(inbox: &Receiver<Answer>, wait: Duration) -> Option<Answer> {
    // `drive` holds a sender, so an error is the time-out.
    inbox.recv_timeout(wait).ok()
}
