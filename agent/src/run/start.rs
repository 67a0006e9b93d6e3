//! Opens an agent: store, cores, clients, in this order.
//!
//! Invariants:
//! - Nothing is written before everything in the store is known to be readable. The one exception
//!   is the record of what opening the store removed.
//! - Nothing is connected here.
//! - On a full or read-only disk the agent starts with the records that can be read. What it has to
//!   store waits in the outbox's next batch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_assistant::blueprint::BlueprintStore;
use watchkeeper_assistant::heartbeat_switch::HeartbeatSwitch;
use watchkeeper_assistant::llm::{LazyLlmClient, catalogue};
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::trace::{AGENT, TRACE_FOLDER, Trace};
use watchkeeper_client::clock::wall_now;
use watchkeeper_client::{ClientError, RuntimeClient};
use watchkeeper_config::{AgentConfig, AuditConfig, Config, MqttConfig};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{
    Batch, LateStore, Op, OpenOutcome, OpenReport, Options, Store, StoreError,
};

use super::report::Reports;
use super::session_numbers::{count_start, first_outbox_id};
use super::state::channels::Channels;
use super::state::commands::Commands;
use super::state::disk_report::DiskReport;
use super::state::heartbeat::{HeartbeatParts, HeartbeatTask};
use super::state::job_notices::JobNotices;
use super::state::journal::JournalReader;
use super::state::mqtt::{Identity, Mqtt};
use super::state::outbox::DurableOutbox;
use super::state::problems::Problems;
use super::state::retained_sources::RetainedSources;
use super::state::runtime_monitor::RuntimeMonitor;
use super::state::tasks::TaskSetup;
use super::{Agent, Watchdog};
use crate::api;
use crate::api::conversations::{ConversationDeps, OpenClient};
use crate::archive::{ArchiveService, ArchiveSetup};
use crate::connectors::secrets::credentials_folder;
use crate::connectors::{self, Executor};
use crate::evidence;
use crate::evidence::lookup_service::LookupService;
use crate::evidence::on_disk::StoredChain;
use crate::fleet::command::{self, CommandBoard, CommandKey, Record};
use crate::fleet::mqtt::broker::{Broker, Keys};
use crate::fleet::mqtt::session::Session;
use crate::fleet::mqtt::{Retained, Topics};
use crate::fleet::outbox::{self, Outbox, TelemetryRing};
use crate::heartbeat;
use crate::jobs::scheduler::SchedulerSetup;
use crate::jobs::{JobService, ToolSetup};
use crate::model_access::ModelAccess;
use crate::notify;
use crate::references::ReferenceService;
use crate::review_links::ReviewLinks;
use crate::second_opinion::{self, Asker};
use crate::status::StatusRequests;

/// Folder of the agent's store below the state folder.
const STORE_FOLDER: &str = "agent";
/// Telemetry kept without a session: one message per topic in five minutes, of agent, board, each
/// source and each pipeline. A day of a box with one of each, 5 h with eight.
const RING_CAPACITY: usize = 1152;
const RING_SPACING: Duration = Duration::from_secs(300);

/// Timeout of a second opinion: its recipients know the event and should not wait much longer.
pub const OPINION_TIMEOUT: Duration = Duration::from_secs(20);

/// Why an agent can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store failed to open, or holds a record that is unreadable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The client of the runtime was not created.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Everything that the store holds, read back.
struct Restored {
    outbox: outbox::Restored,
    commands: BTreeMap<CommandKey, Record>,
    sources: RetainedSources,
    /// Chains with their cursor in the journal.
    chains: (Vec<StoredChain>, Option<EventSeq>),
    heartbeat: Option<heartbeat::on_disk::StoredHeartbeat>,
}

/// Parts that several others share: a second client of the ledger or notes would contradict the
/// first.
struct Shared {
    runtime: RuntimeClient,
    /// Client for the thread of the API: a connection belongs to one event loop.
    api_runtime: RuntimeClient,
    schedule_runtime: RuntimeClient,
    store: Arc<dyn Store>,
    /// Folder of traces, notes and blueprints.
    home: PathBuf,
    trace: Trace,
    audit: AuditConfig,
    switch: HeartbeatSwitch,
    model: Option<ModelAccess>,
    notes: Notes,
    links: Option<Arc<ReviewLinks>>,
    jobs: JobService,
    lookups: LookupService,
    references: ReferenceService,
}

impl Agent {
    /// Opens the store and restores the agent's state; connects to nothing. A second opinion takes
    /// at most `opinion_timeout`.
    ///
    /// # Errors
    /// [`StartError`], in words that a user can act upon.
    pub fn start(config: &Config, opinion_timeout: Duration) -> Result<Self, StartError> {
        let folder = config.state_dir.join(STORE_FOLDER);
        let note = Box::new(record_losses);
        let (store, _) = LateStore::open(&folder, &Options::default(), note)?;
        Self::on_store(config, opinion_timeout, Arc::new(store))
    }

    fn on_store(
        config: &Config,
        opinion_timeout: Duration,
        store: Arc<dyn Store>,
    ) -> Result<Self, StartError> {
        let (now, wall) = (Instant::now(), wall_now());
        let folder = config.state_dir.join(STORE_FOLDER);
        let restored = restore(&*store, &folder, wall)?;
        let (starts, start_op) = count_start(&*store, wall)?;
        let unstored_start = commit_unless_refused(&*store, start_op)?;
        let outbox = open_outbox(limits(&config.agent), restored.outbox, starts);
        let shared = Shared::open(config, Arc::clone(&store), folder)?;
        let asker = opinion_asker(config, opinion_timeout, &shared);
        let chains = chain_setup(asker, &shared, restored.chains);
        let journal = match &config.mqtt {
            Some(_) => JournalReader::follow(&shared.runtime, outbox.cursor()),
            None => JournalReader::Closed,
        };
        log_absence(config.mqtt.as_ref());
        let topics = Topics::new(&config.site, &config.box_id);
        let retained = restore_retained(&topics, &restored.sources);
        let board = CommandBoard::new(wall, restored.commands);
        let ring = TelemetryRing::new(RING_CAPACITY, RING_SPACING);
        let session = Session::new(now, starts, fastrand::u64(..));
        let broker = config.mqtt.clone().map(|settings| Broker {
            settings,
            keys: Keys::OWN,
        });
        let mut outbox = DurableOutbox::new(outbox, Arc::clone(&store));
        if let Some(op) = unstored_start {
            outbox.stage(op);
        }
        let opinion_counts = Arc::clone(&chains.opinion_counts);
        let tasks = task_setup(config, &shared, chains);
        Ok(Self {
            outbox,
            journal,
            commands: Commands::new(board, shared.trace.clone(), now),
            heartbeat: config
                .agent
                .heartbeat
                .map(|interval| heartbeat_task(config, interval, &shared, restored.heartbeat, now)),
            channels: channels(config, &shared),
            monitor: RuntimeMonitor::new(restored.sources, ring, config.agent.telemetry, now),
            chain_counts: Arc::clone(shared.lookups.counts()),
            opinion_counts,
            tasks: Some(tasks),
            mqtt: Mqtt::new(identity(config), broker, session, retained, wall),
            runtime: shared.runtime,
            status_requests: StatusRequests::new(),
            problems: Problems::default(),
            job_notices: JobNotices::new(),
            watchdog: Watchdog::from_env(now),
            reports: Reports::default(),
            disk: DiskReport::default(),
            is_stopping: false,
        })
    }
}

fn channels(config: &Config, shared: &Shared) -> Channels {
    let name = format!("{}/{}", config.site, config.box_id);
    Channels::new(notify::service::Setup {
        channels: config.channels.clone(),
        sinks: config.sinks.clone(),
        names: Arc::new(Mutex::new(notify::message::Names::new(name))),
        links: shared.links.clone(),
        trace: shared.trace.clone(),
    })
}

fn limits(agent: &AgentConfig) -> outbox::Limits {
    outbox::Limits {
        events: outbox::ClassLimits {
            entries: usize::try_from(agent.outbox_events).unwrap_or(usize::MAX),
            bytes: agent.outbox_bytes,
        },
        ..outbox::Limits::default()
    }
}

fn identity(config: &Config) -> Identity {
    Identity {
        site: config.site.clone(),
        box_id: config.box_id.clone(),
        boot_id: ulid::Ulid::new().to_string(),
    }
}

fn log_absence(broker: Option<&MqttConfig>) {
    if broker.is_none() {
        tracing::info!("no broker is configured (mqtt.host): events stay in the journal");
    }
}

/// Stores `op`, or returns it if the disk is full or read-only.
fn commit_unless_refused(store: &dyn Store, op: Op) -> Result<Option<Op>, StoreError> {
    let mut batch = Batch::new();
    batch.push(op.clone());
    match store.commit(batch) {
        Ok(()) => Ok(None),
        Err(error) if error.is_disk_refusal() => Ok(Some(op)),
        Err(error) => Err(error),
    }
}

/// Creates the outbox from its restored entries, and logs what it holds.
fn open_outbox(limits: outbox::Limits, restored: outbox::Restored, starts: u64) -> Outbox {
    let waiting = restored.entries.len();
    let outbox = Outbox::new(limits, restored);
    let cursor = outbox.cursor().map(|cursor| cursor.0);
    tracing::info!(waiting, cursor, starts, "outbox restored");
    outbox
}

fn chain_setup(
    asker: Option<Arc<Asker>>,
    shared: &Shared,
    (restored, cursor): (Vec<StoredChain>, Option<EventSeq>),
) -> evidence::service::Setup {
    let counts = second_opinion::Counts {
        asks: asker.is_some(),
        ..second_opinion::Counts::default()
    };
    evidence::service::Setup {
        opinion_counts: Arc::new(Mutex::new(counts)),
        lookups: shared.lookups.clone(),
        asker,
        references: shared.references.clone(),
        store: Arc::clone(&shared.store),
        restored,
        cursor,
        trace: shared.trace.clone(),
    }
}

fn task_setup(config: &Config, shared: &Shared, chains: evidence::service::Setup) -> TaskSetup {
    TaskSetup {
        chains,
        trace: shared.trace.clone(),
        jobs: shared.jobs.clone(),
        scheduler: SchedulerSetup {
            schedules: config.jobs.clone(),
            home: shared.home.clone(),
            runtime: shared.schedule_runtime.clone(),
        },
        effect_limits: connectors::queue::Limits {
            age: config.sinks.max_age,
            ..connectors::queue::Limits::default()
        },
        executor: Executor::new(config.sinks.clone(), Arc::clone(&shared.store)),
        api: api_setup(config, shared),
    }
}

/// Reads everything that the store holds, then deletes damaged messages from it.
fn restore(store: &dyn Store, folder: &Path, now: Wall) -> Result<Restored, StoreError> {
    let (outbox, damaged) = outbox::store::restore(store, folder, first_outbox_id(now))?;
    let commands = command::restore(store, folder)?;
    let sources = RetainedSources::restore(store, folder)?;
    let chains = evidence::service::Setup::restore(store, folder)?;
    let heartbeat = heartbeat::on_disk::restore(store, folder)?;
    // Everything is readable from here on, so the store may be written.
    match damaged.map_or(Ok(()), |damaged| store.write(damaged)) {
        // Repeated at the next start.
        Err(error) if error.is_disk_refusal() => {
            tracing::warn!(%error, "outbox: damaged messages stay in the store");
        }
        written => written?,
    }
    Ok(Restored {
        outbox,
        commands,
        sources,
        chains,
        heartbeat,
    })
}

impl Shared {
    fn open(config: &Config, store: Arc<dyn Store>, folder: PathBuf) -> Result<Self, ClientError> {
        // Logged now, not at the first question; everything else works without a model.
        if let Some(Err(error)) = config.llm.as_ref().map(catalogue) {
            tracing::error!("the language model is unavailable: {error}");
        }
        let (home, audit) = (config.state_dir.join(TRACE_FOLDER), config.agent.audit);
        let trace = Trace::new(&home, AGENT).with_audit_limits(audit);
        let model = config.llm.as_ref().map(|llm| ModelAccess {
            llm: Arc::new(LazyLlmClient::new(llm.clone())),
            store: Arc::clone(&store),
            folder,
            trace: trace.clone(),
        });
        let runtime = RuntimeClient::new(&config.runtime_socket)?;
        let tools = ToolSetup::new(config);
        Ok(Self {
            references: ReferenceService::open(
                &config.state_dir,
                &config.references,
                runtime.clone(),
            ),
            runtime,
            api_runtime: RuntimeClient::new(&config.runtime_socket)?,
            schedule_runtime: RuntimeClient::new(&config.runtime_socket)?,
            store,
            model,
            notes: Notes::in_background(&home, &config.memory),
            trace,
            audit,
            switch: HeartbeatSwitch::new(&home, config.agent.heartbeat),
            links: review_links(config),
            jobs: JobService::new(&home, &tools, audit, config.agent.job_limits),
            lookups: LookupService::new(config.lookups.clone()),
            home,
        })
    }
}

/// Links that answer reviews, where the configuration has an address for them.
fn review_links(config: &Config) -> Option<Arc<ReviewLinks>> {
    let tcp = config.agent_api.tcp.as_ref()?;
    let url = tcp.public_url.as_deref()?;
    match ReviewLinks::open(&config.state_dir, url) {
        Ok(links) => Some(Arc::new(links)),
        Err(error) => {
            tracing::error!("notifications carry no links to answer reviews: {error}");
            None
        }
    }
}

/// Builds what the broker must retain before the runtime's first answer.
fn restore_retained(topics: &Topics, sources: &RetainedSources) -> Retained {
    let mut retained = Retained::default();
    for (source, payload) in sources.alarms() {
        retained.set(topics.outage_alarm(source), payload);
    }
    retained
}

fn api_setup(config: &Config, shared: &Shared) -> api::service::Setup {
    let (llm, model) = (config.llm.as_ref(), shared.model.clone());
    let model = model.map(|model| Arc::new(move || model.open()) as OpenClient);
    let archive = ArchiveSetup {
        state_dir: config.state_dir.clone(),
        config: config.archive.clone(),
        ca_file: config.sinks.ca_file.clone(),
        credentials: credentials_folder(),
    };
    api::service::Setup {
        deps: ConversationDeps {
            client: shared.api_runtime.clone(),
            preferred: config.models.default.clone(),
            model,
            provider: llm.map(|llm| llm.provider.clone()),
            second_opinion: llm.is_some_and(|llm| llm.second_opinion),
            policy: config.permissions.clone(),
            home: shared.home.clone(),
            audit: shared.audit,
            heartbeat: shared.switch.clone(),
            notes: shared.notes.clone(),
            archive: ArchiveService::new(archive, shared.api_runtime.clone()),
            jobs: shared.jobs.clone(),
            lookups: shared.lookups.clone(),
            references: shared.references.clone(),
        },
        config: config.agent_api.clone(),
        credentials: credentials_folder(),
        links: shared.links.clone(),
    }
}

fn heartbeat_task(
    config: &Config,
    interval: Duration,
    shared: &Shared,
    stored: Option<heartbeat::on_disk::StoredHeartbeat>,
    now: Instant,
) -> HeartbeatTask {
    let asker = heartbeat::asker::Asker {
        model: shared.model.clone(),
        trace: shared.trace.clone(),
        notes: shared.notes.clone(),
    };
    let parts = HeartbeatParts {
        interval,
        asker,
        look: config.look.clone(),
        switch: shared.switch.clone(),
    };
    HeartbeatTask::new(parts, stored, now)
}

/// The asker of second opinions, where they are configured.
fn opinion_asker(config: &Config, timeout: Duration, shared: &Shared) -> Option<Arc<Asker>> {
    let llm = config.llm.as_ref().filter(|llm| llm.second_opinion)?;
    let model = shared.model.clone()?;
    tracing::info!(provider = llm.provider, "second opinions are enabled");
    Some(Arc::new(Asker {
        model,
        runtime: shared.runtime.clone(),
        blueprints: BlueprintStore::new(&shared.home),
        timeout,
    }))
}

/// The batch that counts what opening the store lost; it joins the batch that removes it.
fn record_losses(store: &dyn Store, report: &OpenReport) -> Result<Batch, StoreError> {
    match count_losses(report) {
        0 => Ok(Batch::new()),
        lost => outbox::store::count_damaged(store, lost).map(|(_, batch)| batch),
    }
}

/// Entries that opening the store lost.
fn count_losses(report: &OpenReport) -> u64 {
    let damaged = report.corrupt.len() as u64;
    match &report.outcome {
        OpenOutcome::Clean => damaged,
        OpenOutcome::Truncated { lost_batches } => {
            // The cursor went back too: the journal's records come again, command reports do not.
            tracing::error!(lost_batches, "outbox: the last writes are lost");
            damaged.saturating_add(*lost_batches)
        }
        OpenOutcome::Quarantined { to, why, saved } => {
            tracing::error!(to = %to.display(), why, saved, "outbox: moved damaged files");
            damaged.saturating_add(1)
        }
    }
}
