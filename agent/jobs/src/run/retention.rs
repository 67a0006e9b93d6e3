//! Bounds of stored jobs: which are removed when there are too many.
//!
//! | state | removed |
//! |---|---|
//! | running or waiting | never, and no bound counts it |
//! | ended or damaged | when it is too old, then the one that ended first, until all bounds hold |
//! | interrupted | likewise, but after all that ended |
//!
//! - The latest that ended and the latest that was interrupted stay, whatever their size and age.
//! - The [`KEPT_AT_ANY_AGE`] latest stay at any age: the clock may be wrong.
//! - Only a job's own folder is removed: its files in an output folder of a user's choice stay.

use std::cmp::Reverse;

use super::error::JobFolderError;
use super::folder::{INFO, JobFolder, Jobs};
use super::info::JobId;
use super::state::{JobState, own_bytes};

/// Latest jobs that are removed for their number and bytes only, not for their age.
const KEPT_AT_ANY_AGE: usize = 10;

/// Bounds of the stored jobs of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    pub max_jobs: usize,
    /// Most bytes in the jobs' own folders.
    pub max_bytes: u64,
    pub max_days: u64,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            max_jobs: 200,
            max_bytes: 10 << 30,
            max_days: 90,
        }
    }
}

/// A stored job, as far as its removal depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    id: JobId,
    state: JobState,
    /// When it ended, else when it was created, or described if it is damaged; milliseconds since
    /// 1970.
    at_ms: i64,
    bytes: u64,
}

/// Jobs to remove, in order.
fn surplus(mut stored: Vec<Stored>, limits: &JobLimits, now_ms: i64) -> Vec<JobId> {
    let day_ms = 86_400_000;
    let max_age_ms = i64::try_from(limits.max_days).map_or(i64::MAX, |n| n.saturating_mul(day_ms));
    stored.retain(|job| job.state != JobState::Running);
    let mut jobs = stored.len();
    let mut bytes: u64 = stored.iter().map(|job| job.bytes).sum();
    let is_open = |job: &Stored| job.state == JobState::Interrupted;
    // IDs sort by creation.
    stored.sort_by(|a, b| (b.at_ms, &b.id).cmp(&(a.at_ms, &a.id)));
    let mut has_latest = [false; 2];
    let mut removable = Vec::new();
    for (newer, job) in stored.into_iter().enumerate() {
        let [ended, open] = &mut has_latest;
        let is_kept = match job.state {
            JobState::Damaged => false,
            JobState::Interrupted => !std::mem::replace(open, true),
            _ => !std::mem::replace(ended, true),
        };
        if is_kept {
            continue;
        }
        let is_old = newer >= KEPT_AT_ANY_AGE && now_ms.saturating_sub(job.at_ms) > max_age_ms;
        removable.push((is_old, job));
    }
    removable.reverse();
    removable.sort_by_key(|(is_old, job)| (Reverse(*is_old), is_open(job), job.at_ms));
    let removed = removable.into_iter().take_while(|(is_old, job)| {
        let is_over = jobs > limits.max_jobs || bytes > limits.max_bytes;
        jobs -= 1;
        bytes -= job.bytes;
        *is_old || is_over
    });
    removed.map(|(_, job)| job.id).collect()
}

impl Jobs {
    /// Removes jobs until the bounds hold. Returns the removed ones.
    ///
    /// A job whose files the disk does not give, or that can't be removed, stays.
    ///
    /// # Errors
    /// If the folder of the jobs can't be read.
    pub fn prune(&self, limits: &JobLimits, now_ms: i64) -> Result<Vec<JobId>, JobFolderError> {
        self.prune_idle(limits, now_ms, &|_| false)
    }

    /// Removes jobs as [`Self::prune`] does, but none of which `is_active` says that it waits or
    /// runs. It is asked again before a job is removed.
    ///
    /// # Errors
    /// Those of [`Self::prune`].
    pub fn prune_idle(
        &self,
        limits: &JobLimits,
        now_ms: i64,
        is_active: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<JobId>, JobFolderError> {
        self.sweep();
        let ids = self.ids()?.into_iter();
        let stored = ids.filter_map(|id| self.stored(&id, is_active));
        let mut removed = surplus(stored.collect(), limits, now_ms);
        removed.retain(|id| !is_active(id) && self.delete(id).is_ok());
        Ok(removed)
    }

    fn stored(&self, id: &str, is_active: &dyn Fn(&str) -> bool) -> Option<Stored> {
        let known = self.open_exact(id).and_then(|job| {
            let summary = job.summary()?;
            let at_ms = summary.ended_ms.unwrap_or(job.info().created_ms);
            Ok((summary.state, at_ms))
        });
        let (state, at_ms) = match known {
            Err(error) if error.is_damage() => (JobState::Damaged, self.described_ms(id)?),
            known => known.ok()?,
        };
        Some(Stored {
            state: match is_active(id) {
                true => JobState::Running,
                false => state,
            },
            at_ms,
            bytes: own_bytes(&self.folder_of(id).ok()?).ok()?,
            id: id.to_owned(),
        })
    }

    /// Returns when the description of a job was last written, in milliseconds since 1970.
    pub fn described_ms(&self, id: &str) -> Option<i64> {
        let info = self.folder_of(id).ok()?.join(INFO);
        let changed = info.metadata().ok()?.modified().ok()?;
        let changed = jiff::Timestamp::try_from(changed).ok()?;
        Some(changed.as_millisecond())
    }

    /// Deletes a job that does not run, and the files that its done steps wrote into its output
    /// folder. All other files there stay.
    ///
    /// # Errors
    /// If it runs, its log can't be read, or the disk refuses.
    pub fn delete_with_outputs(&self, job: &JobFolder) -> Result<(), JobFolderError> {
        let lock = job.lock_exclusive()?;
        job.remove_outputs(&job.log()?)?;
        self.delete_locked(&job.info().id, lock)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY_MS: i64 = 86_400_000;

    fn job() -> impl Strategy<Value = (u8, i64, u64)> {
        (0..5_u8, 0..200 * DAY_MS, 0..100_u64)
    }

    fn store(jobs: Vec<(u8, i64, u64)>) -> Vec<Stored> {
        let state = |n| match n {
            0 => JobState::Running,
            1 => JobState::Interrupted,
            2 => JobState::Failed,
            3 => JobState::Cancelled,
            _ => JobState::Done,
        };
        let jobs = jobs.into_iter().enumerate();
        jobs.map(|(n, (kind, at_ms, bytes))| Stored {
            id: format!("{n}"),
            state: state(kind),
            at_ms,
            bytes,
        })
        .collect()
    }

    #[test]
    fn clock_years_ahead_empties_no_store() {
        let limits = JobLimits::default();
        let now_ms = 4000 * DAY_MS;
        let stored = store((0..12).map(|n| (4, n, 1)).collect());
        assert_eq!(surplus(stored, &limits, now_ms), ["0", "1"]);
    }

    #[test]
    fn latest_result_stays_and_running_job_evicts_nothing() {
        let limits = JobLimits {
            max_bytes: 10,
            ..JobLimits::default()
        };
        let stored = store(vec![(4, 1, 5), (4, 2, 50)]);
        assert_eq!(surplus(stored, &limits, 3), ["0"]);
        let stored = store(vec![(4, 1, 5), (4, 2, 5), (0, 3, 500)]);
        assert_eq!(surplus(stored, &limits, 3), [""; 0]);
    }

    #[test]
    fn damaged_job_does_not_take_the_place_of_the_latest_result() {
        let limits = JobLimits {
            max_jobs: 1,
            ..JobLimits::default()
        };
        let mut stored = store(vec![(4, 1, 5), (4, 2, 5)]);
        stored[1].state = JobState::Damaged;
        assert_eq!(surplus(stored, &limits, 3), ["1"]);
    }

    proptest! {
        #[test]
        fn what_is_kept_keeps_the_bounds_and_is_younger(
            jobs in prop::collection::vec(job(), 0..40),
            max_jobs in 1..20_usize, max_bytes in 0..1500_u64, max_days in 1..150_u64,
        ) {
            let now_ms = 200 * DAY_MS;
            let limits = JobLimits { max_jobs, max_bytes, max_days };
            let stored = store(jobs);
            let removed = surplus(stored.clone(), &limits, now_ms);
            let is_kept = |job: &&Stored| !removed.contains(&job.id);
            let kept: Vec<&Stored> = stored.iter().filter(is_kept).collect();
            for job in &stored {
                prop_assert!(job.state != JobState::Running || is_kept(&job));
                let is_open = |job: &Stored| job.state == JobState::Interrupted;
                let idle = stored.iter().filter(|other| other.state != JobState::Running);
                let newer: Vec<_> = idle.filter(|other| other.at_ms > job.at_ms).collect();
                let is_old = now_ms - job.at_ms > max_days as i64 * DAY_MS
                    && newer.len() >= KEPT_AT_ANY_AGE
                    && newer.iter().any(|other| is_open(other) == is_open(job));
                prop_assert!(!is_old || job.state == JobState::Running || !is_kept(&job));
            }
            let idle = kept.iter().filter(|job| job.state != JobState::Running);
            let (idle, bytes) = idle.fold((0, 0), |(n, bytes), job| (n + 1, bytes + job.bytes));
            // The latest of both kinds stay.
            prop_assert!(idle <= 2 || (idle <= max_jobs && bytes <= max_bytes));
            let of = |jobs: &[&Stored], state: fn(JobState) -> bool| -> Vec<i64> {
                let jobs = jobs.iter().filter(|job| state(job.state));
                jobs.map(|job| job.at_ms).collect()
            };
            let has_ended = |state| !matches!(state, JobState::Running | JobState::Interrupted);
            let all: Vec<&Stored> = stored.iter().collect();
            let latest = |jobs| of(jobs, has_ended).into_iter().max();
            prop_assert_eq!(latest(&all), latest(&kept));
            let gone: Vec<&Stored> = stored.iter().filter(|job| !is_kept(job)).collect();
            let latest_gone = of(&gone, has_ended).into_iter().max().unwrap_or(0);
            let first_kept = of(&kept, has_ended).into_iter().min().unwrap_or(i64::MAX);
            prop_assert!(latest_gone <= first_kept);
        }
    }
}
