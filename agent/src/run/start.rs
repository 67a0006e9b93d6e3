//! How an agent comes to be: store, cores, clients, in this order.
//!
//! Invariants: nothing is written before all that the store holds is known to be readable, but the note of what opening it took out; nothing is connected
//! here.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_config::{
    AgentApiConfig, ChannelConfig, Config, LlmConfig, MemoryConfig, PermissionsConfig, SinksConfig,
};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::{BoxId, SiteId};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{
    Batch, DiskStore, Keyspace, OpenOutcome, OpenReport, Options, Store, StoreError, log_key,
    log_seq,
};

use super::commands::GRUMBLE_EVERY;
use super::heartbeat::Heart;
use super::journal_tail::Unheard;
use super::report::Reports;
use super::retained_sources::ShownSources;
use super::{Agent, Identity, LEDGER_EVERY, Watchdog};
use crate::api;
use crate::api::conversations::{OpensModel, Shop};
use crate::connectors::secrets::credentials_folder;
use crate::connectors::{self, Performer};
use crate::fleet::command::{self, CommandBoard, Refusals, Replies};
use crate::fleet::mqtt::broker::{Broker, Keys};
use crate::fleet::mqtt::command_subscription::Hearing;
use crate::fleet::mqtt::session::Session;
use crate::fleet::mqtt::{Retained, Topics};
use crate::fleet::outbox::{self, ClassLimits, Limits, Outbox, OutboxId, TelemetryRing};
use crate::heartbeat;
use crate::log_limiter::Seldom;
use crate::notify;
use crate::second_opinion::{self, Asker};
use crate::status::Questions;
use watchkeeper_assistant::blueprint::BlueprintStore;
use watchkeeper_assistant::llm::{LazyLlmClient, catalogue};
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::trace::{TRACE_FOLDER, Trace};
use watchkeeper_client::clock::{age, wall_now};
use watchkeeper_client::{ClientError, RuntimeClient};

/// Folder of the agent's store below the state folder.
const FOLDER: &str = "agent";
const META: Keyspace = Keyspace::new("agent_meta");
/// Counts the starts, so that session numbers rise for ever.
const STARTS: &[u8] = b"starts";
/// Telemetry kept while there is no link: a day of three topics at one per five minutes.
const RING_CAPACITY: usize = 864;
const RING_SPACING: Duration = Duration::from_secs(300);
/// Long enough that events get out, short enough that a box hears again the day somebody clears the request.
const FLOOD_PAUSE: Duration = Duration::from_secs(3600);

/// Whoever was told of an event should not have to wait much longer for what a model makes of it.
const OPINION_TIME: Duration = Duration::from_secs(20);

/// What an agent needs to know.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Site of the box.
    pub site: SiteId,
    /// Name of the box.
    pub box_id: BoxId,
    /// Folder for everything that must survive a restart.
    pub state_dir: PathBuf,
    /// Socket of the runtime.
    pub runtime_socket: PathBuf,
    /// The broker; without one the agent only waits.
    pub broker: Option<Broker>,
    /// Bounds of the outbox.
    pub limits: Limits,
    /// Interval of telemetry.
    pub telemetry_every: Duration,
    /// How long requests are not taken after one that is too large to read ended several sessions in a row.
    pub flood_pause: Duration,
    /// What workflows may have done outside.
    pub sinks: SinksConfig,
    /// How people are told of events.
    pub channels: Vec<ChannelConfig>,
    /// Who is asked about doubtful events; absent: nobody.
    pub opinions: Option<OpinionSetup>,
    /// The API; absent: none is served.
    pub api: Option<ApiSetup>,
    /// Looks that are taken every so often; absent: none.
    pub heartbeat: Option<HeartbeatSetup>,
    /// How notes are found.
    pub memory: MemoryConfig,
}

/// The heartbeat.
#[derive(Debug, Clone)]
pub struct HeartbeatSetup {
    /// Time between two looks.
    pub every: Duration,
    /// The model that is asked about what was found; the same as that of the second opinions, where both are there: they share its books.
    pub llm: Option<LlmConfig>,
}

/// The agent's API.
#[derive(Debug, Clone)]
pub struct ApiSetup {
    /// Where it is served.
    pub config: AgentApiConfig,
    /// The model of language that conversations use; the same as that of the second opinions, where both are there: they share its books.
    pub llm: Option<LlmConfig>,
    /// Model of the box that the configuration prefers.
    pub preferred: Option<String>,
    /// What is confirmed without asking.
    pub policy: PermissionsConfig,
}

/// Who is asked for second opinions.
#[derive(Debug, Clone)]
pub struct OpinionSetup {
    /// The model, and what may be spent on it.
    pub llm: LlmConfig,
    /// Time that a model has for one event.
    pub time: Duration,
}

impl Setup {
    /// What `config` says.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let agent = config.agent;
        let defaults = Limits::default();
        Self {
            site: config.site.clone(),
            box_id: config.box_id.clone(),
            state_dir: config.state_dir.clone(),
            runtime_socket: config.runtime_socket.clone(),
            broker: config.mqtt.as_ref().map(|mqtt| Broker {
                host: mqtt.host.clone(),
                port: mqtt.port,
                client_id: mqtt.client_id.clone(),
                username: mqtt.username.clone(),
                password: mqtt.password.clone(),
                tls: mqtt.tls,
                ca_file: mqtt.ca_file.clone(),
                client_cert: mqtt.client_cert.clone(),
                connect_timeout: mqtt.connect_timeout,
                keep_alive: mqtt.keep_alive,
                keys: Keys::OWN,
            }),
            limits: Limits {
                events: ClassLimits {
                    entries: usize::try_from(agent.outbox_events).unwrap_or(usize::MAX),
                    bytes: agent.outbox_bytes,
                },
                ..defaults
            },
            telemetry_every: agent.telemetry,
            flood_pause: FLOOD_PAUSE,
            sinks: config.sinks.clone(),
            channels: config.channels.clone(),
            opinions: config
                .llm
                .as_ref()
                .filter(|llm| llm.second_opinion)
                .map(|llm| OpinionSetup {
                    llm: llm.clone(),
                    time: OPINION_TIME,
                }),
            api: Some(ApiSetup {
                config: config.agent_api.clone(),
                policy: config.permissions.clone(),
                llm: config.llm.clone(),
                preferred: config.models.default.clone(),
            }),
            heartbeat: agent.heartbeat.map(|every| HeartbeatSetup {
                every,
                llm: config.llm.clone(),
            }),
            memory: config.memory.clone(),
        }
    }
}

/// Why an agent can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store can't be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client of the runtime can't be made.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Agent {
    /// Opens the store, restores the cores and connects nothing yet.
    ///
    /// # Errors
    /// [`StartError`], in a sentence a person can act upon.
    pub fn start(setup: Setup) -> Result<Self, StartError> {
        let folder = setup.state_dir.join(FOLDER);
        let (store, _) = DiskStore::open_noting(&folder, &Options::default(), note_lost)?;
        Self::on_store(setup, Arc::new(store))
    }

    fn on_store(setup: Setup, store: Arc<dyn Store>) -> Result<Self, StartError> {
        let now = Instant::now();
        let wall = wall_now();
        let folder = setup.state_dir.join(FOLDER);
        let (restored, damaged) = outbox::store::restore(&*store, &folder, first_id(wall))?;
        let ledger = command::restore(&*store, &folder)?;
        let refusals = Refusals::restore(&*store, &folder)?;
        let (sources, taken_over) = ShownSources::restore(&*store, &folder)?;
        let asked = second_opinion::on_disk::restore(&*store, &folder)?;
        let looked_at = second_opinion::on_disk::reached(&*store)?;
        let looked = heartbeat::on_disk::restore(&*store, &folder)?;
        // Nothing is written before all of it is known to be readable.
        for batch in ledger.rewrites.into_iter().chain(taken_over).chain(damaged) {
            store.write(batch)?;
        }
        let starts = count_start(&*store, wall)?;
        let entries = restored.entries.len();
        let outbox = Outbox::new(setup.limits, restored);
        let board = CommandBoard::new(wall, ledger.records);
        let mut retained = Retained::default();
        let topics = Topics::new(&setup.site, &setup.box_id);
        for (source, payload) in sources.alarms() {
            retained.set(topics.outage_alarm(source), payload);
        }
        for topic in refusals.clearing() {
            retained.set(topics.at(topic), Vec::new());
        }
        let runtime = RuntimeClient::new(&setup.runtime_socket)?;
        let llm = setup.opinions.as_ref().map(|opinions| &opinions.llm);
        let llm = llm.or_else(|| setup.api.as_ref()?.llm.as_ref());
        let llm = llm.or_else(|| setup.heartbeat.as_ref()?.llm.as_ref());
        // One for all: the books are kept in memory too, and there must not be two of them.
        let way = llm.map(|llm| Arc::new(LazyLlmClient::new(llm.clone())));
        // Told now, not when somebody asks; what needs no model works without.
        if let Some(Err(why)) = llm.map(catalogue) {
            tracing::error!("the model of language can't be asked: {why}");
        }
        // One for all that speak and listen here: they share the memory and its embedder.
        let notes = Notes::of(&setup.state_dir.join(TRACE_FOLDER), &setup.memory);
        let api = setup.api.map(|api| {
            let opens = api.llm.as_ref().and(way.clone()).map(|way| {
                let (store, folder) = (Arc::clone(&store), folder.clone());
                let books = move || Ok(Arc::clone(&store));
                Arc::new(move || way.client(&folder, &books)) as OpensModel
            });
            Ok::<_, ClientError>(api::service::Setup {
                shop: Shop {
                    client: RuntimeClient::new(&setup.runtime_socket)?,
                    preferred: api.preferred,
                    model: opens,
                    provider: api.llm.as_ref().map(|llm| llm.provider.clone()),
                    policy: api.policy,
                    home: setup.state_dir.join(TRACE_FOLDER),
                    notes: notes.clone(),
                },
                provider: api.llm.map(|llm| llm.provider),
                config: api.config,
                credentials: credentials_folder(),
            })
        });
        let api = api.transpose()?;
        let heart = setup.heartbeat.map(|heartbeat| {
            let home = setup.state_dir.join(TRACE_FOLDER);
            let asker = heartbeat::asker::Asker {
                way: heartbeat.llm.as_ref().and(way.clone()),
                store: Arc::clone(&store),
                folder: folder.clone(),
                trace: Trace::new(&home, "agent"),
                notes: notes.clone(),
            };
            Heart::new(heartbeat.every, asker, looked, now)
        });
        let asker = setup.opinions.zip(way).map(|(opinions, way)| {
            tracing::info!(
                provider = opinions.llm.provider,
                "second opinions are asked for"
            );
            Arc::new(Asker {
                way,
                store: Arc::clone(&store),
                folder: folder.clone(),
                runtime: runtime.clone(),
                trace: Trace::new(&setup.state_dir.join(TRACE_FOLDER), "agent"),
                shelf: BlueprintStore::of(&setup.state_dir.join(TRACE_FOLDER)),
                time: opinions.time,
            })
        });
        let channels = notify::service::Setup {
            channels: setup.channels,
            sinks: setup.sinks.clone(),
            name: format!("{}/{}", setup.site, setup.box_id),
        };
        let sinks = Performer::new(setup.sinks.clone(), Arc::clone(&store));
        let limits = second_opinion::queue::Limits::default();
        let past = |event: &Event| age(event.at, wall);
        let opinions = second_opinion::Queue::new(limits, asker.is_some(), now, asked, past);
        let cursor = outbox.cursor();
        tracing::info!(
            waiting = entries,
            cursor = cursor.map(|c| c.0),
            starts,
            "outbox restored"
        );
        let feed = match &setup.broker {
            Some(_) => Some(runtime.follow_events(cursor.unwrap_or_default())),
            None => {
                tracing::warn!("no broker is configured (mqtt.host): events stay in the journal");
                None
            }
        };
        let unheard = match (&setup.broker, &asker) {
            (None, Some(_)) => Some(Unheard::new(runtime.clone(), looked_at)),
            _ => None,
        };
        Ok(Self {
            topics,
            identity: Identity {
                site: setup.site,
                box_id: setup.box_id,
                boot_id: ulid::Ulid::new().to_string(),
            },
            broker: setup.broker,
            runtime,
            store,
            outbox,
            board,
            session: Session::new(now, starts, fastrand::u64(..)),
            retained,
            replies: Replies::default(),
            refusals,
            hearing: Hearing::new(setup.flood_pause),
            ring: TelemetryRing::new(RING_CAPACITY, RING_SPACING),
            feed,
            unheard,
            feed_is_lost: false,
            link: None,
            link_lost_by: None,
            writing: None,
            executing: None,
            asking: None,
            opinions,
            asker,
            opining: None,
            heart,
            opined: second_opinion::Counts::default(),
            questions: Questions::new(),
            api,
            sinks: Some(sinks),
            channels,
            telling: None,
            channel_troubles: Vec::new(),
            sink_limits: connectors::queue::Limits {
                age: setup.sinks.max_age,
                ..connectors::queue::Limits::default()
            },
            riders: Vec::new(),
            riding: Vec::new(),
            boarded: Vec::new(),
            grumbles: Seldom::new(GRUMBLE_EVERY),
            session_began: wall,
            sources,
            runtime_version: None,
            runtime_silent_since: None,
            telemetry_every: setup.telemetry_every,
            status_due: now,
            telemetry_due: now,
            ledger_due: now + LEDGER_EVERY,
            watchdog: Watchdog::from_env(now),
            is_stopping: false,
            clears_at_end: false,
            farewell_acked: false,
            reports: Reports::default(),
        })
    }
}

/// Counts this start, durably: the numbers of its sessions are greater than all before.
///
/// The count is at least the clock's seconds since 1970, where the clock was set. So it rises also over a state folder that was
/// lost or set aside, of which nothing but the clock tells; consumers take an `offline` of a smaller session for an old will.
fn count_start(store: &dyn Store, now: Wall) -> Result<u64, StoreError> {
    let before = match store.get(META, STARTS) {
        Ok(value) => value.as_deref().and_then(log_seq).unwrap_or(0),
        Err(StoreError::Corrupt { .. }) => 0,
        Err(error) => return Err(error),
    };
    let starts = before.saturating_add(1).max(set_ms(now) / 1000);
    store.commit(Batch::new().put(META, STARTS, &log_key(starts)))?;
    Ok(starts)
}

/// First id of an outbox that never gave one away. Counted from the clock's milliseconds since 1970, it is greater than every id
/// of an outbox that was lost, unless that gave away more than a thousand a second all its life.
fn first_id(now: Wall) -> OutboxId {
    OutboxId(set_ms(now).max(1))
}

/// Milliseconds since 1970; zero where the clock was never set.
fn set_ms(now: Wall) -> u64 {
    match now.quality {
        TimeQuality::Unsynced => 0,
        TimeQuality::Synced | TimeQuality::Estimated => u64::try_from(now.unix_ms).unwrap_or(0),
    }
}

/// Counts what opening the store could not save, in the batch that takes it out: it is told when the agent runs, and a start may fail.
fn note_lost(store: &dyn Store, report: &OpenReport) -> Result<Batch, StoreError> {
    match count_lost(report) {
        0 => Ok(Batch::new()),
        lost => outbox::store::note_damaged(store, lost).map(|(_, batch)| batch),
    }
}

/// Entries that opening the store could not save.
fn count_lost(report: &OpenReport) -> u64 {
    let damaged = report.corrupt.len() as u64;
    match &report.outcome {
        OpenOutcome::Clean => damaged,
        OpenOutcome::Truncated { lost_batches } => {
            // The cursor went back with them, so records of the journal come again; command reports do not.
            tracing::error!(lost_batches, "the last writes to the outbox are gone");
            damaged.saturating_add(*lost_batches)
        }
        OpenOutcome::Quarantined { to, why, saved } => {
            tracing::error!(to = %to.display(), why, saved, "the outbox's files were beyond repair and have been set aside");
            damaged.saturating_add(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use watchkeeper_store::MemoryStore;

    use super::*;

    fn at(unix_ms: i64, quality: TimeQuality) -> Wall {
        Wall { unix_ms, quality }
    }

    #[test]
    fn starts_rise_over_a_lost_store_and_over_a_clock_that_is_set_back() {
        let today = at(1_798_761_600_000, TimeQuality::Estimated);
        let tomorrow = at(1_798_848_000_000, TimeQuality::Synced);
        let unset = at(5, TimeQuality::Unsynced);
        let store = MemoryStore::new();
        let mut before = 0;
        for now in [unset, today, unset, today] {
            let starts = count_start(&store, now).expect("counted");
            assert!(starts > before, "{starts} after {before}");
            before = starts;
        }
        let anew = count_start(&MemoryStore::new(), tomorrow).expect("counted");
        assert!(anew > before, "{anew} after {before}");
    }

    #[test]
    fn the_ids_of_a_new_outbox_are_greater_than_those_of_a_lost_one() {
        let restore = |now| {
            let first = first_id(now);
            let folder = Path::new("/state/agent");
            let restored = outbox::store::restore(&MemoryStore::new(), folder, first);
            restored.expect("empty").0
        };
        let early = restore(at(1_798_761_600_000, TimeQuality::Estimated)).next_id;
        let late = restore(at(1_798_848_000_000, TimeQuality::Estimated)).next_id;
        assert!(late.0 > early.0 + 80_000_000);
        let unset = restore(at(5, TimeQuality::Unsynced)).next_id;
        assert_eq!(unset, OutboxId(1));
    }
}
