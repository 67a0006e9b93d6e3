//! The tasks of the channels: each reads the journal behind its own mark, makes its requests and moves the mark.
//!
//! They run beside the agent's loop and need no broker, and for the box's own messages no runtime. A request that is cut off by the end of the agent is made
//! again by the next start, with the same identity.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, StreamExt as _};
use secrecy::ExposeSecret as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;
use watchkeeper_config::{ChannelConfig, ChannelKind, HostRule, SinksConfig, channels};
use watchkeeper_contract::effect::{HttpCall, HttpMethod};
use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_store::{Batch, Op, Store, StoreError};

use super::health::ChannelHealth;
use super::message::{self, Notice, Notification};
use super::on_disk;
use super::pending::{self, PendingNotices};
use super::queue::{Delivery, DeliveryPolicy, DeliveryQueue};
use crate::connectors::Executor;
use crate::connectors::fault::Fault;
use crate::connectors::secrets::{self, credentials_folder};
use watchkeeper_client::clock::wall_now;
use watchkeeper_client::{EventFeed, FeedItem, JournalRecord, RuntimeClient};

/// Time for one request.
const REQUEST_TIMEOUT_S: f64 = 20.0;
/// Slack takes one message a second from a webhook, and slows down whoever sends more.
const SLACK_MIN_INTERVAL: Duration = Duration::from_secs(2);
/// Events of one message to Slack.
const SLACK_MAX_BATCH: usize = 20;
/// Records that nothing is told of, after which the mark is moved all the same.
const SAVE_EVERY: u64 = 256;
/// How often a runtime is asked for the end of its journal by a channel that is new.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// Words of the box itself that wait for the task of a channel; one more is told after the next start.
const NOTICE_BUFFER: usize = pending::MAX_PENDING;
/// Failures in a row from which a channel counts as out of order.
const MIN_FAILURES: u32 = 3;

/// What the channels need to know.
#[derive(Debug, Clone)]
pub struct Setup {
    pub channels: Vec<ChannelConfig>,
    /// Whose authorities are trusted, and when something is given up.
    pub sinks: SinksConfig,
    /// What the box is called in messages.
    pub name: String,
}

type HealthMap = Arc<Mutex<BTreeMap<ChannelId, ChannelHealth>>>;

/// Numbers and a sentence: whatever panicked over them left them whole.
fn lock(health: &HealthMap) -> MutexGuard<'_, BTreeMap<ChannelId, ChannelHealth>> {
    health.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tasks. Dropping it ends them.
#[derive(Debug)]
pub struct Service {
    tasks: JoinSet<Result<(), StoreError>>,
    health: HealthMap,
    channels: Vec<ChannelConfig>,
    pending: Arc<Mutex<PendingNotices>>,
    own: BTreeMap<ChannelId, mpsc::Sender<(u64, Notice)>>,
}

/// A message of the box itself, and by which channels it is owed under which numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingNotice {
    own: Notice,
    numbers: Vec<(ChannelId, u64)>,
}

impl Service {
    /// Starts one task for each channel on the present runtime of tokio.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn spawn(
        setup: &Setup,
        runtime: &RuntimeClient,
        store: &Arc<dyn Store>,
    ) -> Result<Self, StoreError> {
        let ids: Vec<ChannelId> = setup.channels.iter().map(|c| c.id.clone()).collect();
        on_disk::delete_others(&**store, &ids)?;
        let (pending, mut rest) = PendingNotices::restore(&**store, &ids)?;
        let pending = Arc::new(Mutex::new(pending));
        let health = HealthMap::default();
        let (mut tasks, mut own) = (JoinSet::new(), BTreeMap::new());
        for channel in &setup.channels {
            let reached = on_disk::load_position(&**store, &channel.id)?;
            lock(&health).insert(channel.id.clone(), ChannelHealth::default());
            let (tells, notification) = mpsc::channel(NOTICE_BUFFER);
            own.insert(channel.id.clone(), tells);
            let task = ChannelTask {
                rest: rest.remove(&channel.id).unwrap_or_default(),
                own: notification,
                open: BTreeMap::new(),
                settled: Vec::new(),
                pending: Arc::clone(&pending),
                receiver: Receiver::new(channel.clone(), setup.sinks.clone(), Arc::clone(store)),
                name: setup.name.clone(),
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
            own,
        })
    }

    /// Something of the box itself is owed by every channel that it concerns: the changes that keep it, and what to
    /// [tell](Self::tell) once they are stored.
    pub fn add_notice(&self, own: Notice) -> (Vec<Op>, PendingNotice) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut ops, mut numbers) = (Vec::new(), Vec::new());
        for channel in &self.channels {
            if message::is_wanted(channel, &own) {
                let (number, keep) = pending.add(&channel.id, &own);
                ops.extend(keep);
                numbers.push((channel.id.clone(), number));
            }
        }
        (ops, PendingNotice { own, numbers })
    }

    /// Has it told, now that it is stored.
    pub fn send_notice(&self, pending_notice: PendingNotice) {
        let PendingNotice { own, numbers } = pending_notice;
        for (channel, number) in numbers {
            let tells = self.own.get(&channel);
            let sent = tells.is_some_and(|tells| tells.try_send((number, own.clone())).is_ok());
            if !sent {
                tracing::warn!(%channel, reason = own.reason, "too much waits to be notification there; this is notification after the next start");
            }
        }
    }

    /// How each channel fares, in the order of the names.
    #[must_use]
    pub fn health(&self) -> Vec<(ChannelId, ChannelHealth)> {
        let health = lock(&self.health);
        health.iter().map(|(i, f)| (i.clone(), f.clone())).collect()
    }

    /// Ends when a channel can't go on, which none does by itself unless the store is broken.
    pub async fn broken(&mut self) -> Option<StoreError> {
        match self.tasks.join_next().await {
            Some(Ok(Ok(()))) => None,
            Some(Ok(Err(error))) => Some(error),
            Some(Err(died)) => {
                tracing::error!(%died, "the task of a channel died");
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

/// One channel at work.
struct ChannelTask {
    /// What was owed at the start.
    rest: Vec<(u64, Notice)>,
    own: mpsc::Receiver<(u64, Notice)>,
    /// Numbers of what is owed, by the identity of the message.
    open: BTreeMap<String, u64>,
    /// Numbers of what was told or given up, until the store knows it.
    settled: Vec<u64>,
    pending: Arc<Mutex<PendingNotices>>,
    receiver: Receiver,
    name: String,
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
        for (number, own) in std::mem::take(&mut self.rest) {
            self.push_notice(&mut queue, number, &own);
        }
        // A channel that is new has no mark before a runtime has told it the end of the journal; the box's own messages do not wait for that.
        let mut saved = reached;
        let mut feed = reached.map(|reached| self.follow(reached));
        let mut end = end_of_journal(self.runtime.clone()).boxed();
        loop {
            let due = queue.due(Instant::now());
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let mut settled = tokio::select! {
                biased;
                () = due => self.send(&mut queue).await,
                Some((number, own)) = self.own.recv() => {
                    self.push_notice(&mut queue, number, &own);
                    false
                }
                last = &mut end, if feed.is_none() => {
                    queue.start_after(last);
                    feed = Some(self.follow(last));
                    saved = Some(last);
                    true
                }
                Some(item) = next(&mut feed), if queue.wants_more() => {
                    if let Some(feed) = &mut feed {
                        self.handle_item(item, &mut queue, feed).await;
                    }
                    false
                }
            };
            let own = queue.take_settled();
            let own = own.into_iter().filter_map(|id| self.open.remove(&id));
            let own: Vec<u64> = own.collect();
            settled |= !own.is_empty();
            self.settled.extend(own);
            let reached = saved.map(|_| queue.reached());
            // Both ways: a journal may begin anew.
            let is_far =
                |(saved, reached): (EventSeq, EventSeq)| reached.0.abs_diff(saved.0) >= SAVE_EVERY;
            if settled || saved.zip(reached).is_some_and(is_far) {
                self.save_position(reached).await?;
                saved = reached;
            }
        }
    }

    fn follow(&self, after: EventSeq) -> EventFeed {
        let channel = &self.receiver.channel.id;
        tracing::info!(%channel, after = after.0, "telling people of events");
        self.runtime.follow_events(after)
    }

    fn push_notice(&mut self, queue: &mut DeliveryQueue, number: u64, own: &Notice) {
        match message::notice_notification(&self.receiver.channel, &self.name, own) {
            Some(notification) => {
                self.open.insert(notification.id.clone(), number);
                queue.push_notice(notification, own.severity);
            }
            // PendingNotices under a configuration that told more.
            None => self.settled.push(number),
        }
    }

    /// Stores how far the channel is, where it has begun, and what it owes no longer. On a full disk that is stored with the next event: what was told may
    /// be told again after a crash.
    async fn save_position(&mut self, reached: Option<EventSeq>) -> Result<(), StoreError> {
        let channel = &self.receiver.channel.id;
        let mut batch = Batch::new();
        if let Some(reached) = reached {
            batch.push(on_disk::position_op(channel, reached));
        }
        for number in &self.settled {
            batch.push(pending::forget(channel, *number));
        }
        let store = Arc::clone(&self.store);
        let stored = tokio::task::spawn_blocking(move || store.commit(batch)).await;
        match stored {
            Ok(Ok(())) => {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                pending.settled(channel, &self.settled);
                self.settled.clear();
                Ok(())
            }
            Ok(Err(error)) if error.is_transient() => {
                tracing::warn!(%channel, %error, "how far it is can't be stored");
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            Err(died) => {
                tracing::error!(%died, "the thread that stores how far a channel is died");
                Ok(())
            }
        }
    }

    async fn handle_item(&self, item: FeedItem, queue: &mut DeliveryQueue, feed: &mut EventFeed) {
        match item {
            FeedItem::Connected { after } => {
                let health = self.runtime.health().await;
                if health.is_ok_and(|health| health.last_seq < after) {
                    tracing::warn!(channel = %self.receiver.channel.id, "the journal began anew; it is notification from its beginning");
                    queue.restart_journal();
                    *feed = self.runtime.follow_events(EventSeq(0));
                }
            }
            FeedItem::Record(JournalRecord::Known(event)) => {
                let notification =
                    message::event_notification(&self.receiver.channel, &self.name, &event);
                queue.push_event(event.seq, notification);
            }
            // Nothing in it can be put into words, and MQTT tells of it.
            FeedItem::Record(record) => queue.push_event(record.seq(), None),
            FeedItem::Lost { .. } => {}
        }
    }

    /// Sends what is due. Whether something was settled by it: told or given up.
    async fn send(&mut self, queue: &mut DeliveryQueue) -> bool {
        let before = queue.counts();
        if let Some(delivery) = queue.next_delivery(wall_now()) {
            let attached = match delivery.has_media {
                true => self.attached(&delivery.notifications).await,
                false => None,
            };
            let sent = self.receiver.send(&delivery, attached).await;
            self.record_result(queue, sent);
        }
        let counts = queue.counts();
        if counts.given_up > before.given_up {
            let given_up = counts.given_up - before.given_up;
            tracing::error!(channel = %self.receiver.channel.id, given_up, "events were not notification there");
        }
        if let Some(health) = lock(&self.health).get_mut(&self.receiver.channel.id) {
            health.counts = counts;
        }
        counts != before
    }

    fn record_result(&self, queue: &mut DeliveryQueue, sent: Result<(), Fault>) {
        let id = &self.receiver.channel.id;
        let trouble = match sent {
            Ok(()) => {
                queue.delivered(Instant::now());
                None
            }
            Err(fault) => {
                let first = queue.failures() == 0;
                let given_up = queue.failed(Instant::now(), &fault);
                if first {
                    tracing::warn!(channel = %id, why = fault.why, "an event can't be notification there, trying again");
                }
                let is_grave = given_up || queue.failures() >= MIN_FAILURES;
                is_grave.then(|| {
                    format!(
                        "nobody is notification over the channel {id}: {}; look at [channels.{id}]",
                        fault.why
                    )
                })
            }
        };
        if let Some(health) = lock(&self.health).get_mut(id) {
            // A first failure takes nothing back: it says nothing new.
            if trouble.is_some() || queue.failures() == 0 {
                health.trouble = trouble;
            }
        }
    }

    /// The picture or clip of an event that is told by itself; one that is gone is not waited for.
    async fn attached(&self, notification: &[Notification]) -> Option<(&'static str, Vec<u8>)> {
        let [one] = notification else { return None };
        let attached = one.media.as_ref()?;
        let bytes = self.runtime.media(&attached.id).await.ok()?;
        Some((attached.name, Vec::from(bytes)))
    }
}

/// What comes next of the journal, where it is followed yet.
async fn next(feed: &mut Option<EventFeed>) -> Option<FeedItem> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

/// The end of the journal, from which a channel begins that is new.
async fn end_of_journal(runtime: RuntimeClient) -> EventSeq {
    loop {
        if let Ok(health) = runtime.health().await {
            return health.last_seq;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// The way to one receiver.
struct Receiver {
    channel: ChannelConfig,
    sinks: SinksConfig,
    store: Arc<dyn Store>,
    credentials: Option<std::path::PathBuf>,
    /// The address of the last request, and what makes requests to it.
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
        let (url, executor) = self.executor()?;
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

    /// Where to, read anew each time: an address that was exchanged counts at once.
    fn executor(&mut self) -> Result<&(Url, Executor), Fault> {
        let name = format!("channels.{}.url", self.channel.id);
        let address = secrets::read(&name, &self.channel.url, self.credentials.as_deref());
        let address = address.map_err(Fault::later)?;
        let url = channels::address(address.expose_secret());
        let url = url.map_err(|why| Fault::later(format!("{name} {why}")))?;
        if let Some(executor) = self.executor.take().filter(|(known, _)| *known == url) {
            return Ok(self.executor.insert(executor));
        }
        let sinks = SinksConfig {
            hosts: HostRule::of(&url).into_iter().collect(),
            ca_file: self.sinks.ca_file.clone(),
            ..SinksConfig::default()
        };
        let executor = Executor::new(sinks, Arc::clone(&self.store));
        Ok(self.executor.insert((url, executor)))
    }
}
