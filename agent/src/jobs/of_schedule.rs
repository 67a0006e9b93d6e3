//! The jobs of one schedule among those of the agent.
//!
//! - A run of a schedule has a key, so a crash between its creation and its record repeats none.
//! - Of the ended ones a number of done and of failed jobs is kept; a job that runs or waits stays.

use watchkeeper_jobs::run::{JobFolder, JobId, JobState};

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
        let mut of_schedule: Vec<_> = of_schedule.collect();
        of_schedule.sort_by_key(|job| job.info().created_ms);
        Ok(of_schedule)
    }

    /// Removes all but the last `keep` done jobs of a schedule, with the files that they wrote.
    /// Removes also all but the last `keep` that failed or were cancelled.
    pub fn keep_last(&self, name: &str, keep: usize) {
        let _removing = self.0.removing.lock();
        let jobs = match self.of_schedule(name) {
            Ok(jobs) => jobs,
            Err(error) => return tracing::warn!("jobs: old ones stay: {error}"),
        };
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for job in jobs {
            match job.summary().map(|summary| summary.state) {
                _ if self.is_active(&job.info().id) => {}
                Ok(JobState::Done) => done.push(job),
                Ok(JobState::Failed | JobState::Cancelled) => failed.push(job),
                Ok(JobState::Waiting | JobState::Running | JobState::Interrupted) => {}
                // The bounds of all jobs remove a damaged one.
                Ok(JobState::Damaged) | Err(_) => {}
            }
        }
        for ended in [done, failed] {
            let surplus = ended.len().saturating_sub(keep);
            for job in ended.into_iter().take(surplus) {
                let id = job.info().id.clone();
                match self.0.jobs.delete_with_outputs(&job) {
                    Ok(()) => tracing::info!(schedule = name, job = id, "jobs: removed"),
                    Err(error) => tracing::warn!(schedule = name, "jobs: {id} stays: {error}"),
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use watchkeeper_jobs::plan::{check, read};
    use watchkeeper_jobs::run::{Ended, Provenance, ScheduledRun};

    use super::*;
    use crate::jobs::testing::service;

    /// A job of the schedule `nightly` with its output folder below `home`.
    fn job(service: &JobService, home: &Path, key: &str) -> JobFolder {
        let steps = json!([{"name": "list", "tool": "list_pictures", "params": {"folder": "/x"}}]);
        let plan = read(&json!({"name": "x", "steps": steps})).unwrap();
        let plan = check(plan, service.tools()).unwrap();
        let (name, key) = ("nightly".to_owned(), key.to_owned());
        let output = home.join(&key);
        let from = Provenance {
            schedule: Some(ScheduledRun { name, key }),
            ..Provenance::default()
        };
        let jobs = &service.0.jobs;
        jobs.create_from(&plan, "", Some(&output), from).unwrap()
    }

    #[test]
    fn failed_jobs_do_not_push_out_good_ones() {
        let dir = tempfile::tempdir().unwrap();
        let service = service(dir.path());
        let ends = [
            ("good1", Ended::Done),
            ("good2", Ended::Done),
            ("bad1", Ended::Failed),
            ("bad2", Ended::Failed),
            ("bad3", Ended::Cancelled),
        ];
        for (key, how) in ends {
            job(&service, dir.path(), key).end_unrun(how).unwrap();
        }
        job(&service, dir.path(), "open");
        service.keep_last("nightly", 1);
        let left = service.of_schedule("nightly").unwrap();
        let run = |job: &JobFolder| job.info().from.schedule.clone().unwrap().key;
        let keys: Vec<String> = left.iter().map(run).collect();
        assert_eq!(keys, ["good2", "bad3", "open"]);
        assert!(!dir.path().join("good1").exists() && dir.path().join("good2").exists());
    }
}
