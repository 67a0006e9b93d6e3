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
use super::message::{self, Own, Told};
use super::on_disk;
use super::pending::{self, Owed};
use super::queue::{Courier, Manner, Parcel};
use crate::connectors::Performer;
use crate::connectors::fault::Fault;
use crate::connectors::secrets::{self, credentials_folder};
use watchkeeper_client::clock::wall_now;
use watchkeeper_client::{EventFeed, FeedItem, JournalRecord, RuntimeClient};

/// Time for one request.
const REQUEST_S: f64 = 20.0;
/// Slack takes one message a second from a webhook, and slows down whoever sends more.
const SLACK_SPACING: Duration = Duration::from_secs(2);
/// Events of one message to Slack.
const SLACK_TOGETHER: usize = 20;
/// Records that nothing is told of, after which the mark is moved all the same.
const NOTE_EVERY: u64 = 256;
/// How often a runtime is asked for the end of its journal by a channel that is new.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Words of the box itself that wait for the task of a channel; one more is told after the next start.
const OWN_AT_ONCE: usize = pending::MOST_OWED;
/// Failures in a row from which a channel counts as out of order.
const OUT_OF_ORDER: u32 = 3;

/// What the channels need to know.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The channels.
    pub channels: Vec<ChannelConfig>,
    /// Whose authorities are trusted, and when something is given up.
    pub sinks: SinksConfig,
    /// What the box is called in messages.
    pub name: String,
}

type Fares = Arc<Mutex<BTreeMap<ChannelId, ChannelHealth>>>;

/// Numbers and a sentence: whatever panicked over them left them whole.
fn lock(fares: &Fares) -> MutexGuard<'_, BTreeMap<ChannelId, ChannelHealth>> {
    fares.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tasks. Dropping it ends them.
#[derive(Debug)]
pub struct Service {
    tasks: JoinSet<Result<(), StoreError>>,
    fares: Fares,
    channels: Vec<ChannelConfig>,
    owed: Arc<Mutex<Owed>>,
    own: BTreeMap<ChannelId, mpsc::Sender<(u64, Own)>>,
}

/// A message of the box itself, and by which channels it is owed under which numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owing {
    own: Own,
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
        on_disk::forget_others(&**store, &ids)?;
        let (owed, mut rest) = Owed::restore(&**store, &ids)?;
        let owed = Arc::new(Mutex::new(owed));
        let fares = Fares::default();
        let (mut tasks, mut own) = (JoinSet::new(), BTreeMap::new());
        for channel in &setup.channels {
            let reached = on_disk::reached(&**store, &channel.id)?;
            lock(&fares).insert(channel.id.clone(), ChannelHealth::default());
            let (tells, told) = mpsc::channel(OWN_AT_ONCE);
            own.insert(channel.id.clone(), tells);
            let line = Line {
                rest: rest.remove(&channel.id).unwrap_or_default(),
                own: told,
                open: BTreeMap::new(),
                settled: Vec::new(),
                owed: Arc::clone(&owed),
                post: Post::new(channel.clone(), setup.sinks.clone(), Arc::clone(store)),
                name: setup.name.clone(),
                runtime: runtime.clone(),
                store: Arc::clone(store),
                fares: Arc::clone(&fares),
            };
            tasks.spawn(line.run(reached, manner(channel.kind, &setup.sinks)));
        }
        Ok(Self {
            tasks,
            fares,
            channels: setup.channels.clone(),
            owed,
            own,
        })
    }

    /// Something of the box itself is owed by every channel that it concerns: the changes that keep it, and what to
    /// [tell](Self::tell) once they are stored.
    pub fn owe(&self, own: Own) -> (Vec<Op>, Owing) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut ops, mut numbers) = (Vec::new(), Vec::new());
        for channel in &self.channels {
            if message::concerns(channel, &own) {
                let (number, keep) = owed.owe(&channel.id, &own);
                ops.extend(keep);
                numbers.push((channel.id.clone(), number));
            }
        }
        (ops, Owing { own, numbers })
    }

    /// Has it told, now that it is stored.
    pub fn tell(&self, owing: Owing) {
        let Owing { own, numbers } = owing;
        for (channel, number) in numbers {
            let tells = self.own.get(&channel);
            let sent = tells.is_some_and(|tells| tells.try_send((number, own.clone())).is_ok());
            if !sent {
                tracing::warn!(%channel, reason = own.reason, "too much waits to be told there; this is told after the next start");
            }
        }
    }

    /// How each channel fares, in the order of the names.
    #[must_use]
    pub fn fares(&self) -> Vec<(ChannelId, ChannelHealth)> {
        let fares = lock(&self.fares);
        fares.iter().map(|(i, f)| (i.clone(), f.clone())).collect()
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

fn manner(kind: ChannelKind, sinks: &SinksConfig) -> Manner {
    let (together, spacing) = match kind {
        ChannelKind::Slack => (SLACK_TOGETHER, SLACK_SPACING),
        ChannelKind::Webhook => (1, Duration::ZERO),
    };
    Manner {
        together,
        spacing,
        too_old: sinks.max_age,
    }
}

/// One channel at work.
struct Line {
    /// What was owed at the start.
    rest: Vec<(u64, Own)>,
    own: mpsc::Receiver<(u64, Own)>,
    /// Numbers of what is owed, by the identity of the message.
    open: BTreeMap<String, u64>,
    /// Numbers of what was told or given up, until the store knows it.
    settled: Vec<u64>,
    owed: Arc<Mutex<Owed>>,
    post: Post,
    name: String,
    runtime: RuntimeClient,
    store: Arc<dyn Store>,
    fares: Fares,
}

impl Line {
    async fn run(mut self, reached: Option<EventSeq>, manner: Manner) -> Result<(), StoreError> {
        let start = reached.unwrap_or(EventSeq(0));
        let mut courier = Courier::new(manner, start, fastrand::u64(..));
        for (number, own) in std::mem::take(&mut self.rest) {
            self.take_own(&mut courier, number, &own);
        }
        // A channel that is new has no mark before a runtime has told it the end of the journal; the box's own messages do not wait for that.
        let mut noted = reached;
        let mut feed = reached.map(|reached| self.follow(reached));
        let mut end = end_of_journal(self.runtime.clone()).boxed();
        loop {
            let due = courier.due(Instant::now());
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let mut settled = tokio::select! {
                biased;
                () = due => self.send(&mut courier).await,
                Some((number, own)) = self.own.recv() => {
                    self.take_own(&mut courier, number, &own);
                    false
                }
                last = &mut end, if feed.is_none() => {
                    courier.begin_behind(last);
                    feed = Some(self.follow(last));
                    noted = Some(last);
                    true
                }
                Some(item) = next(&mut feed), if courier.wants_more() => {
                    if let Some(feed) = &mut feed {
                        self.heard(item, &mut courier, feed).await;
                    }
                    false
                }
            };
            let own = courier.take_settled();
            let own = own.into_iter().filter_map(|id| self.open.remove(&id));
            let own: Vec<u64> = own.collect();
            settled |= !own.is_empty();
            self.settled.extend(own);
            let reached = noted.map(|_| courier.reached());
            // Both ways: a journal may begin anew.
            let is_far =
                |(noted, reached): (EventSeq, EventSeq)| reached.0.abs_diff(noted.0) >= NOTE_EVERY;
            if settled || noted.zip(reached).is_some_and(is_far) {
                self.note(reached).await?;
                noted = reached;
            }
        }
    }

    fn follow(&self, after: EventSeq) -> EventFeed {
        let channel = &self.post.channel.id;
        tracing::info!(%channel, after = after.0, "telling people of events");
        self.runtime.follow_events(after)
    }

    fn take_own(&mut self, courier: &mut Courier, number: u64, own: &Own) {
        match message::told_own(&self.post.channel, &self.name, own) {
            Some(told) => {
                self.open.insert(told.id.clone(), number);
                courier.take_own(told, own.severity);
            }
            // Owed under a configuration that told more.
            None => self.settled.push(number),
        }
    }

    /// Stores how far the channel is, where it has begun, and what it owes no longer. On a full disk that is stored with the next event: what was told may
    /// be told again after a crash.
    async fn note(&mut self, reached: Option<EventSeq>) -> Result<(), StoreError> {
        let channel = &self.post.channel.id;
        let mut batch = Batch::new();
        if let Some(reached) = reached {
            batch.push(on_disk::note(channel, reached));
        }
        for number in &self.settled {
            batch.push(pending::forget(channel, *number));
        }
        let store = Arc::clone(&self.store);
        let stored = tokio::task::spawn_blocking(move || store.commit(batch)).await;
        match stored {
            Ok(Ok(())) => {
                let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
                owed.settled(channel, &self.settled);
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

    async fn heard(&self, item: FeedItem, courier: &mut Courier, feed: &mut EventFeed) {
        match item {
            FeedItem::Connected { after } => {
                let health = self.runtime.health().await;
                if health.is_ok_and(|health| health.last_seq < after) {
                    tracing::warn!(channel = %self.post.channel.id, "the journal began anew; it is told from its beginning");
                    courier.begin_anew();
                    *feed = self.runtime.follow_events(EventSeq(0));
                }
            }
            FeedItem::Record(JournalRecord::Known(event)) => {
                let told = message::told(&self.post.channel, &self.name, &event);
                courier.take(event.seq, told);
            }
            // Nothing in it can be put into words, and MQTT tells of it.
            FeedItem::Record(record) => courier.take(record.seq(), None),
            FeedItem::Lost { .. } => {}
        }
    }

    /// Sends what is due. Whether something was settled by it: told or given up.
    async fn send(&mut self, courier: &mut Courier) -> bool {
        let before = courier.counts();
        if let Some(parcel) = courier.parcel(wall_now()) {
            let attached = match parcel.with_picture {
                true => self.attached(&parcel.told).await,
                false => None,
            };
            let sent = self.post.send(&parcel, attached).await;
            self.learn(courier, sent);
        }
        let counts = courier.counts();
        if counts.given_up > before.given_up {
            let given_up = counts.given_up - before.given_up;
            tracing::error!(channel = %self.post.channel.id, given_up, "events were not told there");
        }
        if let Some(fare) = lock(&self.fares).get_mut(&self.post.channel.id) {
            fare.counts = counts;
        }
        counts != before
    }

    fn learn(&self, courier: &mut Courier, sent: Result<(), Fault>) {
        let id = &self.post.channel.id;
        let trouble = match sent {
            Ok(()) => {
                courier.delivered(Instant::now());
                None
            }
            Err(fault) => {
                let first = courier.failures() == 0;
                let given_up = courier.failed(Instant::now(), &fault);
                if first {
                    tracing::warn!(channel = %id, why = fault.why, "an event can't be told there, trying again");
                }
                let is_grave = given_up || courier.failures() >= OUT_OF_ORDER;
                is_grave.then(|| {
                    format!(
                        "nobody is told over the channel {id}: {}; look at [channels.{id}]",
                        fault.why
                    )
                })
            }
        };
        if let Some(fare) = lock(&self.fares).get_mut(id) {
            // A first failure takes nothing back: it says nothing new.
            if trouble.is_some() || courier.failures() == 0 {
                fare.trouble = trouble;
            }
        }
    }

    /// The picture or clip of an event that is told by itself; one that is gone is not waited for.
    async fn attached(&self, told: &[Told]) -> Option<(&'static str, Vec<u8>)> {
        let [one] = told else { return None };
        let attached = one.attached.as_ref()?;
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
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// The way to one receiver.
struct Post {
    channel: ChannelConfig,
    sinks: SinksConfig,
    store: Arc<dyn Store>,
    credentials: Option<std::path::PathBuf>,
    /// The address of the last request, and what makes requests to it.
    way: Option<(Url, Performer)>,
}

impl Post {
    fn new(channel: ChannelConfig, sinks: SinksConfig, store: Arc<dyn Store>) -> Self {
        Self {
            channel,
            sinks,
            store,
            credentials: credentials_folder(),
            way: None,
        }
    }

    async fn send(
        &mut self,
        parcel: &Parcel,
        attached: Option<(&'static str, Vec<u8>)>,
    ) -> Result<(), Fault> {
        let kind = self.channel.kind;
        let key = parcel.key(attached.is_some());
        let (url, performer) = self.way()?;
        let call = HttpCall {
            url: url.to_string(),
            method: HttpMethod::Post,
            query: Vec::new(),
            headers: BTreeMap::new(),
            body: message::body(kind, &parcel.told, attached),
            timeout_s: REQUEST_S,
        };
        performer.request(&key, &call).await
    }

    /// Where to, read anew each time: an address that was exchanged counts at once.
    fn way(&mut self) -> Result<&(Url, Performer), Fault> {
        let name = format!("channels.{}.url", self.channel.id);
        let address = secrets::read(&name, &self.channel.url, self.credentials.as_deref());
        let address = address.map_err(Fault::later)?;
        let url = channels::address(address.expose_secret());
        let url = url.map_err(|why| Fault::later(format!("{name} {why}")))?;
        if let Some(way) = self.way.take().filter(|(known, _)| *known == url) {
            return Ok(self.way.insert(way));
        }
        let sinks = SinksConfig {
            hosts: HostRule::of(&url).into_iter().collect(),
            ca_file: self.sinks.ca_file.clone(),
            ..SinksConfig::default()
        };
        let performer = Performer::new(sinks, Arc::clone(&self.store));
        Ok(self.way.insert((url, performer)))
    }
}
