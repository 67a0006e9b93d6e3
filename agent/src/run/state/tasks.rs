//! Owns what runs in parallel to the loop: the tasks of effects and chains, the threads of the API,
//! of schedules and of jobs.

use std::time::Duration;

use tokio::sync::mpsc;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_client::RuntimeClient;

use crate::api::{self, StatusSender};
use crate::background::{BackgroundTask, BackgroundThread};
use crate::connectors::queue::Limits;
use crate::connectors::{self, Executor};
use crate::evidence;
use crate::jobs::JobService;
use crate::jobs::scheduler::{self, JobNotice, SchedulerSetup};
use crate::run::error::AgentError;

/// Longest wait for a task: above what each gives to work in progress.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Dependencies of the tasks at their start.
#[derive(Debug)]
pub(crate) struct TaskSetup {
    pub(crate) executor: Executor,
    /// Records which effects were executed.
    pub(crate) trace: Trace,
    pub(crate) effect_limits: Limits,
    pub(crate) chains: evidence::service::Setup,
    pub(crate) api: api::service::Setup,
    pub(crate) jobs: JobService,
    pub(crate) scheduler: SchedulerSetup,
}

#[derive(Debug)]
pub(crate) struct Tasks {
    effects: BackgroundTask,
    chains: BackgroundTask,
    api: BackgroundThread,
    jobs: JobService,
    scheduler: BackgroundThread,
}

impl TaskSetup {
    /// Starts the tasks. The API asks the loop for its status by `status_requests`.
    pub(crate) fn spawn(
        self,
        runtime: &RuntimeClient,
        status_requests: StatusSender,
        job_notices: mpsc::Sender<JobNotice>,
    ) -> Result<Tasks, AgentError> {
        // Before the API, which shows the schedules.
        let scheduler = scheduler::spawn(self.scheduler, self.jobs.clone(), job_notices);
        let scheduler = scheduler.map_err(AgentError::SchedulerThread)?;
        let api = api::service::spawn(self.api, status_requests);
        Ok(Tasks {
            jobs: self.jobs,
            scheduler,
            effects: connectors::service::spawn(
                runtime.clone(),
                self.executor,
                self.trace,
                self.effect_limits,
            ),
            chains: evidence::service::spawn(runtime, self.chains),
            api: api.map_err(AgentError::ApiThread)?,
        })
    }
}

impl Tasks {
    /// Waits until a task ends unexpectedly, which is an error.
    pub(crate) async fn died(&mut self) -> AgentError {
        tokio::select! {
            biased;
            () = self.effects.ended() => AgentError::Connectors,
            () = self.chains.ended() => AgentError::Chains,
            () = self.api.ended() => AgentError::Api,
            () = self.scheduler.ended() => AgentError::Scheduler,
        }
    }

    /// Stops all tasks. Effects and chains delay the exit by at most [`STOP_TIMEOUT`], the API by
    /// at most [`api::service::EXIT_TIMEOUT`].
    pub(crate) async fn stop(self) {
        self.scheduler.close();
        self.jobs.close();
        tokio::join!(
            self.effects.stop(STOP_TIMEOUT),
            self.chains.stop(STOP_TIMEOUT),
            self.api.stop(api::service::EXIT_TIMEOUT),
        );
    }
}
