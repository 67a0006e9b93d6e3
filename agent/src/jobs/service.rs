//! The jobs of the agent and the threads that run them.
//!
//! A running job has a thread, which ends when nothing waits. The agent's end is to a job as a
//! crash: it is interrupted and resumed at the next start.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use watchkeeper_assistant::jobs::ModelPlaces;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_assistant::trace::{AGENT, Trace};
use watchkeeper_config::{AuditConfig, JobLimitsConfig};
use watchkeeper_jobs::Toolbox;
use watchkeeper_jobs::plan::repair;
use watchkeeper_jobs::run::{
    Ended, JobEvent, JobFolder, JobFolderError, JobId, JobLimits, JobState, Jobs, Provenance,
    Runner,
};
use watchkeeper_jobs::tools::picture_tools;

use super::event_pictures::EventPictures;
use super::network_tools::{self, RuntimeAccess, ToolSetup};
use super::planning_model::PlanningModel;
use super::pool::Pool;
use super::request::{JobRequest, JobServiceError, require_allowed};
use super::status::{JobsHealth, ScheduleStatus, StepProgress};
use super::{archive_tools, job_trace};

/// Folder of the agent's jobs, beside its trace.
const FOLDER: &str = "jobs";
/// Runs of a job in which no step was done, after which it counts as failed: it may be what ends
/// the agent.
const MAX_STARTS: usize = 5;
/// Least nice value of threads that run jobs.
const NICENESS: i32 = 10;

/// A running job in memory.
#[derive(Debug, Default)]
pub(super) struct Live {
    steps: Mutex<BTreeMap<String, (u64, u64)>>,
}

impl Live {
    pub(super) fn progress(&self) -> Vec<StepProgress> {
        let steps = self.steps.lock();
        let steps = steps.iter().map(|(step, &(done, total))| StepProgress {
            step: step.clone(),
            done,
            total,
        });
        steps.collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) pool: Pool,
    pub(super) live: HashMap<JobId, Arc<Live>>,
    is_closed: bool,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) jobs: Jobs,
    pub(super) tools: Toolbox,
    /// Folder of the trace.
    pub(super) home: PathBuf,
    audit: AuditConfig,
    limits: JobLimits,
    pub(super) state: Mutex<State>,
    /// Held while jobs are removed, and while one is put back into the queue.
    pub(super) removing: Mutex<()>,
    schedules: Mutex<Vec<ScheduleStatus>>,
    pub(super) model: OnceLock<PlanningModel>,
    /// Places of requests that a language model plans.
    pub(super) places: Arc<ModelPlaces>,
    /// Advances whenever something happens to a job.
    advances: watch::Sender<u64>,
}

/// The agent's jobs, shared by reference.
#[derive(Debug, Clone)]
pub struct JobService(pub(super) Arc<Inner>);

/// The tools of jobs on this box; some ask the runtime or the archive.
pub fn toolbox(setup: &ToolSetup) -> Toolbox {
    let mut tools = picture_tools();
    let runtime = Arc::new(RuntimeAccess::new(setup.clone()));
    tools.add(Arc::new(EventPictures::new(Arc::clone(&runtime))));
    network_tools::add(&mut tools, runtime);
    archive_tools::add(&mut tools, setup.agent_socket.clone());
    tools
}

impl JobService {
    /// The jobs in `home`, with the tools of `setup`. Runs nothing yet.
    pub fn new(
        home: &Path,
        setup: &ToolSetup,
        audit: AuditConfig,
        limits: JobLimitsConfig,
    ) -> Self {
        Self(Arc::new(Inner {
            jobs: Jobs::new(home.join(FOLDER)),
            tools: toolbox(setup),
            home: home.to_owned(),
            audit,
            limits: job_limits(limits),
            state: Mutex::default(),
            removing: Mutex::default(),
            schedules: Mutex::default(),
            model: OnceLock::new(),
            places: Arc::default(),
            advances: watch::Sender::new(0),
        }))
    }

    /// Queues what an earlier end of the agent interrupted.
    pub(crate) fn resume_interrupted(&self) {
        let ids = match self.0.jobs.ids() {
            Ok(ids) => ids,
            Err(error) => return tracing::error!("jobs: {error}"),
        };
        for id in ids {
            if let Err(error) = self.restore(&id) {
                tracing::error!("jobs: job {id} is not resumed: {error}");
            }
        }
        self.prune();
        self.dispatch();
    }

    fn restore(&self, id: &str) -> Result<(), JobFolderError> {
        let job = self.0.jobs.open_exact(id)?;
        let summary = job.summary()?;
        if summary.state != JobState::Interrupted {
            return Ok(());
        }
        // Each revision runs the job again within one start.
        let planned = job.info().from.planned.as_ref();
        let runs_again = planned.map_or(0, |planned| planned.revisions as usize);
        let how = match summary.starts.saturating_sub(runs_again) {
            _ if job.is_cancel_recorded() => Some(Ended::Cancelled),
            MAX_STARTS.. => {
                tracing::error!("jobs: {id} was interrupted {MAX_STARTS} times and is given up");
                Some(Ended::Failed)
            }
            _ => None,
        };
        if let Some(how) = how {
            job.end_unrun(how)?;
            let trace = self.trace(job.info().from.entrypoint.as_deref());
            job_trace::ended(&trace, job.info(), &Ok(how));
            return Ok(());
        }
        tracing::info!("jobs: resuming {id}");
        self.0.state.lock().pool.restore(id.to_owned());
        Ok(())
    }

    /// Starts no further job. Running ones end with the process.
    pub fn close(&self) {
        self.0.state.lock().is_closed = true;
    }

    pub fn tools(&self) -> &Toolbox {
        &self.0.tools
    }

    /// Advances whenever something happens to a job.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.advances.subscribe()
    }

    /// Creates a job and queues it; returns its ID with the repairs of its plan.
    ///
    /// # Errors
    /// If too many wait, the plan is invalid or not allowed, or the disk refuses.
    pub fn submit(&self, request: JobRequest) -> Result<(JobId, Vec<String>), JobServiceError> {
        let repaired = repair(request.plan, &self.0.tools).map_err(|left| {
            JobServiceError::Invalid(left.faults.iter().map(ToString::to_string).collect())
        })?;
        let is_remote = request.entrypoint == Some(Entrypoint::Remote);
        require_allowed(
            &repaired.plan,
            &self.0.tools,
            request.output.as_deref(),
            is_remote,
        )?;
        self.0.state.lock().pool.reserve()?;
        let entrypoint = request.entrypoint.map_or(AGENT, Entrypoint::name);
        let from = Provenance {
            entrypoint: Some(entrypoint.to_owned()),
            schedule: request.schedule,
            planned: request.planned,
        };
        let created = job_trace::create(
            &self.0.jobs,
            &self.trace(Some(entrypoint)),
            &repaired.plan,
            &request.origin,
            request.output.as_deref(),
            from,
        );
        let created = created.inspect_err(|_| self.0.state.lock().pool.release());
        let id = created?.info().id.clone();
        self.0.state.lock().pool.push(id.clone());
        self.advance();
        self.dispatch();
        let changes = repaired.changes.iter().map(ToString::to_string);
        Ok((id, changes.collect()))
    }

    pub(super) fn trace(&self, channel: Option<&str>) -> Trace {
        let channel = match channel {
            Some("local") => Entrypoint::Local.name(),
            Some("remote") => Entrypoint::Remote.name(),
            _ => AGENT,
        };
        Trace::new(&self.0.home, channel).with_audit_limits(self.0.audit)
    }

    /// Starts threads for waiting jobs while places are free.
    pub(super) fn dispatch(&self) {
        loop {
            let mut state = self.0.state.lock();
            if state.is_closed {
                return;
            }
            let Some(id) = state.pool.take() else {
                return;
            };
            let live = Arc::new(Live::default());
            state.live.insert(id.clone(), Arc::clone(&live));
            drop(state);
            let service = self.clone();
            let run_id = id.clone();
            let thread = std::thread::Builder::new().name("job".to_owned());
            let spawned = thread.spawn(move || {
                lower_priority();
                let run = AssertUnwindSafe(|| service.run(&run_id, &live));
                if catch_unwind(run).is_err() {
                    tracing::error!("jobs: job {run_id} panicked; a restart resumes it");
                }
                service.finish(&run_id);
                service.dispatch();
            });
            if let Err(error) = spawned {
                tracing::error!("jobs: job {id} can't be started: {error}");
                self.finish(&id);
            }
        }
    }

    fn finish(&self, id: &str) {
        let mut state = self.0.state.lock();
        state.pool.finish(id);
        state.live.remove(id);
        drop(state);
        self.prune();
        self.advance();
    }

    fn run(&self, id: &str, live: &Live) {
        let mut job = match self.0.jobs.open_exact(id) {
            Ok(job) => job,
            Err(error) => return tracing::error!("jobs: {error}"),
        };
        let trace = self.trace(job.info().from.entrypoint.as_deref());
        let runner = Runner::new(self.0.tools.clone(), self.0.jobs.clone());
        let mut report = |event: JobEvent<'_>| self.on_event(id, &trace, live, &event);
        let mut revise =
            |job: &JobFolder, is_cancelled: &dyn Fn() -> bool| self.revise(job, is_cancelled);
        // A cancellation is recorded in the job's folder.
        let ended = runner.run_revised(&mut job, &mut report, &|| false, &mut revise);
        job_trace::ended(&trace, job.info(), &ended);
        match ended {
            Ok(Ended::Done) => self.cache_plan(&job),
            Ok(Ended::Failed | Ended::Cancelled) => {}
            Err(error) => tracing::error!("jobs: job {id} broke off: {error}"),
        }
    }

    fn on_event(&self, id: &str, trace: &Trace, live: &Live, event: &JobEvent<'_>) {
        match event {
            JobEvent::Started { step, .. } => {
                live.steps.lock().insert(step.name.clone(), (0, 0));
            }
            JobEvent::Progress { step, done, total } => {
                live.steps.lock().insert(step.name.clone(), (*done, *total));
            }
            JobEvent::Finished { step, .. } | JobEvent::Failed { step, .. } => {
                live.steps.lock().remove(&step.name);
            }
        }
        job_trace::step(trace, id, event);
        self.advance();
    }

    pub(super) fn advance(&self) {
        self.0.advances.send_modify(|number| *number += 1);
    }

    fn prune(&self) {
        let now_ms = Timestamp::now().as_millisecond();
        let _removing = self.0.removing.lock();
        let is_active = |id: &str| self.0.state.lock().pool.may_be_active(id);
        match self.0.jobs.prune_idle(&self.0.limits, now_ms, &is_active) {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => tracing::info!(jobs = removed.join(", "), "jobs: removed old ones"),
            Err(error) => tracing::warn!("jobs: old ones stay: {error}"),
        }
    }

    /// Sets what health says of the schedules.
    pub(super) fn set_schedules(&self, schedules: Vec<ScheduleStatus>) {
        *self.0.schedules.lock() = schedules;
    }

    /// Returns the number of jobs and the status of each schedule.
    pub fn health(&self) -> JobsHealth {
        let (running, waiting) = self.0.state.lock().pool.counts();
        JobsHealth {
            running,
            waiting,
            schedules: self.0.schedules.lock().clone(),
        }
    }

    /// Whether a job runs or waits.
    pub fn is_active(&self, id: &str) -> bool {
        self.0.state.lock().pool.is_active(id)
    }
}

/// Gives this thread a low priority. Threads that it starts inherit it: those of steps, and that of
/// the next job.
fn lower_priority() {
    use rustix::process::{getpriority_process, setpriority_process};

    let lowered = getpriority_process(None).and_then(|now| match now < NICENESS {
        true => setpriority_process(None, NICENESS),
        false => Ok(()),
    });
    if let Err(error) = lowered {
        tracing::debug!(%error, "jobs: the priority stays");
    }
}

fn job_limits(config: JobLimitsConfig) -> JobLimits {
    JobLimits {
        max_jobs: config.max_jobs,
        max_bytes: config.max_bytes,
        max_days: config.max_days,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::{Map, Value, json};
    use watchkeeper_jobs::plan::read;
    use watchkeeper_jobs::tool::{Context, Tool, ToolError, ToolOutput, ToolSpec};

    use super::*;
    use crate::jobs::testing::service;

    /// A tool that panics on the thread of a job, outside of its step.
    struct PanickingTool(&'static ToolSpec);

    impl Tool for PanickingTool {
        fn spec(&self) -> &'static ToolSpec {
            assert_ne!(std::thread::current().name(), Some("job"));
            self.0
        }
        fn run(&self, _: Map<String, Value>, _: &Context<'_>) -> Result<ToolOutput, ToolError> {
            unreachable!("the plan is checked before a step runs")
        }
    }

    #[test]
    fn job_whose_thread_panics_leaves_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut service = service(dir.path());
        let spec = service.tools().spec("list_pictures").unwrap();
        let tools = Toolbox::new(vec![Arc::new(PanickingTool(spec))]);
        Arc::get_mut(&mut service.0).unwrap().tools = tools;
        let steps = json!([{"name": "list", "tool": spec.name, "params": {"folder": "/x"}}]);
        let request = JobRequest {
            plan: read(&json!({"name": "x", "steps": steps})).unwrap(),
            origin: String::new(),
            output: None,
            entrypoint: Some(Entrypoint::Local),
            schedule: None,
            planned: None,
        };
        let (id, _) = service.submit(request).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while service.is_active(&id) {
            assert!(Instant::now() < until, "it counts as running");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (status, _) = service.show(&id, Entrypoint::Local).unwrap();
        assert_eq!(status.state, JobState::Interrupted);
    }
}
