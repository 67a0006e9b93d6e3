//! Starts the jobs of schedules: the clock, the journal and the file around `due` and `trigger`.
//!
//! - A job is stored with its schedule and due time before the schedule's state is. After a crash
//!   in between it is found and not started again.
//! - A place in the pool is waited for, and a disk that refuses; an invalid plan is not tried again
//!   until the next time.
//! - A schedule starts no job while its last one runs or waits.
//! - The state is stored before a record of the journal counts as considered.
//! - A notice is durable before the state that makes it is: a crash in between repeats it, with
//!   the same id.
//! - What a schedule did is stored before the next one is looked at: a stop loses no started job.

use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use watchkeeper_assistant::trace::AGENT;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::wall_now;
use watchkeeper_config::{EventFilter, ScheduleConfig, ScheduledWork, Trigger};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;
use watchkeeper_http::closed;
use watchkeeper_jobs::run::{JobFolderError, JobState, ScheduledRun};

use super::request::{JobRequest, JobServiceError};
use super::schedule_file::{LastRun, ScheduleFile, StoredSchedule, StoredSchedules};
use super::service::JobService;
use super::status::ScheduleStatus;
use super::trigger::{self, TriggerEvent};
use super::{due::CronState, scheduled_plan};
use crate::background::BackgroundThread;
use crate::journal_tail::JournalTail;
use crate::notify::message::Notice;

/// Longest pause between two looks at the clock: it may be set.
const TICK: Duration = Duration::from_secs(20);
/// Pause after a report of a running job, which comes five times a second.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// Longest wait of one round for notices to be stored. A disk that refuses them refuses the state
/// too.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the scheduler needs to start.
#[derive(Debug)]
pub(crate) struct SchedulerSetup {
    pub schedules: Vec<ScheduleConfig>,
    /// Folder of the state.
    pub home: PathBuf,
    pub runtime: RuntimeClient,
}

/// A notice that a job failed, or that none was started.
#[derive(Debug)]
pub(crate) struct JobNotice {
    pub notice: Notice,
    /// Answered once the notice is durable.
    pub stored: oneshot::Sender<()>,
}

/// Starts the thread. Failed jobs are sent to `notices`. Once closed it starts no further job.
///
/// # Errors
/// When the system refuses to create it.
pub(crate) fn spawn(
    setup: SchedulerSetup,
    jobs: JobService,
    notices: mpsc::Sender<JobNotice>,
) -> std::io::Result<BackgroundThread> {
    BackgroundThread::spawn("schedules", |closing| run(setup, jobs, notices, closing))
}

async fn run(
    setup: SchedulerSetup,
    jobs: JobService,
    notices: mpsc::Sender<JobNotice>,
    closing: watch::Receiver<bool>,
) {
    // Here and not in the agent's loop: it reads many files.
    jobs.resume_interrupted();
    let file = ScheduleFile::new(&setup.home);
    let stored = file.read();
    let has_events = |schedule: &ScheduleConfig| matches!(schedule.trigger, Trigger::On(_));
    let mut journal = (setup.schedules.iter().any(has_events))
        .then(|| JournalTail::new("schedules", setup.runtime, stored.cursor.map(EventSeq)));
    let mut advances = jobs.subscribe();
    let mut clock = ScheduleClock::new(setup.schedules, stored, file, jobs);
    while !*closing.borrow() {
        advances.borrow_and_update();
        tokio::select! {
            biased;
            () = closed(closing.clone()) => return,
            is_settled = settle(&mut clock, &notices) => if !is_settled { return },
        }
        let record = async {
            match &mut journal {
                Some(journal) => {
                    let event = journal.next().await;
                    (event, journal.cursor().0)
                }
                None => std::future::pending().await,
            }
        };
        let pause = clock.pause(Timestamp::now());
        tokio::select! {
            biased;
            () = closed(closing.clone()) => return,
            (event, cursor) = record => clock.take(event.as_deref(), cursor),
            () = next_advance(&mut advances) => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Deals with what has ended and starts what is due, schedule by schedule. Returns false if the
/// loop has ended: the next agent reports what was not.
async fn settle(clock: &mut ScheduleClock, notices: &mpsc::Sender<JobNotice>) -> bool {
    let (now, deadline) = (Timestamp::now(), Instant::now() + STORE_TIMEOUT);
    for place in 0..clock.schedules.len() {
        if let Some(failed) = clock.settle_ended(place)
            && !report(notices, failed, deadline).await
        {
            return false;
        }
        clock.save();
        if let Some(not_started) = clock.start_when_due(place, now)
            && !report(notices, not_started, deadline).await
        {
            return false;
        }
        clock.save();
    }
    clock.jobs.set_schedules(clock.statuses(now));
    true
}

/// Hands `notice` to the loop and waits until it is durable, until `deadline` at most. Returns
/// false if the loop has ended.
async fn report(notices: &mpsc::Sender<JobNotice>, notice: Notice, deadline: Instant) -> bool {
    let (stored, is_stored) = oneshot::channel();
    if notices.send(JobNotice { notice, stored }).await.is_err() {
        return false;
    }
    match tokio::time::timeout_at(deadline, is_stored).await {
        Ok(stored) => stored.is_ok(),
        Err(_) => {
            tracing::warn!("jobs: the notice of a failed job is not stored; a crash may lose it");
            true
        }
    }
}

/// Waits until something happens to a job, and for more that follows at once.
async fn next_advance(advances: &mut watch::Receiver<u64>) {
    advances.changed().await.ok();
    tokio::time::sleep(DEBOUNCE).await;
}

/// The schedules with their state.
struct ScheduleClock {
    schedules: Vec<ScheduleConfig>,
    stored: StoredSchedules,
    /// State as of the last write.
    written: StoredSchedules,
    file: ScheduleFile,
    jobs: JobService,
    /// Why each schedule does not work.
    troubles: Vec<Option<String>>,
    zone: TimeZone,
}

impl ScheduleClock {
    fn new(
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
        let check = |schedule: &ScheduleConfig| {
            let faults = scheduled_plan::check(schedule, jobs.tools()).err()?;
            Some(format!("schedule {}: {}", schedule.name, faults.join("; ")))
        };
        let troubles: Vec<_> = schedules.iter().map(check).collect();
        for trouble in troubles.iter().flatten() {
            tracing::error!("jobs: {trouble}");
        }
        Self {
            schedules,
            stored: known,
            written: stored,
            file,
            jobs,
            troubles,
            zone: TimeZone::system(),
        }
    }

    /// Takes the next record, if there is one, and the cursor behind it.
    fn take(&mut self, event: Option<&Event>, cursor: u64) {
        for schedule in &self.schedules {
            if let Trigger::On(filter) = &schedule.trigger
                && let Some(event) = event
                && let Some(event) = trigger::matching(filter, event)
                && let Some(stored) = self.stored.schedules.get_mut(&schedule.name)
            {
                stored.trigger.push(event);
            }
        }
        self.stored.cursor = Some(cursor);
    }

    /// Stores the state if it changed; a failed write is repeated at the next call.
    fn save(&mut self) {
        if self.stored != self.written {
            match self.file.write(&self.stored) {
                Ok(()) => self.written = self.stored.clone(),
                Err(error) => tracing::error!(%error, "jobs: schedules can't be stored"),
            }
        }
    }

    /// Starts a job of a schedule if it is due and its last one has ended. Returns a notice if that
    /// fails.
    fn start_when_due(&mut self, place: usize, now: Timestamp) -> Option<Notice> {
        let schedule = self.schedules.get(place)?;
        let stored = self.stored.schedules.get(&schedule.name)?;
        if stored.last.as_ref().is_some_and(|last| !last.is_settled) {
            return None;
        }
        let mut next = stored.clone();
        let name = schedule.name.clone();
        let Some((due, event)) = poll(schedule, &mut next, now, &self.zone) else {
            // Missed times are settled too.
            self.stored.schedules.insert(name, next);
            return None;
        };
        let error = match self.start(schedule, due, event.as_ref()) {
            Ok(job) => {
                tracing::info!(schedule = name, job, "jobs: started");
                next.last = Some(LastRun {
                    due,
                    job,
                    is_settled: false,
                });
                self.stored.schedules.insert(name, next);
                self.set_trouble(place, None);
                return None;
            }
            Err(error) => error,
        };
        let (notifies, is_retried) = (schedule.notify_failure, is_retried(&error));
        if !is_retried {
            tracing::error!(schedule = name, "jobs: {error}");
            self.stored.schedules.insert(name.clone(), next);
        }
        let is_new = self.set_trouble(place, Some(error.to_string())) || !is_retried;
        let is_full = matches!(error, JobServiceError::Full(_));
        (notifies && is_new && !is_full).then(|| {
            let (again, kind) = match is_retried {
                true => ("; it is tried again", "waits"),
                false => ("", "not-started"),
            };
            let run = key(due, event.as_ref()).replace(' ', "-");
            let id = format!("{name}-{run}-{kind}");
            let reason = format!("Schedule {name} started no job: {error}{again}");
            notice(id, &name, None, reason)
        })
    }

    /// Returns whether this trouble is another one than before.
    fn set_trouble(&mut self, place: usize, why: Option<String>) -> bool {
        let name = self
            .schedules
            .get(place)
            .map(|schedule| schedule.name.clone());
        let (Some(slot), Some(name)) = (self.troubles.get_mut(place), name) else {
            return false;
        };
        let trouble = why.map(|why| format!("schedule {name}: {why}"));
        std::mem::replace(slot, trouble.clone()) != trouble
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
        let local = due.to_zoned(self.zone.clone());
        let plan = scheduled_plan::load(&schedule.work, local.datetime(), self.jobs.tools());
        let mut plan = plan.map_err(JobServiceError::Invalid)?;
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
            channel: AGENT,
            schedule: Some(ScheduledRun {
                name: schedule.name.clone(),
                key,
            }),
            planned: None,
        };
        self.jobs.submit(request).map(|(job, _)| job)
    }

    /// Deals with the end of a schedule's last job: old jobs are removed, a failure is reported.
    fn settle_ended(&mut self, place: usize) -> Option<Notice> {
        let schedule = self.schedules.get(place)?;
        let last = self
            .stored
            .schedules
            .get_mut(&schedule.name)?
            .last
            .as_mut()?;
        if last.is_settled || self.jobs.is_active(&last.job) {
            return None;
        }
        let state = self.jobs.state(&last.job);
        if matches!(state, Some(JobState::Running | JobState::Waiting)) {
            return None;
        }
        last.is_settled = true;
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
    fn pause(&self, now: Timestamp) -> Duration {
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
            .next_due(now, |time| times.next_after(time, &self.zone))
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
                trouble: trouble.clone(),
            }
        });
        statuses.collect()
    }
}

/// Takes what is due of a schedule at `now`: the time, and the event that makes it due.
fn poll(
    schedule: &ScheduleConfig,
    stored: &mut StoredSchedule,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<(Timestamp, Option<TriggerEvent>)> {
    match &schedule.trigger {
        Trigger::Cron { times, catch_up } => {
            let after = |time| times.next_after(time, zone);
            let due = stored.cron.poll(now, *catch_up, after)?;
            Some((due, None))
        }
        Trigger::On(EventFilter { min_interval, .. }) => {
            let interval = SignedDuration::try_from(*min_interval).unwrap_or_default();
            let event = stored.trigger.poll(now, interval)?;
            Some((now, Some(event)))
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
            | JobServiceError::Folder(JobFolderError::Io { .. })
    )
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
        notify: Vec::new(),
        reason,
        camera: None,
        by_model: None,
        payload: payload.to_string().into_bytes(),
    }
}

#[cfg(test)]
mod tests;
