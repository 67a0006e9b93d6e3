//! Tasks of the channels: each follows the journal, sends its deliveries and stores its position.
//!
//! They run in parallel to the agent's loop and need no broker; notices need no runtime either. A
//! request that is interrupted by the end of the agent is repeated after the next start with the
//! same id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_config::{ChannelConfig, ChannelKind, HostRule, SinksConfig, channels};
use watchkeeper_contract::effect::{HttpCall, HttpMethod};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_store::{Batch, Op, Store, StoreError};

use super::health::ChannelHealth;
use super::message::{self, Names, Notice, Notification};
use super::on_disk::{self, SavedPosition};
use super::pending::{self, PendingNotices};
use super::queue::{Delivery, DeliveryPolicy, DeliveryQueue};
use crate::connectors::Executor;
use crate::connectors::fault::Fault;
use crate::connectors::secrets::{self, credentials_folder};
use crate::future_slot::sleep_until;
use crate::journal_tail::JournalTail;
use crate::review_links::ReviewLinks;
use watchkeeper_client::clock::wall_now;
use watchkeeper_client::{ClientError, RuntimeClient};

/// Timeout of one request.
const REQUEST_TIMEOUT_S: f64 = 20.0;
/// Slack accepts one message a second per webhook and throttles senders of more.
const SLACK_MIN_INTERVAL: Duration = Duration::from_secs(2);
/// Events per Slack message.
const SLACK_MAX_BATCH: usize = 20;
/// Notices that wait for the task of a channel; another one is sent after the next start.
const NOTICE_BUFFER: usize = pending::MAX_PENDING;
/// Failed deliveries in a row after which a channel reports trouble.
const MIN_FAILURES: u32 = 3;
/// Failures in a row after which a delivery no longer waits for its picture: before the channel,
/// which is not the cause, reports trouble.
const MAX_PICTURE_FAILURES: u32 = MIN_FAILURES - 1;

/// Configuration of the channels.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub channels: Vec<ChannelConfig>,
    /// Source of the trusted CAs and of the maximal age.
    pub sinks: SinksConfig,
    /// Names in texts; those of cameras may change.
    pub names: SharedNames,
    /// Links that answer reviews; absent if none are configured.
    pub links: Option<Arc<ReviewLinks>>,
    pub trace: Trace,
}

/// Names that the loop learns and the tasks write.
pub(crate) type SharedNames = Arc<Mutex<Names>>;

type HealthMap = Arc<Mutex<BTreeMap<ChannelId, ChannelHealth>>>;

/// Handle of the tasks. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct Service {
    tasks: JoinSet<Result<(), StoreError>>,
    health: HealthMap,
    channels: Vec<ChannelConfig>,
    pending: Arc<Mutex<PendingNotices>>,
    notices: BTreeMap<ChannelId, mpsc::Sender<(u64, Notice)>>,
}

/// A notice and its number in each channel that receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingNotice {
    pub(crate) notice: Notice,
    pub(crate) numbers: Vec<(ChannelId, u64)>,
}

impl Service {
    /// Starts one task per channel on the current tokio runtime.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub(crate) fn spawn(
        setup: &Setup,
        runtime: &RuntimeClient,
        store: &Arc<dyn Store>,
    ) -> Result<Self, StoreError> {
        let ids: Vec<ChannelId> = setup.channels.iter().map(|c| c.id.clone()).collect();
        on_disk::delete_others(&**store, &ids)?;
        let (pending, mut restored) = PendingNotices::restore(&**store, &ids)?;
        let pending = Arc::new(Mutex::new(pending));
        let health = HealthMap::default();
        let (mut tasks, mut notices) = (JoinSet::new(), BTreeMap::new());
        for channel in &setup.channels {
            let reached = on_disk::load_position(&**store, &channel.id)?;
            health
                .lock()
                .insert(channel.id.clone(), ChannelHealth::default());
            let (sender, received) = mpsc::channel(NOTICE_BUFFER);
            notices.insert(channel.id.clone(), sender);
            let task = ChannelTask {
                restored: restored.remove(&channel.id).unwrap_or_default(),
                notices: received,
                open: BTreeMap::new(),
                finished: Vec::new(),
                awaits_media: true,
                position: SavedPosition::new(reached),
                pending: Arc::clone(&pending),
                receiver: Receiver::new(channel.clone(), setup.sinks.clone(), Arc::clone(store)),
                names: Arc::clone(&setup.names),
                links: setup.links.clone(),
                trace: setup.trace.clone(),
                runtime: runtime.clone(),
                store: Arc::clone(store),
                health: Arc::clone(&health),
            };
            tasks.spawn(task.run(reached, policy(channel.kind, &setup.sinks)));
        }
        Ok(Self {
            tasks,
            health,
            channels: setup.channels.clone(),
            pending,
            notices,
        })
    }

    /// Adds a notice to every channel that receives it. Returns the operations that store it, and
    /// what to pass to [`Self::send_notice`] after that.
    pub(crate) fn add_notice(&self, notice: Notice) -> (Vec<Op>, PendingNotice) {
        let mut pending = self.pending.lock();
        let (mut ops, mut numbers) = (Vec::new(), Vec::new());
        for channel in &self.channels {
            if message::is_wanted(channel, &notice) {
                let (number, store_ops) = pending.add(&channel.id, &notice);
                ops.extend(store_ops);
                numbers.push((channel.id.clone(), number));
            }
        }
        (ops, PendingNotice { notice, numbers })
    }

    /// Passes a stored notice to the tasks of its channels.
    pub(crate) fn send_notice(&self, pending_notice: PendingNotice) {
        let PendingNotice { notice, numbers } = pending_notice;
        for (channel, number) in numbers {
            let sender = self.notices.get(&channel);
            let sent = sender.is_some_and(|s| s.try_send((number, notice.clone())).is_ok());
            if !sent {
                tracing::warn!(
                    %channel, reason = notice.reason,
                    "too many notices wait for this channel; sent after the next start"
                );
            }
        }
    }

    pub(crate) fn health(&self) -> Vec<(ChannelId, ChannelHealth)> {
        let health = self.health.lock();
        health.iter().map(|(i, f)| (i.clone(), f.clone())).collect()
    }

    /// Returns when the task of a channel has ended, with the error of the store if there is one.
    pub(crate) async fn broken(&mut self) -> Option<StoreError> {
        match self.tasks.join_next().await {
            Some(Ok(Ok(()))) => None,
            Some(Ok(Err(error))) => Some(error),
            Some(Err(error)) => {
                tracing::error!(%error, "task of a channel panicked; restart the agent");
                None
            }
            None => std::future::pending().await,
        }
    }
}

fn policy(kind: ChannelKind, sinks: &SinksConfig) -> DeliveryPolicy {
    let (max_batch, min_interval) = match kind {
        ChannelKind::Slack => (SLACK_MAX_BATCH, SLACK_MIN_INTERVAL),
        ChannelKind::Webhook => (1, Duration::ZERO),
    };
    DeliveryPolicy {
        max_batch,
        min_interval,
        max_age: sinks.max_age,
    }
}

struct ChannelTask {
    /// Notices that were pending at the start.
    restored: Vec<(u64, Notice)>,
    notices: mpsc::Receiver<(u64, Notice)>,
    /// Numbers of the queued notices, by id.
    open: BTreeMap<String, u64>,
    /// Numbers of notices that were delivered or given up and are still in the store.
    finished: Vec<u64>,
    /// Whether a delivery waits for a picture that the runtime can't serve yet.
    awaits_media: bool,
    position: SavedPosition,
    pending: Arc<Mutex<PendingNotices>>,
    receiver: Receiver,
    names: SharedNames,
    links: Option<Arc<ReviewLinks>>,
    trace: Trace,
    runtime: RuntimeClient,
    store: Arc<dyn Store>,
    health: HealthMap,
}

impl ChannelTask {
    async fn run(
        mut self,
        reached: Option<EventSeq>,
        policy: DeliveryPolicy,
    ) -> Result<(), StoreError> {
        let start = reached.unwrap_or(EventSeq(0));
        let mut queue = DeliveryQueue::new(policy, start, fastrand::u64(..));
        for (number, notice) in std::mem::take(&mut self.restored) {
            self.push_notice(&mut queue, number, &notice);
        }
        // A new channel has no position until the runtime reports the end of the journal. Notices
        // do not wait for that.
        let mut has_position = reached.is_some();
        let mut journal = JournalTail::new(
            format!("channel {}", self.receiver.channel.id),
            self.runtime.clone(),
            reached,
        );
        loop {
            let due = sleep_until(queue.due(Instant::now()));
            let save = sleep_until(self.position.deadline());
            let mut finished = tokio::select! {
                biased;
                () = due => self.send(&mut queue).await,
                () = save => false,
                Some((number, notice)) = self.notices.recv() => {
                    self.push_notice(&mut queue, number, &notice);
                    false
                }
                record = journal.next(), if queue.wants_more() => {
                    match &record {
                        Some(event) => queue.push_event(event.seq, self.notification(event)),
                        None => queue.start_after(journal.cursor()),
                    }
                    has_position = true;
                    record.is_none()
                }
            };
            let ids = queue.take_finished().into_iter();
            let numbers: Vec<u64> = ids.filter_map(|id| self.open.remove(&id)).collect();
            finished |= !numbers.is_empty();
            self.finished.extend(numbers);
            let reached = has_position.then(|| queue.reached());
            if self.position.is_due(Instant::now(), reached, finished) {
                self.save_position(reached).await?;
            }
        }
    }

    fn push_notice(&mut self, queue: &mut DeliveryQueue, number: u64, notice: &Notice) {
        let (channel, names) = (&self.receiver.channel, self.names.lock());
        let notification = message::notice_notification(channel, &names, notice);
        drop(names);
        match notification {
            // A crash may repeat a notice under a new number; the queued one is enough.
            Some(repeated) if self.open.contains_key(&repeated.id) => self.finished.push(number),
            Some(notification) => {
                self.open.insert(notification.id.clone(), number);
                queue.push_notice(notification, notice.severity);
            }
            // Stored under a configuration with a lower `min_severity`.
            None => self.finished.push(number),
        }
    }

    /// Stores the position, if there is one, and deletes finished notices. On a full disk the next
    /// event retries that; a crash before it repeats notifications.
    async fn save_position(&mut self, reached: Option<EventSeq>) -> Result<(), StoreError> {
        let channel = &self.receiver.channel.id;
        let mut batch = Batch::new();
        if let Some(reached) = reached {
            batch.push(on_disk::position_op(channel, reached));
        }
        for number in &self.finished {
            batch.push(pending::delete_op(channel, *number));
        }
        let store = Arc::clone(&self.store);
        let refusal = match tokio::task::spawn_blocking(move || store.commit(batch)).await {
            Ok(Ok(())) => {
                self.pending.lock().forget(channel, &self.finished);
                self.finished.clear();
                None
            }
            Ok(Err(error)) if error.is_transient() => Some(error.to_string()),
            Ok(Err(error)) => return Err(error),
            Err(panicked) => {
                tracing::error!(%channel, %panicked, "the write of the position panicked");
                Some(panicked.to_string())
            }
        };
        let is_stored = refusal.is_none();
        if self
            .position
            .record_write(Instant::now(), reached, is_stored)
        {
            tracing::warn!(%channel, refusal, "position not stored; retrying with each event");
        }
        Ok(())
    }

    /// The notification of an event, if the channel receives it.
    fn notification(&self, event: &Event) -> Option<Notification> {
        let now = wall_now();
        // A link expires, so it needs a clock that is right.
        let needs_link = message::waits_for_answer(event) && now.quality != TimeQuality::Unsynced;
        let links = self.links.as_deref().filter(|_| needs_link);
        let link = links.map(|links| links.link(event, now.unix_ms));
        let (channel, names) = (&self.receiver.channel, self.names.lock());
        message::event_notification(channel, &names, event, link.as_deref())
    }

    /// Sends the next delivery. Returns whether notifications were delivered or given up.
    async fn send(&mut self, queue: &mut DeliveryQueue) -> bool {
        let before = queue.counts();
        if let Some(delivery) = queue.next_delivery(wall_now()) {
            let (sent, has_picture) = match self.attached(&delivery, queue.failures()).await {
                Ok(attached) => {
                    let has_picture = attached.is_some();
                    (self.receiver.send(&delivery, attached).await, has_picture)
                }
                Err(fault) => (Err(fault), false),
            };
            if sent.is_ok() {
                // No delivery waits for the disk of the audit log.
                let effect = delivery.effect(&self.receiver.channel.id);
                drop(self.trace.note_or_log_in_background("effect", effect));
            }
            self.record_result(queue, sent, has_picture);
        }
        let counts = queue.counts();
        if counts.given_up > before.given_up {
            let given_up = counts.given_up - before.given_up;
            tracing::error!(channel = %self.receiver.channel.id, given_up, "notifications given up");
        }
        if let Some(health) = self.health.lock().get_mut(&self.receiver.channel.id) {
            health.counts = counts;
        }
        counts != before
    }

    /// Records the result of a delivery that went out with its picture, or without.
    fn record_result(&self, queue: &mut DeliveryQueue, sent: Result<(), Fault>, has_picture: bool) {
        let id = &self.receiver.channel.id;
        let trouble = match sent {
            Ok(()) => {
                queue.delivered(Instant::now());
                None
            }
            Err(fault) => {
                let is_first = queue.failures() == 0;
                let given_up = queue.failed(Instant::now(), &fault, has_picture);
                if is_first {
                    tracing::warn!(channel = %id, why = fault.why, "notification failed; retrying");
                }
                let has_trouble = given_up || queue.failures() >= MIN_FAILURES;
                has_trouble.then(|| {
                    format!(
                        "channel {id}: notifications fail: {}; check [channels.{id}]",
                        fault.why
                    )
                })
            }
        };
        if let Some(health) = self.health.lock().get_mut(id) {
            // The first failures leave an earlier trouble unchanged.
            if trouble.is_some() || queue.failures() == 0 {
                health.trouble = trouble;
            }
        }
    }

    /// Media of a delivery of one notification; `None` if there is none or it is deleted.
    ///
    /// # Errors
    /// A transient fault while the runtime is away or busy. After [`MAX_PICTURE_FAILURES`], and
    /// until it answers again, deliveries go out without it.
    async fn attached(
        &mut self,
        delivery: &Delivery,
        failures: u32,
    ) -> Result<Option<(&'static str, Vec<u8>)>, Fault> {
        let [notification] = delivery.notifications.as_slice() else {
            return Ok(None);
        };
        let Some(media) = notification.media.as_ref().filter(|_| delivery.has_media) else {
            return Ok(None);
        };
        let loaded = self.runtime.media(&media.id).await;
        let error = match loaded {
            Ok(bytes) => {
                self.awaits_media = true;
                return Ok(Some((media.name, Vec::from(bytes))));
            }
            Err(error) => error,
        };
        let may_come = may_come_later(&error);
        if may_come && self.awaits_media && failures < MAX_PICTURE_FAILURES {
            return Err(Fault::transient(format!("{}: {error}", media.name)));
        }
        self.awaits_media = !may_come;
        if !error.is_not_found() {
            tracing::warn!(media = media.id, %error, "notification sent without its picture");
        }
        Ok(None)
    }
}

/// Whether the runtime may serve a picture later that it does not serve now.
fn may_come_later(error: &ClientError) -> bool {
    let is_busy = |problem: &Problem| problem.status == 503;
    error.is_transient() || error.problem().is_some_and(is_busy)
}

struct Receiver {
    channel: ChannelConfig,
    sinks: SinksConfig,
    store: Arc<dyn Store>,
    credentials: Option<std::path::PathBuf>,
    /// Address of the last request, and an executor limited to its host.
    executor: Option<(Url, Executor)>,
}

impl Receiver {
    fn new(channel: ChannelConfig, sinks: SinksConfig, store: Arc<dyn Store>) -> Self {
        Self {
            channel,
            sinks,
            store,
            credentials: credentials_folder(),
            executor: None,
        }
    }

    async fn send(
        &mut self,
        delivery: &Delivery,
        attached: Option<(&'static str, Vec<u8>)>,
    ) -> Result<(), Fault> {
        let kind = self.channel.kind;
        let key = delivery.key(attached.is_some());
        let (url, executor) = self.executor().await?;
        let call = HttpCall {
            url: url.to_string(),
            method: HttpMethod::Post,
            query: Vec::new(),
            headers: BTreeMap::new(),
            body: message::body(kind, &delivery.notifications, attached),
            timeout_s: REQUEST_TIMEOUT_S,
        };
        executor.request(&key, &call).await
    }

    /// Address and executor. The address is read at each call, so a changed one takes effect at
    /// once.
    async fn executor(&mut self) -> Result<&(Url, Executor), Fault> {
        let name = format!("channels.{}.url", self.channel.id);
        let credentials = self.credentials.as_deref();
        let secret = secrets::read_in_background(&name, &self.channel.url, credentials).await?;
        let url = channels::address(secret.expose_secret());
        let url = url.map_err(|why| Fault::transient(format!("{name} {why}")))?;
        if let Some(executor) = self.executor.take().filter(|(known, _)| *known == url) {
            return Ok(self.executor.insert(executor));
        }
        let sinks = SinksConfig {
            hosts: HostRule::for_url(&url).into_iter().collect(),
            ca_file: self.sinks.ca_file.clone(),
            ..SinksConfig::default()
        };
        let executor = Executor::new(sinks, Arc::clone(&self.store));
        Ok(self.executor.insert((url, executor)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests;
