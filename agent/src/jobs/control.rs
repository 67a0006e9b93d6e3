//! What people do with jobs of the agent: cancel, resume and delete them.
//!
//! - A cancellation is on disk before it is confirmed: no restart resumes the job then.
//! - No job is removed while it is put back into the queue.

use jiff::Timestamp;
use serde_json::json;
use watchkeeper_assistant::permissions::Entrypoint;
use watchkeeper_jobs::run::{Ended, JobFolder, JobId, JobState};

use super::job_trace;
use super::request::JobServiceError;
use super::service::JobService;

impl JobService {
    /// Asks a job that runs or waits to end. Returns its ID, and false if it does neither.
    ///
    /// # Errors
    /// If there is no such job, or its end can't be recorded.
    pub fn cancel(&self, id: &str, asks: Entrypoint) -> Result<(JobId, bool), JobServiceError> {
        let job = self.open(id, asks)?;
        let id = &job.info().id;
        if !self.is_active(id) {
            return Ok((id.clone(), false));
        }
        job.record_cancel()?;
        let (was_waiting, is_live) = {
            let mut state = self.0.state.lock();
            (state.pool.remove_waiting(id), state.live.contains_key(id))
        };
        if was_waiting {
            job.end_unrun(Ended::Cancelled)?;
        }
        let trace = self.trace(Some(asks.name()));
        job_trace::requested(&trace, id, Some(job.info()), "cancel_requested");
        self.advance();
        Ok((id.clone(), was_waiting || is_live))
    }

    /// Queues a job that failed, was cancelled or was interrupted.
    ///
    /// # Errors
    /// If it is active or done, too many wait, or the audit log refuses.
    pub fn resume(&self, id: &str, asks: Entrypoint) -> Result<JobId, JobServiceError> {
        let id = self.queue_again(id, asks)?;
        self.advance();
        self.dispatch();
        Ok(id)
    }

    fn queue_again(&self, id: &str, asks: Entrypoint) -> Result<JobId, JobServiceError> {
        let _removing = self.0.removing.lock();
        let job = self.open(id, asks)?;
        let id = job.info().id.clone();
        if self.is_active(&id) {
            return Err(JobServiceError::Active(id));
        }
        if job.summary()?.state == JobState::Done {
            return Err(JobServiceError::Done(id));
        }
        self.0.state.lock().pool.reserve()?;
        let details = json!({"sentence": format!("job {id} goes on"), "job": id});
        let trace = self.trace(Some(asks.name()));
        let noted = trace
            .note(Timestamp::now(), "job_resumed", details)
            .map_err(JobServiceError::Audit)
            .and_then(|()| {
                job.withdraw_cancel()?;
                // Before the answer: a restart resumes it then.
                Ok(job.reopen()?)
            });
        let mut state = self.0.state.lock();
        match noted {
            Ok(()) => {
                state.pool.push(id.clone());
                Ok(id)
            }
            Err(error) => {
                state.pool.release();
                Err(error)
            }
        }
    }

    /// Deletes a job that neither runs nor waits.
    ///
    /// # Errors
    /// If it is active, there is no such job, or the disk refuses.
    pub fn delete(&self, id: &str, asks: Entrypoint) -> Result<JobId, JobServiceError> {
        let _removing = self.0.removing.lock();
        let job = match self.open(id, asks) {
            Err(error) if error.is_damage() && asks != Entrypoint::Remote => None,
            opened => Some(opened?),
        };
        let id = self.0.jobs.whole_id(id)?;
        if self.is_active(&id) {
            return Err(JobServiceError::Active(id));
        }
        self.0.jobs.delete(&id)?;
        let info = job.as_ref().map(JobFolder::info);
        job_trace::requested(&self.trace(Some(asks.name())), &id, info, "deleted");
        Ok(id)
    }
}
