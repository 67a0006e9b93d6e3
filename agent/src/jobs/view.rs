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

    /// Returns all jobs that `asks` may see, oldest first. Damaged ones, whose user is unknown, are
    /// not seen over TCP.
    ///
    /// # Errors
    /// If the folder of the jobs can't be read.
    pub fn list(&self, asks: Entrypoint) -> Result<Vec<JobStatus>, JobServiceError> {
        let jobs = &self.0.jobs;
        let listed = jobs.ids()?.into_iter().filter_map(|id| {
            let status = match jobs.open_exact(&id) {
                Ok(job) if !is_visible(&job, asks) => return None,
                Ok(job) => self.status_of(&job),
                Err(error) => Err(error.into()),
            };
            match status {
                Err(error) if error.is_damage() && asks != Entrypoint::Remote => {
                    let created_ms = jobs.described_ms(&id)?;
                    Some(JobStatus::damaged(id, created_ms, &error))
                }
                // One that was removed meanwhile is left out.
                status => status.ok(),
            }
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_by_key(|job| job.created_ms);
        Ok(listed)
    }

    /// Returns the status of a job.
    ///
    /// # Errors
    /// If there is no such job, or it can't be read.
    pub fn status(&self, id: &str, asks: Entrypoint) -> Result<JobStatus, JobServiceError> {
        self.status_of(&self.open(id, asks)?)
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
        let mut status = JobStatus::read(job)?;
        status.state = match status.state {
            _ if is_waiting => JobState::Waiting,
            // The language model may yet revise the plan, and a good one is not cached yet.
            JobState::Done | JobState::Failed | JobState::Interrupted if live.is_some() => {
                JobState::Running
            }
            state => state,
        };
        status.running = live.map(|live| live.progress()).unwrap_or_default();
        Ok(status)
    }

    /// Returns the state of the job with this ID; `None` if it is gone, or the disk does not give
    /// it.
    pub(super) fn state(&self, id: &str) -> Option<JobState> {
        let job = self.0.jobs.open_exact(id).map_err(JobServiceError::from);
        match job.and_then(|job| self.status_of(&job)) {
            Ok(status) => Some(status.state),
            Err(error) => error.is_damage().then_some(JobState::Damaged),
        }
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;
    use watchkeeper_jobs::plan::{check, read};
    use watchkeeper_jobs::run::{INFO, LOG};

    use super::*;
    use crate::jobs::testing::service;

    #[test]
    fn damaged_job_is_listed_and_can_be_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let service = service(dir.path());
        let steps = json!([{"name": "list", "tool": "list_pictures", "params": {"folder": "/x"}}]);
        let plan = read(&json!({"name": "x", "steps": steps})).unwrap();
        let plan = check(plan, service.tools()).unwrap();
        let job = service.0.jobs.create(&plan, "", None).unwrap();
        let id = job.info().id.as_str();
        std::fs::write(job.path().join(INFO), "{").unwrap();
        let listed = service.list(Entrypoint::Local).unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].state, &*listed[0].job), (JobState::Damaged, id));
        assert!(service.list(Entrypoint::Remote).unwrap().is_empty());
        assert!(service.delete(id, Entrypoint::Remote).is_err());
        service.delete(id, Entrypoint::Local).unwrap();
        assert!(service.list(Entrypoint::Local).unwrap().is_empty());
    }

    #[test]
    fn job_with_a_damaged_log_keeps_its_description() {
        let dir = tempfile::tempdir().unwrap();
        let service = service(dir.path());
        let steps = json!([{"name": "list", "tool": "list_pictures", "params": {"folder": "/x"}}]);
        let plan = read(&json!({"name": "x", "steps": steps})).unwrap();
        let plan = check(plan, service.tools()).unwrap();
        let job = service.0.jobs.create(&plan, "trip.yaml", None).unwrap();
        let id = job.info().id.as_str();
        std::fs::write(job.path().join(LOG), "no record\n{}\n").unwrap();
        let listed = service.list(Entrypoint::Local).unwrap();
        let [listed] = &listed[..] else {
            panic!("{listed:?}")
        };
        assert_eq!((listed.state, listed.steps), (JobState::Damaged, 1));
        assert_eq!(listed.origin, "trip.yaml");
        assert_eq!(service.state(id), Some(JobState::Damaged));
        let running = std::fs::File::create(job.path().join("lock")).unwrap();
        running.lock().unwrap();
        assert_eq!(service.state(id), Some(JobState::Running));
        drop(running);
    }
}
