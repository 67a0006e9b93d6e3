//! The loop: the one place where the agent's cores meet the world.
//!
//! Everything that can happen is one `Event`; a turn is: take one event, hand it to the cores, drain what they want
//! done, wait for the next event or the smallest deadline. The systemd watchdog is fed by a finished turn, never by a
//! side thread, so a stuck loop is noticed.
//!
//! Invariant: the loop never waits for anything but the next event. The store is written on a blocking thread, one change
//! at a time; the runtime is asked by futures that the loop polls; the broker is driven by [`Link::next`].
//!
//! Map: `start` opens what is needed, `status` asks the runtime how it is and `presence` tells it with the rest of the box, `shown` is what a broker may
//! hold of each source, `commands` and `opinions` do what those cores want done, `unheard` follows the journal for opinions where there is no broker, `heartbeat` has the box looked at, `standing` answers how things stand to whoever asks over the API, `report` tells the program that started the agent what became
//! of the events, `watchdog` feeds systemd's.
//!
//! What may be down, and what happens then: the runtime – the feed reconnects, a command waits as long as [`watchkeeper_client::Deadlines`] says, its health says
//! `down`; the broker – the outbox collects; both – nothing, until they are back.

mod agent_status;
mod commands;
mod heartbeat;
mod journal_tail;
mod opinions;
mod presence;
mod report;
mod retained_sources;
mod runtime_status;
mod start;
mod watchdog;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use watchkeeper_contract::event::Event as Record;
use watchkeeper_contract::id::{BoxId, EventId, EventSeq, SiteId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{Batch, Op, Store, StoreError};

use heartbeat::{Beat, Heart, beaten};
use journal_tail::{Unheard, unheard};
use opinions::Answered;
pub use report::Report;
use report::Reports;
use runtime_status::StatusReport;
pub use start::{ApiSetup, HeartbeatSetup, OpinionSetup, Setup, StartError};
pub use watchdog::Watchdog;

use crate::api;
use crate::connectors::service::Service;
use crate::connectors::{self, Performer};
use crate::fleet::command::{self, CommandBoard, CommandKey, Outcome, Refusals, Replies};
use crate::fleet::mqtt::broker::Broker;
use crate::fleet::mqtt::command_subscription::Hearing;
use crate::fleet::mqtt::link::{Link, LinkEvent, Refused, Token};
use crate::fleet::mqtt::payload::{
    self, LossMessage, Presence, TooLarge, event_draft, newer_draft, outage_alarm,
};
use crate::fleet::mqtt::session::{self, Session};
use crate::fleet::mqtt::{Inbound, Retained, Topics};
use crate::fleet::outbox::{self, Change, Class, Content, Draft, Outbox, OutboxId, TelemetryRing};
use crate::log_limiter::Seldom;
use crate::notify::{
    self,
    service::{Owing, Service as Telling},
};
use crate::second_opinion::{self, Asker};
use crate::status::{Questions, Standing};
use retained_sources::ShownSources;
use watchkeeper_client::clock::wall_now;
use watchkeeper_client::{EventFeed, FeedItem, JournalRecord, RuntimeClient};

/// How often the runtime is asked how it is. Telemetry goes out at its own, longer interval.
const STATUS_EVERY: Duration = Duration::from_secs(2);
/// How long a stopping agent goes on delivering what it has.
const FLUSH_PATIENCE: Duration = Duration::from_secs(3);
/// How long it waits for the acknowledgement of its last word, and for the store.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(2);
/// How often the ledger of commands is looked through for what is too old.
const LEDGER_EVERY: Duration = Duration::from_secs(3600);
/// How long a full disk is waited for before the write is tried again.
const DISK_RETRY: Duration = Duration::from_secs(1);

/// Why the agent can't go on. Going on would be a lie: the service manager starts it again.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// What was to be kept can't be stored or read.
    #[error("the outbox can't be kept: {0}")]
    Store(#[from] StoreError),
    /// The thread that writes the store died.
    #[error("the thread that writes the store died: {0}")]
    Writer(#[from] JoinError),
    /// The task that does what workflows want done died.
    #[error("the task that does what workflows want done outside died")]
    Sinks,
    /// The task that tells people of events died.
    #[error("the task that tells people of events died")]
    Channel,
    /// The thread of the API died.
    #[error("the thread that serves the agent's API died")]
    Api,
    /// It can't be made.
    #[error("the thread that serves the agent's API can't be made: {0}")]
    ApiThread(std::io::Error),
}

/// Everything that can happen to the agent while it runs.
enum Event {
    /// The journal gave something.
    Feed(FeedItem),
    /// The journal gave a record that no broker hears.
    Unheard(Box<Record>),
    /// A change is on stable storage, or can't be.
    Stored(Result<Result<u64, StoreError>, JoinError>),
    /// The broker said something.
    Link(LinkEvent),
    /// A command came to its end.
    Command(Outcome),
    /// A model gave its opinion, or did not.
    Opinion(Answered),
    /// The heartbeat looked, or has its word.
    Beat(Beat),
    /// The runtime said how it is.
    Status(Box<StatusReport>),
    /// The task of a channel ended.
    Silent(Option<StoreError>),
    /// Somebody asks how things stand.
    Asked(oneshot::Sender<Standing>),
    /// A deadline passed.
    Timer,
}

/// Whose record is stored with a change of the outbox: who is told when it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rider {
    /// A command's, with its version.
    Command(CommandKey, u32),
    /// Of an event that an opinion is wanted on, with its version.
    Opinion(EventId, u32),
    /// Of something that channels owe.
    Own(Owing),
}

/// Who this is.
#[derive(Debug, Clone)]
struct Identity {
    site: SiteId,
    box_id: BoxId,
    boot_id: String,
}

/// The agent. Made by [`Agent::start`], lives in [`Agent::run`].
pub struct Agent {
    identity: Identity,
    topics: Topics,
    broker: Option<Broker>,
    runtime: RuntimeClient,
    store: Arc<dyn Store>,

    outbox: Outbox,
    board: CommandBoard,
    session: Session,
    retained: Retained,
    replies: Replies,
    refusals: Refusals,
    hearing: Hearing,
    ring: TelemetryRing,

    feed: Option<EventFeed>,
    /// The journal where there is no broker and opinions are asked for.
    unheard: Option<Unheard>,
    feed_is_lost: bool,
    link: Option<Link>,
    /// Why there is no session, as it was told last.
    link_lost_by: Option<String>,
    writing: Option<JoinHandle<Result<u64, StoreError>>>,
    executing: Option<BoxFuture<'static, Outcome>>,
    asking: Option<BoxFuture<'static, Box<StatusReport>>>,

    opinions: second_opinion::Queue,
    /// Absent where no model is to be asked.
    asker: Option<Arc<Asker>>,
    opining: Option<BoxFuture<'static, Answered>>,
    /// What came of them.
    opined: second_opinion::Counts,
    /// Absent where none is configured.
    heart: Option<Heart>,
    questions: Questions,
    /// Serves the API, from the first turn of the loop on.
    api: Option<api::service::Setup>,

    /// Does what workflows want done outside, from the first turn of the loop on.
    sinks: Option<Performer>,
    /// The channels by which people are told, and the tasks that do it once the agent runs.
    channels: notify::service::Setup,
    telling: Option<Telling>,
    /// What was last said of the channels that don't work.
    channel_troubles: Vec<String>,
    sink_limits: connectors::queue::Limits,

    /// Changes to other keyspaces that go out with the outbox's next change.
    riders: Vec<Op>,
    /// Whose `riders` are among those.
    riding: Vec<Rider>,
    /// Whose are in the change that is being written.
    boarded: Vec<Rider>,
    /// Requests that were not taken, told once in a while.
    grumbles: Seldom,

    session_began: Wall,
    sources: ShownSources,
    runtime_version: Option<String>,
    /// Since when the runtime does not answer, in milliseconds since 1970.
    runtime_silent_since: Option<i64>,
    telemetry_every: Duration,
    status_due: Instant,
    telemetry_due: Instant,
    ledger_due: Instant,
    watchdog: Watchdog,
    is_stopping: bool,
    /// Whether nothing but its state is to stay at the broker when it stops.
    clears_at_end: bool,
    farewell_acked: bool,
    reports: Reports,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("topics", &self.topics)
            .field("outbox", &self.outbox.stats())
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Makes it tell on standard output what becomes of the events, as [`Report`]s.
    #[must_use]
    pub fn with_reports(mut self) -> Self {
        self.reports = Reports::wanted();
        self
    }

    /// Makes it clear at its end what it retained at the broker, but for its state.
    #[must_use]
    pub fn clearing_at_end(mut self) -> Self {
        self.clears_at_end = true;
        self
    }

    /// Runs until `stop` comes, then says goodbye.
    ///
    /// # Errors
    /// [`AgentError`] when going on would be a lie.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), AgentError> {
        tokio::pin!(stop);
        // What the ledger of the last run left to do.
        self.drain_board()?;
        self.settle()?;
        let (runtime, limits) = (self.runtime.clone(), self.sink_limits);
        let sinks = self.sinks.take();
        let mut sinks = sinks.map(|sinks| Service::spawn(runtime, sinks, limits));
        let telling = Telling::spawn(&self.channels, &self.runtime, &self.store)?;
        self.telling = Some(telling);
        let asks = self.questions.asks();
        let api = self
            .api
            .take()
            .map(|api| api::service::Service::spawn(api, asks));
        let mut api = api.transpose().map_err(AgentError::ApiThread)?;
        self.watchdog.ready();
        loop {
            let event = tokio::select! {
                biased;
                () = &mut stop => break,
                () = died(&mut sinks) => return Err(AgentError::Sinks),
                () = api_died(&mut api) => return Err(AgentError::Api),
                event = self.next_event() => event,
            };
            self.handle(event)?;
            self.settle()?;
            self.watchdog.fed(Instant::now());
        }
        self.watchdog.stopping();
        let ended = async {
            if let Some(sinks) = sinks {
                sinks.stop().await;
            }
        };
        let api_ended = async {
            if let Some(api) = api {
                api.stop().await;
            }
        };
        let ((), (), farewell) = tokio::join!(ended, api_ended, self.farewell());
        farewell
    }

    /// The next thing that happens. Dropping this future loses nothing.
    async fn next_event(&mut self) -> Event {
        let deadline = tokio::time::Instant::from_std(self.deadline());
        let wants_records = self.outbox.wants_more();
        tokio::select! {
            biased;
            stored = finished(&mut self.writing) => Event::Stored(stored),
            said = heard(&mut self.link) => Event::Link(said),
            outcome = finished(&mut self.executing) => Event::Command(outcome),
            report = finished(&mut self.asking) => Event::Status(report),
            question = self.questions.next() => Event::Asked(question),
            answered = finished(&mut self.opining) => Event::Opinion(answered),
            beat = beaten(&mut self.heart) => Event::Beat(beat),
            item = read(&mut self.feed, wants_records) => Event::Feed(item),
            record = unheard(&mut self.unheard, wants_records) => Event::Unheard(record),
            broken = fell_silent(&mut self.telling) => Event::Silent(broken),
            () = tokio::time::sleep_until(deadline) => Event::Timer,
        }
    }

    fn deadline(&self) -> Instant {
        // While it takes leave nothing else is due, and what is overdue would only wake it for nothing.
        if self.is_stopping {
            let latest = Instant::now() + FLUSH_PATIENCE;
            return self.outbox.deadline().unwrap_or(latest);
        }
        let session = self.broker.as_ref().and_then(|_| self.session.deadline());
        let opinions = self.opinions.deadline();
        [
            session,
            self.outbox.deadline(),
            self.hearing.deadline(),
            opinions,
            self.heart.as_ref().and_then(Heart::deadline),
        ]
        .into_iter()
        .flatten()
        .chain([self.status_due, self.ledger_due, self.watchdog.due()])
        .min()
        .unwrap_or(self.status_due)
    }

    fn handle(&mut self, event: Event) -> Result<(), AgentError> {
        match event {
            Event::Feed(item) => self.on_feed(item)?,
            Event::Unheard(record) => self.on_unheard(&record)?,
            Event::Stored(stored) => {
                let batch = stored??;
                for rider in std::mem::take(&mut self.boarded) {
                    match rider {
                        Rider::Command(key, version) => {
                            let saved = command::Input::Saved { key, version };
                            self.board.handle(wall_now(), saved);
                        }
                        Rider::Opinion(id, version) => {
                            let saved = second_opinion::queue::Input::Saved { id, version };
                            self.opinions.handle(Instant::now(), saved);
                        }
                        Rider::Own(owing) => {
                            if let Some(telling) = &self.telling {
                                telling.tell(owing);
                            }
                        }
                    }
                }
                self.tell_outbox(outbox::Input::Stored { batch })?;
                self.drain_board()?;
            }
            Event::Link(said) => self.on_link(said)?,
            Event::Command(Outcome { key, result }) => {
                let input = command::Input::Finished {
                    key,
                    outcome: result,
                };
                self.board.handle(wall_now(), input);
                self.drain_board()?;
            }
            Event::Opinion(answered) => self.on_answer(answered),
            Event::Beat(beat) => self.on_beat(beat)?,
            // A stopping agent says `stopped`; how the rest was a moment ago is nobody's business any more.
            Event::Status(_) if self.is_stopping => {}
            Event::Status(report) => self.on_status(&report)?,
            Event::Silent(Some(error)) => return Err(error.into()),
            Event::Silent(None) => return Err(AgentError::Channel),
            // Who went away does not want to know any more.
            Event::Asked(question) => drop(question.send(self.standing())),
            Event::Timer => {}
        }
        Ok(())
    }

    /// What is due by now, and what has become possible.
    fn settle(&mut self) -> Result<(), AgentError> {
        let now = Instant::now();
        self.tick_outbox(now)?;
        let may_know_time = self.board.waits_for_clock() && self.status_due <= now;
        if self.ledger_due <= now || may_know_time {
            self.ledger_due = now + LEDGER_EVERY;
            self.board.handle(wall_now(), command::Input::Tick);
            self.drain_board()?;
            self.age_refusals()?;
        }
        self.listen_when_due(now)?;
        if self.status_due <= now {
            self.status_due = now + STATUS_EVERY;
            if self.broker.is_some() && self.asking.is_none() {
                let question = runtime_status::Question {
                    cursor: self.outbox.cursor(),
                    // Results are large, and only telemetry tells them.
                    with_pipelines: self.telemetry_due <= now,
                };
                self.asking = Some(runtime_status::ask(self.runtime.clone(), question).boxed());
            }
        }
        self.settle_opinions(now)?;
        self.beat_when_due(now);
        self.connect_when_due(now)?;
        self.reports.progress(&self.outbox, now);
        self.flush_retained()?;
        self.flush_replies()
    }

    fn tick_outbox(&mut self, now: Instant) -> Result<(), AgentError> {
        if self.outbox.deadline().is_some_and(|due| due <= now) {
            self.tell_outbox(outbox::Input::Tick)?;
        }
        Ok(())
    }

    fn connect_when_due(&mut self, now: Instant) -> Result<(), AgentError> {
        let Some(broker) = &self.broker else {
            return Ok(());
        };
        self.session.handle(now, session::Input::Tick);
        while let Some(session::Output::Connect { session }) = self.session.poll() {
            tracing::debug!(session, host = %broker.host, port = broker.port, "connecting to the broker");
            self.session_began = wall_now();
            let will = self.will(session);
            match Link::open(broker, will) {
                Ok(link) => self.link = Some(link),
                // The file may be mended while the agent runs: an attempt that failed, like any other.
                Err(error) => return self.lose_link(&error.to_string()),
            }
        }
        Ok(())
    }

    fn on_feed(&mut self, item: FeedItem) -> Result<(), AgentError> {
        match item {
            FeedItem::Connected { after } => {
                tracing::info!(after = after.0, "following the journal");
                self.feed_is_lost = false;
                self.status_due = Instant::now();
                Ok(())
            }
            FeedItem::Record(JournalRecord::Known(record)) => self.on_record(&record),
            FeedItem::Record(JournalRecord::Newer(record)) => {
                tracing::info!(
                    seq = record.seq.0,
                    kind = record.kind,
                    "an event in words of a newer runtime is told as it came"
                );
                self.tell_record(record.seq, newer_draft(&record))
            }
            FeedItem::Record(JournalRecord::Unreadable { seq, cause }) => {
                tracing::warn!(seq = seq.0, cause, "journal record can't be read");
                self.tell_outbox(outbox::Input::Unreadable { seq })
            }
            FeedItem::Lost { error, retry_in } => {
                // The first of a row; a runtime that is away would fill the log otherwise.
                if !self.feed_is_lost {
                    tracing::warn!(%error, ?retry_in, "journal lost, trying again");
                }
                self.feed_is_lost = true;
                Ok(())
            }
        }
    }

    fn on_record(&mut self, record: &Record) -> Result<(), AgentError> {
        let is_old = self
            .outbox
            .cursor()
            .is_some_and(|cursor| record.seq <= cursor);
        if is_old {
            return Ok(());
        }
        if let Some((source, alarm)) = outage_alarm(record) {
            let text = alarm.as_ref().map(payload::encode).unwrap_or_default();
            self.sources.set_alarm(source, text.clone());
            // Stored with the record that tells of it.
            self.riders.push(self.sources.rider(source));
            self.retained.set(self.topics.outage_alarm(source), text);
            self.status_due = Instant::now();
        }
        self.consider(record)?;
        self.tell_record(record.seq, event_draft(record))
    }

    /// The record of number `seq` goes into the outbox, as a message or as a loss.
    fn tell_record(
        &mut self,
        seq: EventSeq,
        draft: Result<Draft, TooLarge>,
    ) -> Result<(), AgentError> {
        let input = match draft {
            Ok(draft) => outbox::Input::Record { seq, draft },
            Err(error) => {
                tracing::warn!(%error, "event can't be told");
                outbox::Input::Unreadable { seq }
            }
        };
        self.tell_outbox(input)
    }

    fn on_link(&mut self, said: LinkEvent) -> Result<(), AgentError> {
        match said {
            LinkEvent::Up => {
                self.session
                    .handle(Instant::now(), session::Input::Connected);
                let Some(session) = self.session.up() else {
                    return Ok(());
                };
                tracing::info!(session, "connected to the broker");
                self.link_lost_by = None;
                self.reports.say(&Report::Connected);
                self.greet(session)?;
                self.tell_outbox(outbox::Input::LinkUp { session })
            }
            LinkEvent::Acked(Token::Entry(id)) => match self.session.up() {
                Some(session) => self.tell_outbox(outbox::Input::Acked { session, id }),
                None => Ok(()),
            },
            LinkEvent::Acked(Token::Farewell) => {
                self.farewell_acked = true;
                Ok(())
            }
            LinkEvent::Acked(Token::Retained(ticket)) => match self.retained.acked(ticket) {
                Some(topic) => self.forget_cleared(&topic),
                None => Ok(()),
            },
            LinkEvent::Acked(Token::Reply) => {
                self.replies.acked();
                Ok(())
            }
            LinkEvent::SubscriptionRefused => {
                tracing::error!(
                    "the broker refused a subscription: no commands will come; check its ACL"
                );
                Ok(())
            }
            LinkEvent::Message { topic, payload } => self.on_message(&topic, &payload),
            LinkEvent::Down { reason, is_flooded } => {
                if self.hearing.end_session(Instant::now(), is_flooded) {
                    tracing::error!("{}", self.why_deaf());
                    self.tell_own_health();
                }
                self.lose_link(&reason)
            }
        }
    }

    /// Takes requests again once it is time, in the session that stands.
    fn listen_when_due(&mut self, now: Instant) -> Result<(), AgentError> {
        if !self.hearing.wake(now) {
            return Ok(());
        }
        tracing::info!("requests are taken again");
        self.tell_own_health();
        let filter = self.topics.requests();
        match &self.link {
            Some(link) if self.session.up().is_some() => match link.subscribe(filter.clone()) {
                Ok(()) => Ok(()),
                Err(error) => self.refused(&filter, error),
            },
            _ => Ok(()),
        }
    }

    /// What becomes of the session when a message that is not in the outbox was refused.
    pub(super) fn refused(&mut self, topic: &str, refused: Refused) -> Result<(), AgentError> {
        match refused {
            Refused::QueueFull => self.lose_link(&refused.to_string()),
            Refused::TooLarge { .. } => {
                tracing::error!(topic, %refused, "message not sent");
                Ok(())
            }
        }
    }

    fn on_message(&mut self, topic: &str, payload: &[u8]) -> Result<(), AgentError> {
        match self.topics.parse(topic) {
            Some(Inbound::Request {
                operation,
                id,
                raw_operation,
            }) => self.on_request(operation, raw_operation, id, payload),
            Some(Inbound::State) => {
                self.mend_state(payload);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn lose_link(&mut self, reason: &str) -> Result<(), AgentError> {
        self.link = None;
        // The first of a row that says the same; a broker that is away would fill the log otherwise.
        if self.is_stopping || self.link_lost_by.as_deref() == Some(reason) {
            tracing::debug!(reason, "still no session with the broker");
        } else {
            tracing::warn!(
                reason,
                "no session with the broker; what is to be told waits in the outbox"
            );
            self.reports.say(&Report::Unreachable {
                reason: reason.to_owned(),
            });
        }
        self.link_lost_by = Some(reason.to_owned());
        self.session.handle(Instant::now(), session::Input::Lost);
        self.tell_outbox(outbox::Input::LinkDown)
    }

    /// Hands one input to the outbox and does what it wants done.
    fn tell_outbox(&mut self, input: outbox::Input) -> Result<(), AgentError> {
        self.outbox.handle(Instant::now(), input);
        while let Some(output) = self.outbox.poll() {
            match output {
                outbox::Output::Persist(change) => self.write(&change),
                outbox::Output::Publish { session, id, late } => {
                    self.publish_entry(session, id, late)?;
                }
                outbox::Output::LinkStuck { session } => {
                    if self.session.up() == Some(session) {
                        self.lose_link("the broker does not acknowledge")?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores `op` soon, whatever else there is to store.
    fn carry(&mut self, op: Op) -> Result<(), AgentError> {
        self.riders.push(op);
        self.tell_outbox(outbox::Input::Carry)
    }

    /// Begins to write a change, with everything that rides along.
    fn write(&mut self, change: &Change) {
        let mut batch = outbox::store::batch_of(change);
        let must_sync = change.must_sync() || !self.riders.is_empty();
        // Nothing waits for the refusals: they make no change durable.
        for op in self.riders.drain(..).chain(self.refusals.riders()) {
            batch.push(op);
        }
        self.boarded = std::mem::take(&mut self.riding);
        let (store, number) = (Arc::clone(&self.store), change.batch);
        self.writing = Some(tokio::task::spawn_blocking(move || {
            write_until_done(&*store, &batch, must_sync).map(|()| number)
        }));
    }

    fn publish_entry(&mut self, session: u64, id: OutboxId, late: bool) -> Result<(), AgentError> {
        // The session may have ended since the outbox said so; the entry waits again then.
        if self.session.up() != Some(session) {
            return Ok(());
        }
        let Some(content) = outbox::store::load(&*self.store, id)? else {
            return self.tell_outbox(outbox::Input::Damaged { id });
        };
        let draft = match content {
            Content::Message(draft) => draft,
            Content::Loss(loss) => Draft {
                class: Class::Assured,
                severity: Severity::Critical,
                topic: Topics::event_below(None, "loss"),
                retain: false,
                seq: None,
                payload: payload::encode(&LossMessage::of(id, &loss, wall_now())),
            },
        };
        // Reports of commands are states, not stories: they are never late.
        let text = if late && draft.seq.is_some() {
            payload::mark_late(draft.payload)
        } else {
            draft.payload
        };
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let topic = self.topics.at(&draft.topic);
        match link.publish_tracked(Token::Entry(id), topic, text, draft.retain) {
            Ok(()) => Ok(()),
            Err(error @ Refused::QueueFull) => self.lose_link(&error.to_string()),
            Err(error @ Refused::TooLarge { .. }) => {
                // It would end every session for ever; a loss record goes in its place.
                tracing::error!(?id, %error, "message can't be sent");
                self.tell_outbox(outbox::Input::Damaged { id })
            }
        }
    }

    /// Delivers what can be delivered soon, says `stopped`, takes leave of the broker and waits for the store.
    async fn farewell(mut self) -> Result<(), AgentError> {
        self.is_stopping = true;
        self.feed = None;
        self.unheard = None;
        if self.clears_at_end {
            self.retained.clear_all_but(&self.topics.state());
            self.flush_retained()?;
        }
        let until = tokio::time::Instant::now() + FLUSH_PATIENCE;
        while self.session.up().is_some() && !self.has_left() {
            let Ok(event) = tokio::time::timeout_at(until, self.next_event()).await else {
                break;
            };
            self.handle(event)?;
            self.tick_outbox(Instant::now())?;
            self.flush_retained()?;
        }
        self.say_stopped()?;
        let until = tokio::time::Instant::now() + FAREWELL_PATIENCE;
        while self.session.up().is_some() && !self.farewell_acked {
            let Ok(event) = tokio::time::timeout_at(until, self.next_event()).await else {
                break;
            };
            self.handle(event)?;
        }
        if let Some(link) = self.link.take() {
            link.close(FAREWELL_PATIENCE).await;
        }
        if let Some(writing) = self.writing.take() {
            match tokio::time::timeout(FAREWELL_PATIENCE, writing).await {
                Ok(written) => drop(written??),
                Err(_) => tracing::warn!(
                    "the store did not finish; what it had not stored comes again from the journal"
                ),
            }
        }
        self.keep_refusals();
        self.reports.left(&self.outbox);
        let left = self.outbox.stats();
        tracing::info!(
            events = left.events.entries,
            assured = left.assured.entries,
            "stopped; what is left goes out after the next start"
        );
        Ok(())
    }

    /// Whether a stopping agent has delivered everything.
    fn has_left(&self) -> bool {
        self.outbox.is_idle() && (!self.clears_at_end || self.retained.is_settled())
    }

    fn say_stopped(&mut self) -> Result<(), AgentError> {
        let Some(session) = self.session.up() else {
            return Ok(());
        };
        let text = payload::encode(&self.state_message(Presence::Stopped, session, wall_now()));
        let topic = self.topics.state();
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        match link.publish_tracked(Token::Farewell, topic.clone(), text, true) {
            Ok(()) => Ok(()),
            Err(error) => self.refused(&topic, error),
        }
    }

    /// First journal number that is not in the outbox yet.
    fn next_seq(&self) -> EventSeq {
        EventSeq(
            self.outbox
                .cursor()
                .map_or(0, |cursor| cursor.0)
                .saturating_add(1),
        )
    }
}

/// Writes `batch` and, where it matters, waits for stable storage. A full disk is waited for: meanwhile the journal keeps
/// what the outbox can't.
fn write_until_done(store: &dyn Store, batch: &Batch, must_sync: bool) -> Result<(), StoreError> {
    let mut has_warned = false;
    loop {
        let written = if must_sync {
            store.commit(batch.clone())
        } else {
            store.write(batch.clone())
        };
        match written {
            Err(error) if error.is_transient() => {
                if !has_warned {
                    tracing::error!(%error, "the outbox can't be stored; trying again every second");
                }
                has_warned = true;
                std::thread::sleep(DISK_RETRY);
            }
            done => return done,
        }
    }
}

/// Waits for the future in `slot` and empties the slot; for ever when there is none.
async fn finished<F: Future + Unpin>(slot: &mut Option<F>) -> F::Output {
    match slot {
        Some(future) => {
            let output = future.await;
            *slot = None;
            output
        }
        None => std::future::pending().await,
    }
}

/// Ends when the task has, which it never does by itself.
async fn died(sinks: &mut Option<Service>) {
    match sinks {
        Some(sinks) => sinks.ended().await,
        None => std::future::pending().await,
    }
}

/// Ends when a channel can't go on.
async fn fell_silent(telling: &mut Option<Telling>) -> Option<StoreError> {
    match telling {
        Some(telling) => telling.broken().await,
        None => std::future::pending().await,
    }
}

/// Ends when the thread of the API has, which it never does by itself.
async fn api_died(api: &mut Option<api::service::Service>) {
    match api {
        Some(api) => api.ended().await,
        None => std::future::pending().await,
    }
}

async fn heard(link: &mut Option<Link>) -> LinkEvent {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}

async fn read(feed: &mut Option<EventFeed>, wanted: bool) -> FeedItem {
    if let (Some(feed), true) = (feed, wanted)
        && let Some(item) = feed.next().await
    {
        return item;
    }
    std::future::pending().await
}
