//! What is due and started: schedules with their state, without thread and journal.
//!
//! - A job is stored with its schedule and due time before the schedule's state is. After a crash
//!   in between it is found and not started again.
//! - A start waits for a place in the pool, a disk that refuses, the names of the runtime and the
//!   file of a plan. An invalid plan is not tried again until the next time.
//! - A time at which no job was started is logged, and reported if a start was tried.
//! - While a schedule does not work, its plan is checked again every [`TICK`].
//! - A schedule starts no job while its last one runs or waits.
//! - Times are those of the system's time zone at each look: a change of it needs no restart.
//! - The cursor is stored with what a record asks for; else every [`SAVE_EVERY`] records.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;
use watchkeeper_client::clock::wall_now;
use watchkeeper_config::{EventFilter, ScheduleConfig, ScheduledWork, Trigger};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::rule::Severity;
use watchkeeper_jobs::run::{JobFolderError, JobState, ScheduledRun};

use super::due::{CronState, CronTime};
use super::request::{JobRequest, JobServiceError};
use super::schedule_file::{LastRun, ScheduleFile, StoredSchedule, StoredSchedules};
use super::scheduled_plan;
use super::service::JobService;
use super::status::ScheduleStatus;
use super::trigger::{self, TriggerEvent};
use crate::journal_tail::SAVE_EVERY;
use crate::notify::message::Notice;

/// Longest pause between two looks at the clock: it may be set.
pub(super) const TICK: Duration = Duration::from_secs(20);

/// The schedules with their state.
#[derive(Debug)]
pub(super) struct ScheduleClock {
    schedules: Vec<ScheduleConfig>,
    stored: StoredSchedules,
    /// State as of the last write.
    written: StoredSchedules,
    /// Number of the last record that was considered.
    cursor: Option<u64>,
    file: ScheduleFile,
    jobs: JobService,
    /// Why each schedule does not work.
    troubles: Vec<Option<Trouble>>,
    /// Time of the last check of the plans; `None` before the first, which checks all of them.
    checked: Option<Instant>,
}

/// Why a schedule does not work.
#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    sentence: String,
    /// Whether a start is tried again at the next look.
    is_retried: bool,
}

fn plan_trouble(schedule: &ScheduleConfig, jobs: &JobService) -> Option<Trouble> {
    let faults = scheduled_plan::check(schedule, jobs.tools()).err()?;
    Some(Trouble {
        sentence: format!("schedule {}: {}", schedule.name, faults.join("; ")),
        is_retried: false,
    })
}

impl ScheduleClock {
    pub(super) fn new(
        schedules: Vec<ScheduleConfig>,
        stored: StoredSchedules,
        file: ScheduleFile,
        jobs: JobService,
    ) -> Self {
        let mut known = stored.clone();
        known
            .schedules
            .retain(|name, _| schedules.iter().any(|schedule| schedule.name == *name));
        for schedule in &schedules {
            let new = || StoredSchedule {
                cron: CronState::new(Timestamp::now()),
                trigger: Default::default(),
                last: None,
            };
            known
                .schedules
                .entry(schedule.name.clone())
                .or_insert_with(new);
        }
        Self {
            troubles: schedules.iter().map(|_| None).collect(),
            schedules,
            stored: known,
            cursor: stored.cursor,
            written: stored,
            file,
            jobs,
            checked: None,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.schedules.len()
    }

    /// Number of the last record that was considered.
    pub(super) const fn cursor(&self) -> Option<u64> {
        self.cursor
    }

    /// Publishes the status of each schedule before interrupted jobs are queued again; the states
    /// of those are left out.
    pub(super) fn publish_before_resume(&self, now: Timestamp) {
        let mut statuses = self.statuses(now);
        for status in &mut statuses {
            status.state = status.state.filter(|state| *state != JobState::Interrupted);
        }
        self.jobs.set_schedules(statuses);
    }

    pub(super) fn publish(&self, now: Timestamp) {
        self.jobs.set_schedules(self.statuses(now));
    }

    /// Checks the plans: all of them once, then those of schedules that do not work, every [`TICK`]
    /// at most.
    pub(super) fn check_plans(&mut self, now: Instant) {
        let is_early = |checked| now.duration_since(checked) < TICK;
        if self.checked.is_some_and(is_early) {
            return;
        }
        let is_first = self.checked.replace(now).is_none();
        for (schedule, trouble) in self.schedules.iter().zip(&mut self.troubles) {
            if !is_first && trouble.as_ref().is_none_or(|trouble| trouble.is_retried) {
                continue;
            }
            *trouble = plan_trouble(schedule, &self.jobs);
            match trouble {
                Some(trouble) if is_first => tracing::error!("jobs: {}", trouble.sentence),
                None if !is_first => {
                    tracing::info!(schedule = schedule.name, "jobs: the schedule works again");
                }
                _ => {}
            }
        }
    }

    /// Takes the next record and the cursor behind it; returns whether there is something to start
    /// or to store. Without a record the cursor moved to another place of the journal, or to the
    /// start of a new one.
    pub(super) fn take(&mut self, event: Option<&Event>, cursor: u64) -> bool {
        let mut is_matched = false;
        for schedule in &self.schedules {
            if let Trigger::On(filter) = &schedule.trigger
                && let Some(event) = event
                && let Some(event) = trigger::matching(filter, event)
                && let Some(stored) = self.stored.schedules.get_mut(&schedule.name)
            {
                stored.trigger.push(event);
                is_matched = true;
            }
        }
        self.cursor = Some(cursor);
        let written = self.written.cursor;
        let is_far = written.is_none_or(|written| cursor.abs_diff(written) >= SAVE_EVERY);
        let is_cursor_due = event.is_none() || is_far;
        if is_cursor_due {
            self.stored.cursor = self.cursor;
        }
        is_matched || is_cursor_due
    }

    /// Stores the state if it changed; a failed write is repeated at the next call.
    pub(super) fn save(&mut self) {
        if self.stored != self.written {
            self.stored.cursor = self.cursor;
            match self.file.write(&self.stored) {
                Ok(()) => self.written = self.stored.clone(),
                Err(error) => tracing::error!(%error, "jobs: schedules can't be stored"),
            }
        }
    }

    /// Stores the cursor at the stop: the next start reads no record again, perhaps with other
    /// schedules. With another change that is not stored, the cursor stays behind it.
    pub(super) fn save_cursor(&mut self) {
        if self.stored == self.written {
            self.stored.cursor = self.cursor;
            self.save();
        }
    }

    /// Starts a job of a schedule if it is due and its last one has ended. Returns a notice if that
    /// fails.
    pub(super) fn start_when_due(&mut self, place: usize, now: Timestamp) -> Option<Notice> {
        let schedule = self.schedules.get(place)?;
        let stored = self.stored.schedules.get(&schedule.name)?;
        if stored.last.as_ref().is_some_and(|last| !last.is_finished) {
            return None;
        }
        let mut next = stored.clone();
        let name = schedule.name.clone();
        let polled = poll(schedule, &mut next, now, &TimeZone::system());
        let (due, event) = match polled {
            Some(Polled::Due(due, event)) => (due, event),
            Some(Polled::Missed(time)) => {
                self.stored.schedules.insert(name, next);
                return self.miss(place, time);
            }
            None => {
                self.stored.schedules.insert(name, next);
                return None;
            }
        };
        let error = match self.start(schedule, due, event.as_ref()) {
            Ok(job) => {
                tracing::info!(schedule = name, job, "jobs: started");
                next.last = Some(LastRun {
                    due,
                    job,
                    is_finished: false,
                });
                self.stored.schedules.insert(name, next);
                self.set_trouble(place, None);
                return None;
            }
            Err(error) => error,
        };
        let (notifies, is_retried) = (schedule.notify_failure, is_retried(&error));
        if !is_retried {
            self.stored.schedules.insert(name.clone(), next);
        }
        let trouble = Trouble {
            sentence: format!("schedule {name}: {error}"),
            is_retried,
        };
        let is_new = self.set_trouble(place, Some(trouble)) || !is_retried;
        if is_new {
            tracing::error!(schedule = name, is_retried, "jobs: not started: {error}");
        }
        // A place is mostly free before the time is given up.
        let is_full = matches!(error, JobServiceError::Full(_));
        (notifies && is_new && !is_full).then(|| {
            let (again, kind) = match is_retried {
                true => ("; it is tried again", "waits"),
                false => ("", "not-started"),
            };
            let reason = format!("Schedule {name} started no job: {error}{again}");
            not_started(&name, &key(due, event.as_ref()), kind, reason)
        })
    }

    /// Gives up a time at which no job was started. Returns a notice if a start was tried.
    fn miss(&mut self, place: usize, time: Timestamp) -> Option<Notice> {
        let schedule = self.schedules.get(place)?;
        let name = &schedule.name;
        tracing::warn!(schedule = name, %time, "jobs: missed: no job was started in time");
        let trouble = self.troubles.get_mut(place)?.as_mut()?;
        if !std::mem::replace(&mut trouble.is_retried, false) || !schedule.notify_failure {
            return None;
        }
        let why = &trouble.sentence;
        let reason = format!("Schedule {name} started no job for {time}, and gives it up: {why}");
        Some(not_started(name, &time.to_string(), "missed", reason))
    }

    /// Returns whether this trouble is another one than before.
    fn set_trouble(&mut self, place: usize, trouble: Option<Trouble>) -> bool {
        let slot = self.troubles.get_mut(place);
        slot.is_some_and(|slot| {
            let is_new = *slot != trouble;
            *slot = trouble;
            is_new
        })
    }

    fn start(
        &self,
        schedule: &ScheduleConfig,
        due: Timestamp,
        event: Option<&TriggerEvent>,
    ) -> Result<String, JobServiceError> {
        let key = key(due, event);
        if let Some(job) = self.jobs.scheduled(&schedule.name, &key)? {
            return Ok(job);
        }
        let local = due.to_zoned(TimeZone::system());
        let tools = self.jobs.tools();
        let mut plan = scheduled_plan::load_due(&schedule.work, local.datetime(), tools)?;
        if let Some(event) = event {
            scheduled_plan::set_event(&mut plan, event);
        }
        let output = schedule.output.as_ref().map(|pattern| {
            // The configuration has tried the pattern.
            jiff::fmt::strtime::format(pattern, &local).unwrap_or_else(|_| pattern.clone())
        });
        let origin = match &schedule.work {
            ScheduledWork::Plan(file) => file.display().to_string(),
            ScheduledWork::Request(text) => text.clone(),
        };
        let request = JobRequest {
            plan,
            origin,
            output: output.map(Into::into),
            entrypoint: None,
            schedule: Some(ScheduledRun {
                name: schedule.name.clone(),
                key,
            }),
            planned: None,
        };
        self.jobs.submit(request).map(|(job, _)| job)
    }

    /// Deals with the end of a schedule's last job: old jobs are removed, a failure is reported.
    pub(super) fn finish_ended(&mut self, place: usize) -> Option<Notice> {
        let schedule = self.schedules.get(place)?;
        let last = self
            .stored
            .schedules
            .get_mut(&schedule.name)?
            .last
            .as_mut()?;
        if last.is_finished || self.jobs.is_active(&last.job) {
            return None;
        }
        let state = self.jobs.state(&last.job);
        if matches!(state, Some(JobState::Running | JobState::Waiting)) {
            return None;
        }
        last.is_finished = true;
        if let Some(keep) = schedule.keep_last {
            self.jobs.keep_last(&schedule.name, keep);
        }
        (schedule.notify_failure && state.is_some_and(JobState::has_failed)).then(|| {
            let (name, job) = (&schedule.name, &last.job);
            let reason = format!(
                "The job of schedule {name} failed. See `watchkeeper job show {job} --agent`."
            );
            notice(format!("{job}-failed"), name, Some(job.as_str()), reason)
        })
    }

    /// Time until the next look.
    pub(super) fn pause(&self, now: Timestamp) -> Duration {
        let due = self
            .schedules
            .iter()
            .filter_map(|schedule| self.next_due(schedule, now));
        let until = due.min().map(|due| due.duration_since(now));
        let until = until.and_then(|until| Duration::try_from(until).ok());
        // What is due and could not start waits for the next tick.
        until
            .filter(|until| !until.is_zero())
            .map_or(TICK, |until| until.min(TICK))
    }

    fn next_due(&self, schedule: &ScheduleConfig, now: Timestamp) -> Option<Timestamp> {
        let Trigger::Cron { times, .. } = &schedule.trigger else {
            return None;
        };
        let stored = self.stored.schedules.get(&schedule.name)?;
        stored
            .cron
            .next_due(now, |time| times.next_after(time, &TimeZone::system()))
    }

    fn statuses(&self, now: Timestamp) -> Vec<ScheduleStatus> {
        let schedules = self.schedules.iter().zip(&self.troubles);
        let statuses = schedules.map(|(schedule, trouble)| {
            let stored = self.stored.schedules.get(&schedule.name);
            let last = stored.and_then(|stored| stored.last.as_ref());
            let known = last.and_then(|last| Some((last.job.clone(), self.jobs.state(&last.job)?)));
            let (job, state) = known.unzip();
            ScheduleStatus {
                name: schedule.name.clone(),
                next: self.next_due(schedule, now),
                last: last.map(|last| last.due),
                job,
                state,
                trouble: trouble.as_ref().map(|trouble| trouble.sentence.clone()),
            }
        });
        statuses.collect()
    }
}

enum Polled {
    /// The time, and the event that makes it due.
    Due(Timestamp, Option<TriggerEvent>),
    Missed(Timestamp),
}

/// Takes what is due of a schedule at `now`, or was missed.
fn poll(
    schedule: &ScheduleConfig,
    stored: &mut StoredSchedule,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<Polled> {
    match &schedule.trigger {
        Trigger::Cron { times, catch_up } => {
            let after = |time| times.next_after(time, zone);
            Some(match stored.cron.poll(now, *catch_up, after)? {
                CronTime::Due(time) => Polled::Due(time, None),
                CronTime::Missed(time) => Polled::Missed(time),
            })
        }
        Trigger::On(EventFilter { min_interval, .. }) => {
            let interval = SignedDuration::try_from(*min_interval).unwrap_or_default();
            let event = stored.trigger.poll(now, interval)?;
            Some(Polled::Due(now, Some(event)))
        }
    }
}

/// Name of one run of a schedule. A new journal begins with the same numbers again, hence the time.
fn key(due: Timestamp, event: Option<&TriggerEvent>) -> String {
    match event {
        Some(event) => format!("event {} of {}", event.seq, event.at_ms),
        None => due.to_string(),
    }
}

/// Whether a start is tried again at the next look.
const fn is_retried(error: &JobServiceError) -> bool {
    matches!(
        error,
        JobServiceError::Full(_)
            | JobServiceError::Audit(_)
            | JobServiceError::Unavailable(_)
            | JobServiceError::Folder(JobFolderError::Io { .. })
    )
}

/// A notice that no job of a schedule was started; `run` is the key of the run.
fn not_started(schedule: &str, run: &str, kind: &str, reason: String) -> Notice {
    let id = format!("{schedule}-{}-{kind}", run.replace(' ', "-"));
    notice(id, schedule, None, reason)
}

/// A notice that a job failed, or that none was started. A repetition after a crash has the same
/// `id`.
fn notice(id: String, schedule: &str, job: Option<&str>, reason: String) -> Notice {
    let at = wall_now();
    let payload = json!({"kind": "job_failed", "id": id, "at": at, "schedule": schedule,
        "job": job, "reason": reason});
    Notice {
        id,
        at,
        severity: Severity::Warning,
        reason,
        camera: None,
        by_model: None,
        payload: payload.to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests;
