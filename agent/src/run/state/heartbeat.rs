//! The heartbeat's schedule and the check in progress.
//!
//! Invariant: the loop never waits for a check or a model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::Zoned;
use jiff::civil::DateTime;
use watchkeeper_assistant::heartbeat_switch::HeartbeatSwitch;
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::clock::{age, wall_now};
use watchkeeper_config::LookConfig;
use watchkeeper_contract::id::{ChannelId, SourceId};
use watchkeeper_contract::time::{TimeQuality, Wall};

use crate::future_slot::take_output;
use crate::heartbeat::asker::{Added, Asker};
use crate::heartbeat::look::next_cameras;
use crate::heartbeat::on_disk::StoredHeartbeat;
use crate::heartbeat::{CheckInput, Finding, State, gather};

/// Delay of the first check after a start: services that start with the box are up by then.
const FIRST_DELAY: Duration = Duration::from_secs(60);

/// How soon a resumed heartbeat is noticed.
const PAUSED_RECHECK: Duration = Duration::from_secs(60);

/// The heartbeat of a running agent.
pub(crate) struct HeartbeatTask {
    interval: Duration,
    due: Instant,
    /// State of the last finished check.
    pub(crate) state: State,
    asker: Arc<Asker>,
    look: Option<LookConfig>,
    /// Cameras that this check looks at, once its findings are reported.
    planned: Option<PlannedLook>,
    switch: HeartbeatSwitch,
    running: Option<BoxFuture<'static, HeartbeatEvent>>,
    /// Looks in progress. They delay no check; a check during them plans none.
    looking: Option<BoxFuture<'static, HeartbeatEvent>>,
    /// Time of the last finished check.
    checked_at: Option<Wall>,
}

/// The looks that follow a check.
struct PlannedLook {
    local: Option<DateTime>,
    cameras: Vec<SourceId>,
}

/// Dependencies of a heartbeat at its start.
pub(crate) struct HeartbeatParts {
    pub(crate) interval: Duration,
    pub(crate) asker: Asker,
    pub(crate) look: Option<LookConfig>,
    pub(crate) switch: HeartbeatSwitch,
}

/// The result of one step of a check.
pub(crate) enum HeartbeatEvent {
    /// The box was checked.
    Checked(Box<CheckInput>),
    /// Findings are ready to be reported.
    Ready(Box<FindingReport>),
    /// Frames were looked at; the last camera, if one had its turn.
    Looked { last: Option<SourceId> },
}

/// Findings of one check, and the state to store once they are reported.
pub(crate) struct FindingReport {
    pub(crate) at: Wall,
    pub(crate) findings: Vec<Finding>,
    pub(crate) added: Option<Added>,
    pub(crate) state: State,
}

/// Facts about the box that only the loop knows.
pub(crate) struct AgentFacts {
    /// Messages that wait for a broker while no session is up.
    pub(crate) undelivered: u64,
    pub(crate) failing_channels: Vec<ChannelId>,
    pub(crate) opinions_without_answer: u64,
}

impl HeartbeatTask {
    /// Resumes the schedule of the last run.
    pub(crate) fn new(
        parts: HeartbeatParts,
        stored: Option<StoredHeartbeat>,
        now: Instant,
    ) -> Self {
        let HeartbeatParts {
            interval,
            asker,
            look,
            switch,
        } = parts;
        let passed = stored.as_ref().map(|stored| age(stored.at, wall_now()));
        let left = passed.map_or(Duration::ZERO, |passed| interval.saturating_sub(passed));
        Self {
            interval,
            checked_at: stored.as_ref().map(|stored| stored.at),
            due: now + left.max(FIRST_DELAY.min(interval)),
            state: stored.map(|stored| stored.state).unwrap_or_default(),
            asker: Arc::new(asker),
            look,
            planned: None,
            switch,
            running: None,
            looking: None,
        }
    }

    /// When the next check is due; `None` while one runs. Looks are not checks.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.running.is_none().then_some(self.due)
    }

    /// Waits for the step in progress. Dropping this future loses nothing.
    pub(crate) async fn next_event(task: &mut Option<Self>) -> HeartbeatEvent {
        match task {
            Some(task) => tokio::select! {
                event = take_output(&mut task.running) => event,
                event = take_output(&mut task.looking) => event,
            },
            None => std::future::pending().await,
        }
    }

    /// Returns whether the heartbeat is paused, and puts off the check if so.
    pub(crate) fn put_off_while_paused(&mut self, now: Instant) -> bool {
        let is_paused = self.switch.status().paused;
        if is_paused {
            self.due = now + PAUSED_RECHECK.min(self.interval);
        }
        is_paused
    }

    /// Adopts the state of a check that is finished at `at`, and returns what to store.
    pub(crate) fn finish_check(&mut self, at: Wall, state: State) -> StoredHeartbeat {
        // Looks may have ended since the check began.
        let looked = self.state.looked.take();
        self.state = state;
        self.state.looked = looked;
        self.checked_at = Some(at);
        let state = self.state.clone();
        StoredHeartbeat { at, state }
    }

    /// Sets the camera that had the last turn, and returns what to store.
    pub(crate) fn finish_looks(&mut self, last: Option<SourceId>) -> Option<StoredHeartbeat> {
        self.state.looked = Some(last?);
        let (at, state) = (self.checked_at?, self.state.clone());
        Some(StoredHeartbeat { at, state })
    }

    /// Decides which frames are looked at after this check: none while looks are in progress.
    pub(crate) fn plan_looks(&mut self, input: &CheckInput) {
        if self.looking.is_some() {
            self.planned = None;
            return;
        }
        let looked = self.state.looked.as_ref();
        let cameras = self
            .look
            .as_ref()
            .map(|look| next_cameras(look, input, looked));
        self.planned = cameras
            .filter(|cameras| !cameras.is_empty())
            .map(|cameras| PlannedLook {
                local: input.local.as_ref().map(Zoned::datetime),
                cameras,
            });
    }

    /// Starts the planned looks; [`HeartbeatEvent::Looked`] follows. Nothing happens without a plan
    /// or while the heartbeat is paused.
    pub(crate) fn start_looking(&mut self, runtime: RuntimeClient) {
        let planned = self.planned.take();
        let Some(plan) = planned.filter(|_| !self.switch.status().paused) else {
            return;
        };
        let looks = Arc::clone(&self.asker).look(runtime, plan.cameras, plan.local);
        self.looking = Some(looks.map(|last| HeartbeatEvent::Looked { last }).boxed());
    }

    /// Starts a check and schedules the next one.
    pub(crate) fn start_check(&mut self, now: Instant, runtime: RuntimeClient, facts: AgentFacts) {
        self.due = now + self.interval;
        self.running = Some(check(runtime, Arc::clone(&self.asker), facts).boxed());
    }

    /// Asks the model about `findings`; [`HeartbeatEvent::Ready`] follows.
    pub(crate) fn start_asking(&mut self, findings: Vec<Finding>, input: CheckInput, state: State) {
        let at = input.at;
        let added = Arc::clone(&self.asker).add(findings.clone(), input);
        let ready = added.map(move |added| {
            HeartbeatEvent::Ready(Box::new(FindingReport {
                at,
                findings,
                added,
                state,
            }))
        });
        self.running = Some(ready.boxed());
    }
}

async fn check(runtime: RuntimeClient, asker: Arc<Asker>, facts: AgentFacts) -> HeartbeatEvent {
    let at = wall_now();
    let local = (at.quality != TimeQuality::Unsynced).then(Zoned::now);
    let runtime = gather::read_runtime(&runtime).await;
    if let Err(error) = &runtime {
        tracing::debug!(%error, "heartbeat: the runtime did not answer");
    }
    HeartbeatEvent::Checked(Box::new(CheckInput {
        at,
        local,
        runtime: runtime.ok(),
        undelivered: facts.undelivered,
        failing_channels: facts.failing_channels,
        budget: asker.budget().await,
        opinions_without_answer: facts.opinions_without_answer,
        observations: Vec::new(),
    }))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_assistant::notes::Notes;
    use watchkeeper_assistant::trace::{AGENT, Trace};
    use watchkeeper_config::MemoryConfig;

    use super::*;

    fn task(folder: &std::path::Path, interval: Duration, now: Instant) -> HeartbeatTask {
        let asker = Asker {
            model: None,
            trace: Trace::new(folder, AGENT),
            notes: Notes::new(folder, &MemoryConfig::default()),
        };
        let parts = HeartbeatParts {
            interval,
            asker,
            look: None,
            switch: HeartbeatSwitch::new(folder, Some(interval)),
        };
        HeartbeatTask::new(parts, None, now)
    }

    #[test]
    fn looks_that_never_end_delay_no_check() {
        let (folder, now) = (tempfile::tempdir().unwrap(), Instant::now());
        let mut task = task(folder.path(), Duration::from_secs(900), now);
        let due = task.deadline().unwrap();
        task.looking = Some(std::future::pending().boxed());
        assert_eq!(task.deadline(), Some(due));
        task.running = Some(std::future::ready(HeartbeatEvent::Looked { last: None }).boxed());
        assert_eq!(task.deadline(), None);
        let mut task = Some(task);
        // The looks keep waiting; the check's step comes through.
        let event = HeartbeatTask::next_event(&mut task).now_or_never();
        assert!(event.is_some());
        assert_eq!(task.unwrap().deadline(), Some(due));
    }

    #[test]
    fn turn_of_looks_outlives_a_check_that_began_before() {
        let (folder, now) = (tempfile::tempdir().unwrap(), Instant::now());
        let mut task = task(folder.path(), Duration::from_secs(900), now);
        let began = task.state.clone();
        let gate = SourceId::new("gate").unwrap();
        let at = wall_now();
        assert_eq!(task.finish_check(at, State::default()).state.looked, None);
        let stored = task.finish_looks(Some(gate.clone())).unwrap();
        assert_eq!(stored.state.looked, Some(gate.clone()));
        assert_eq!(task.finish_check(at, began).state.looked, Some(gate));
        assert!(task.finish_looks(None).is_none());
    }
}
