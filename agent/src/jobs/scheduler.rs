//! Starts the jobs of schedules: the thread with the journal and the notices.
//!
//! - The state is stored before a record of the journal counts as considered.
//! - A notice is durable before the state that makes it is: a crash in between repeats it, with
//!   the same id.
//! - Nothing starts while the clock is known to be wrong; what was due then is judged later.
//! - What a schedule did is stored before the next one is looked at: a stop loses no started job.
//! - Not here: what is due and started (`schedule_clock`).

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::wall_now;
use watchkeeper_config::{ScheduleConfig, Trigger};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_http::closed;

use super::schedule_clock::{ScheduleClock, TICK};
use super::schedule_file::ScheduleFile;
use super::service::JobService;
use super::status::ScheduleStatus;
use crate::background::BackgroundThread;
use crate::journal_tail::JournalTail;
use crate::notify::message::Notice;

/// Pause after a report of a running job, which comes five times a second.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// Longest wait of one round for notices to be stored. A disk that refuses them refuses the state
/// too.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// Dependencies of the scheduler at its start.
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

/// Starts the thread; every schedule has a status from here on. Failed jobs are sent to `notices`.
/// Once closed it starts no further job.
///
/// # Errors
/// When the system refuses to create it.
pub(crate) fn spawn(
    setup: SchedulerSetup,
    jobs: JobService,
    notices: mpsc::Sender<JobNotice>,
) -> std::io::Result<BackgroundThread> {
    let opened = open(&setup, &jobs);
    BackgroundThread::spawn("schedules", |closing| {
        run(setup, jobs, opened, notices, closing)
    })
}

/// Reads the state and publishes it. `None` while the disk does not give it: no schedule works.
fn open(setup: &SchedulerSetup, jobs: &JobService) -> Option<ScheduleClock> {
    let file = ScheduleFile::new(&setup.home);
    match file.read() {
        Ok(stored) => {
            let schedules = setup.schedules.clone();
            let clock = ScheduleClock::new(schedules, stored, file, jobs.clone());
            clock.publish_before_resume(Timestamp::now());
            Some(clock)
        }
        Err(error) => {
            let why = format!("the state of the schedules can't be read: {error}; check the disk");
            tracing::error!("jobs: {why}");
            let waiting = setup.schedules.iter();
            let waiting = waiting.map(|one| ScheduleStatus::without_state(&one.name, &why));
            jobs.set_schedules(waiting.collect());
            None
        }
    }
}

async fn run(
    setup: SchedulerSetup,
    jobs: JobService,
    mut opened: Option<ScheduleClock>,
    notices: mpsc::Sender<JobNotice>,
    closing: watch::Receiver<bool>,
) {
    // Here and not in the agent's loop: it reads many files.
    jobs.resume_interrupted();
    let mut clock = loop {
        if let Some(clock) = opened {
            break clock;
        }
        tokio::select! {
            biased;
            () = closed(closing.clone()) => return,
            () = tokio::time::sleep(TICK) => {}
        }
        opened = open(&setup, &jobs);
    };
    let has_events = |schedule: &ScheduleConfig| matches!(schedule.trigger, Trigger::On(_));
    let mut journal = (setup.schedules.iter().any(has_events))
        .then(|| JournalTail::new("schedules", setup.runtime, clock.cursor().map(EventSeq)));
    let advances = jobs.subscribe();
    // Before the plans are checked: that may wait for the runtime.
    clock.publish(Timestamp::now());
    tokio::select! {
        biased;
        () = closed(closing) => {}
        () = follow(&mut clock, &mut journal, advances, &notices) => {}
    }
    clock.save_cursor();
}

/// Deals with records, times and the ends of jobs until the agent's loop has ended.
async fn follow(
    clock: &mut ScheduleClock,
    journal: &mut Option<JournalTail>,
    mut advances: watch::Receiver<u64>,
    notices: &mpsc::Sender<JobNotice>,
) {
    loop {
        advances.borrow_and_update();
        if !run_due(clock, notices).await {
            return;
        }
        let mut pause = pin!(tokio::time::sleep(clock.pause(Timestamp::now())));
        let mut advance = pin!(next_advance(&mut advances));
        loop {
            tokio::select! {
                biased;
                () = &mut advance => break,
                () = &mut pause => break,
                (event, cursor) = next_record(journal) => {
                    if clock.take(event.as_deref(), cursor) {
                        break;
                    }
                }
            }
        }
    }
}

/// The next record of the journal with the cursor behind it; pending forever without a journal.
async fn next_record(journal: &mut Option<JournalTail>) -> (Option<Box<Event>>, u64) {
    match journal {
        Some(journal) => {
            let event = journal.next().await;
            (event, journal.cursor().0)
        }
        None => std::future::pending().await,
    }
}

/// Deals with what has ended and starts what is due, schedule by schedule. Returns false if the
/// loop has ended: the next agent reports what was not.
async fn run_due(clock: &mut ScheduleClock, notices: &mpsc::Sender<JobNotice>) -> bool {
    let (now, deadline) = (Timestamp::now(), Instant::now() + STORE_TIMEOUT);
    clock.check_plans(Instant::now());
    for place in 0..clock.len() {
        if let Some(failed) = clock.finish_ended(place)
            && !report(notices, failed, deadline).await
        {
            return false;
        }
        clock.save();
        // A box that starts in 1970 would take each time since for missed, or start years of them.
        if wall_now().quality != TimeQuality::Unsynced
            && let Some(not_started) = clock.start_when_due(place, now)
            && !report(notices, not_started, deadline).await
        {
            return false;
        }
        clock.save();
    }
    clock.publish(now);
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

#[cfg(test)]
mod tests;
