//! The agent's event loop: the only place where its cores meet the outside.
//!
//! One turn: take one event, hand it to a core, do what is due, feed the watchdog.
//!
//! - [`start`], [`session_numbers`]: how an agent is opened.
//! - [`state`]: what [`Agent`] owns. `handlers`: what it does about each event.
//! - [`report`], [`watchdog`]: how it reports to the process that started it.
//! - Persist, then speak: nothing is published, confirmed or executed before it is on disk.
//! - The loop waits for the next event only. The store is written and secrets are read on blocking
//!   threads, everything else is a future that the loop polls. In place it reads small records and
//!   files of its own: a message to send, the heartbeat's switch, the broker's password.
//! - A finished turn feeds the watchdog, never a side thread: a stuck loop is noticed.
//! - Without a runtime, the feed reconnects and commands wait. Without a broker, the outbox fills.
//! - Without a disk, health and channels report that from memory, and commands are refused.

mod error;
mod handlers;
mod report;
mod session_numbers;
mod start;
mod state;
mod watchdog;

use std::future::Future;
use std::time::{Duration, Instant};

use watchkeeper_client::{FeedItem, RuntimeClient};
use watchkeeper_store::StoreError;

use crate::evidence::counts::SharedCounts;
use crate::fleet::command::Outcome;
use crate::fleet::mqtt::broker::Keys;
use crate::fleet::mqtt::link::LinkEvent;
use crate::notify::message::Notice;
use crate::second_opinion;
use crate::status::{StatusRequest, StatusRequests};
pub use error::AgentError;
pub use report::Report;
use report::Reports;
pub use start::{OPINION_TIMEOUT, StartError};
use state::channels::Channels;
use state::commands::Commands;
use state::disk_report::DiskReport;
use state::heartbeat::{HeartbeatEvent, HeartbeatTask};
use state::job_notices::JobNotices;
use state::journal::JournalReader;
use state::mqtt::Mqtt;
use state::outbox::{DurableOutbox, WriteResult};
use state::problems::Problems;
use state::runtime_monitor::RuntimeMonitor;
use state::runtime_status::StatusReport;
use state::tasks::{TaskSetup, Tasks};
pub use watchdog::Watchdog;

/// Time that a stopping agent has to deliver what the outbox holds.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Events of a running agent.
enum Event {
    /// A batch was written, or the store failed.
    Stored(WriteResult),
    Link(LinkEvent),
    CommandFinished(Outcome),
    RuntimeStatus(Box<StatusReport>),
    /// The API asks for the agent's status.
    StatusRequested(StatusRequest),
    Heartbeat(HeartbeatEvent),
    JobFailed(Box<Notice>),
    Journal(FeedItem),
    /// The task of a channel ended.
    ChannelFailed(Option<StoreError>),
    /// A deadline passed.
    Timer,
}

/// The agent: made by [`Agent::start`], consumed by [`Agent::run`].
pub struct Agent {
    runtime: RuntimeClient,
    outbox: DurableOutbox,
    journal: JournalReader,
    mqtt: Mqtt,
    commands: Commands,
    /// Absent if no heartbeat is configured.
    heartbeat: Option<HeartbeatTask>,
    channels: Channels,
    monitor: RuntimeMonitor,
    /// Counts of the task of chains.
    chain_counts: SharedCounts,
    opinion_counts: second_opinion::SharedCounts,
    /// Taken by [`Agent::run`].
    tasks: Option<TaskSetup>,
    status_requests: StatusRequests,
    problems: Problems,
    job_notices: JobNotices,
    watchdog: Watchdog,
    reports: Reports,
    disk: DiskReport,
    is_stopping: bool,
}

impl Agent {
    /// Writes a [`Report`] per line to standard output while it runs, as `watchkeeper run` wants
    /// it.
    #[must_use]
    pub(crate) fn with_reports(mut self) -> Self {
        self.reports = Reports::enabled();
        if let Some(broker) = &mut self.mqtt.broker {
            broker.keys = Keys::RUN;
        }
        self
    }

    /// Clears at exit everything retained at the broker, except the agent's state.
    #[must_use]
    pub(crate) fn clearing_at_exit(mut self) -> Self {
        self.mqtt.clears_at_exit = true;
        self
    }

    /// Runs until `stop` resolves, then shuts down in order.
    ///
    /// # Errors
    /// [`AgentError`] when the agent must be restarted.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), AgentError> {
        tokio::pin!(stop);
        // Continues the commands that the last run left open.
        self.drain_board()?;
        self.run_due()?;
        let mut tasks = self.spawn_tasks().await?;
        if self.outbox.has_staged() {
            self.request_change()?;
        }
        self.watchdog.ready();
        loop {
            let event = tokio::select! {
                biased;
                () = &mut stop => break,
                error = died(&mut tasks) => return Err(error),
                event = self.next_event() => event,
            };
            self.handle(event)?;
            self.run_due()?;
            self.watchdog.feed(Instant::now());
        }
        self.watchdog.stopping();
        let tasks_stopped = async {
            if let Some(tasks) = tasks {
                tasks.stop().await;
            }
        };
        let ((), shut_down) = tokio::join!(tasks_stopped, self.shut_down());
        shut_down
    }

    async fn spawn_tasks(&mut self) -> Result<Option<Tasks>, AgentError> {
        let store = self.outbox.store();
        self.channels.spawn(&self.runtime, store).await?;
        let (sender, notices) = (self.status_requests.sender(), self.job_notices.sender());
        let setup = self.tasks.take();
        setup
            .map(|setup| setup.spawn(&self.runtime, sender, notices))
            .transpose()
    }

    /// Waits for the next event. Dropping this future loses nothing.
    async fn next_event(&mut self) -> Event {
        let deadline = tokio::time::Instant::from_std(self.deadline());
        let wants_records = self.outbox.core().wants_more();
        tokio::select! {
            biased;
            stored = self.outbox.written() => Event::Stored(stored),
            event = self.mqtt.next_event() => Event::Link(event),
            outcome = self.commands.finished() => Event::CommandFinished(outcome),
            report = self.monitor.report() => Event::RuntimeStatus(report),
            request = self.status_requests.next() => Event::StatusRequested(request),
            event = HeartbeatTask::next_event(&mut self.heartbeat) => Event::Heartbeat(event),
            notice = self.job_notices.next() => Event::JobFailed(Box::new(notice)),
            item = self.journal.next(wants_records) => Event::Journal(item),
            error = self.channels.failed() => Event::ChannelFailed(error),
            () = tokio::time::sleep_until(deadline) => Event::Timer,
        }
    }

    fn deadline(&self) -> Instant {
        let outbox = self.outbox.core().deadline();
        // While stopping, only the outbox is due: other overdue work would only wake the loop.
        if self.is_stopping {
            return outbox.unwrap_or(Instant::now() + FLUSH_TIMEOUT);
        }
        let heartbeat = self.heartbeat.as_ref().and_then(HeartbeatTask::deadline);
        let optional = [outbox, self.mqtt.deadline(), heartbeat];
        let optional = optional.into_iter().flatten();
        let earliest = self.monitor.deadline().min(self.commands.deadline());
        optional.fold(earliest.min(self.watchdog.deadline()), Instant::min)
    }

    fn handle(&mut self, event: Event) -> Result<(), AgentError> {
        match event {
            Event::Stored(stored) => self.on_stored(stored),
            Event::Link(event) => self.on_link(event),
            Event::CommandFinished(outcome) => self.on_command_finished(outcome),
            // A stopping agent publishes `stopped`; other states are outdated by then.
            Event::RuntimeStatus(_) if self.is_stopping => Ok(()),
            Event::RuntimeStatus(report) => self.on_runtime_status(&report),
            Event::StatusRequested(request) => {
                self.on_status_request(request);
                Ok(())
            }
            Event::Heartbeat(event) => self.on_heartbeat(event),
            Event::JobFailed(notice) => {
                self.channels.stage(*notice, &mut self.outbox);
                self.request_change()
            }
            Event::Journal(item) => self.on_journal(item),
            Event::ChannelFailed(Some(error)) => Err(error.into()),
            Event::ChannelFailed(None) => Err(AgentError::Channel),
            Event::Timer => Ok(()),
        }
    }

    /// Does what is due by now, and what the last event made possible.
    fn run_due(&mut self) -> Result<(), AgentError> {
        let now = Instant::now();
        self.tick_outbox(now)?;
        if self.commands.take_due(now, self.monitor.is_due(now)) {
            self.prune_ledger()?;
        }
        if self.monitor.is_due(now) {
            let has_broker = self.mqtt.broker.is_some();
            self.monitor.start_query(now, &self.runtime, has_broker);
        }
        if self.outbox.has_staged() {
            self.request_change()?;
        }
        self.start_check_when_due(now);
        self.connect_when_due(now)?;
        self.reports.write_progress(self.outbox.core(), now);
        self.report_disk(now);
        self.flush_retained()?;
        self.flush_replies()
    }
}

/// Waits until a task ends unexpectedly; pending forever without tasks.
async fn died(tasks: &mut Option<Tasks>) -> AgentError {
    match tasks {
        Some(tasks) => tasks.died().await,
        None => std::future::pending().await,
    }
}
