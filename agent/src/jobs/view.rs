//! What people see of jobs: their status, logs, results and bundles.
//!
//! Invariant: over TCP only jobs of TCP are seen.

use std::time::Duration;

use serde_json::{Map, Value};
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_bundle::write::Contents;
use watchkeeper_contract::bundle::JobBundle;
use watchkeeper_jobs::run::{JobFolder, JobFolderError, JobState, LogLine};

use super::bundle;
use super::request::JobServiceError;
use super::service::JobService;
use super::status::{JobStatus, StepProgress};

/// Pause of a follower after news of any job: a step reports five times a second.
pub(crate) const NEWS_PAUSE: Duration = Duration::from_millis(200);

impl JobService {
    /// Opens a job by its ID or a unique prefix of it; over TCP only one of TCP.
    pub(super) fn open(&self, id: &str, asks: Entrypoint) -> Result<JobFolder, JobServiceError> {
        let job = self.0.jobs.open(id)?;
        match is_visible(&job, asks) {
            true => Ok(job),
            false => Err(JobFolderError::Unknown(id.to_owned()).into()),
        }
    }

    /// Returns all jobs that `asks` may see, oldest first.
    ///
    /// # Errors
    /// If the folder of the jobs can't be read.
    pub fn list(&self, asks: Entrypoint) -> Result<Vec<JobStatus>, JobServiceError> {
        let jobs = self.0.jobs.ids()?.into_iter();
        let jobs = jobs.filter_map(|id| self.0.jobs.open_exact(&id).ok());
        let mut visible: Vec<_> = jobs.filter(|job| is_visible(job, asks)).collect();
        visible.sort_by_key(|job| job.info().created_ms);
        // A job that was removed meanwhile, or is damaged, is left out.
        Ok(visible
            .iter()
            .filter_map(|job| self.status_of(job).ok())
            .collect())
    }

    /// Returns a job with its log.
    ///
    /// # Errors
    /// If there is no such job, or it can't be read.
    pub fn show(
        &self,
        id: &str,
        asks: Entrypoint,
    ) -> Result<(JobStatus, Vec<LogLine>), JobServiceError> {
        let job = self.open(id, asks)?;
        Ok((self.status_of(&job)?, job.log()?))
    }

    /// Returns the records of a job's log from byte `begin` on with the byte at which they end, and
    /// what its running steps have done.
    ///
    /// # Errors
    /// If there is no such job, or it can't be read.
    pub fn news(
        &self,
        id: &str,
        begin: u64,
    ) -> Result<(Vec<LogLine>, u64, Vec<StepProgress>), JobServiceError> {
        let live = self.0.state.lock().live.get(id).cloned();
        let (lines, end) = self.0.jobs.open_exact(id)?.log_from(begin)?;
        let running = live.map(|live| live.progress());
        Ok((lines, end, running.unwrap_or_default()))
    }

    /// Gathers the bundle of a job that neither runs nor waits, and what the runtime signs of it.
    ///
    /// # Errors
    /// If there is no such job, it is active, or it can't be read.
    pub fn gather(
        &self,
        id: &str,
        asks: Entrypoint,
    ) -> Result<(Contents, JobBundle), JobServiceError> {
        let job = self.open(id, asks)?;
        if self.is_active(&job.info().id) {
            return Err(JobServiceError::Active(job.info().id.clone()));
        }
        let contents = bundle::collect(&job)?;
        let description = bundle::describe(&job, &contents);
        Ok((contents, description))
    }

    fn status_of(&self, job: &JobFolder) -> Result<JobStatus, JobServiceError> {
        let info = job.info();
        let (is_waiting, live) = {
            let state = self.0.state.lock();
            (
                state.pool.is_waiting(&info.id),
                state.live.get(&info.id).cloned(),
            )
        };
        let summary = job.summary()?;
        let state = match summary.state {
            _ if is_waiting => "waiting",
            // The language model may yet revise the plan, and a good one is not cached yet.
            JobState::Done | JobState::Failed | JobState::Interrupted if live.is_some() => {
                JobState::Running.name()
            }
            state => state.name(),
        };
        Ok(JobStatus {
            state: state.to_owned(),
            running: live.map(|live| live.progress()).unwrap_or_default(),
            ..JobStatus::of(job, &summary)
        })
    }

    /// Returns the values of a finished step.
    ///
    /// # Errors
    /// If there is no such job, or the step is not done.
    pub fn result(
        &self,
        id: &str,
        step: &str,
        asks: Entrypoint,
    ) -> Result<Map<String, Value>, JobServiceError> {
        Ok(self.open(id, asks)?.result(step)?)
    }
}

fn is_visible(job: &JobFolder, asks: Entrypoint) -> bool {
    let entrypoint = job.info().from.entrypoint.as_deref();
    asks != Entrypoint::Remote || entrypoint == Some(Entrypoint::Remote.name())
}
