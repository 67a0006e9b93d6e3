//! The jobs of one schedule among those of the agent.

use watchkeeper_jobs::run::{JobFolder, JobId};

use super::request::JobServiceError;
use super::service::JobService;

impl JobService {
    /// Returns the job of a schedule with this key, if there is one.
    ///
    /// # Errors
    /// If the folder of the jobs can't be read.
    pub fn scheduled(&self, name: &str, key: &str) -> Result<Option<JobId>, JobServiceError> {
        let jobs = self.of_schedule(name)?.into_iter();
        let mut jobs = jobs.filter(|job| {
            let run = job.info().from.schedule.as_ref();
            run.is_some_and(|run| run.key == key)
        });
        Ok(jobs.next().map(|job| job.info().id.clone()))
    }

    /// The jobs of a schedule, oldest first.
    fn of_schedule(&self, name: &str) -> Result<Vec<JobFolder>, JobServiceError> {
        let jobs = self.0.jobs.ids()?.into_iter();
        let jobs = jobs.filter_map(|id| self.0.jobs.open_exact(&id).ok());
        let of_schedule = jobs.filter(|job| {
            let run = job.info().from.schedule.as_ref();
            run.is_some_and(|run| run.name == name)
        });
        Ok(of_schedule.collect())
    }

    /// Removes all but the last `keep` ended jobs of a schedule, with the files that they wrote.
    pub fn keep_last(&self, name: &str, keep: usize) {
        let jobs = match self.of_schedule(name) {
            Ok(jobs) => jobs,
            Err(error) => return tracing::warn!("jobs: old ones stay: {error}"),
        };
        let ended = jobs
            .into_iter()
            .filter(|job| !self.is_active(&job.info().id));
        let ended: Vec<JobFolder> = ended.collect();
        let surplus = ended.len().saturating_sub(keep);
        for job in ended.into_iter().take(surplus) {
            let id = job.info().id.clone();
            match self.0.jobs.delete_with_outputs(job) {
                Ok(()) => tracing::info!(schedule = name, job = id, "jobs: removed"),
                Err(error) => tracing::warn!(schedule = name, "jobs: {id} stays: {error}"),
            }
        }
    }
}
