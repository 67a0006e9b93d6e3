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
use watchkeeper_config::{AuditConfig, ScheduleConfig, SinksConfig};
use watchkeeper_contract::id::{BoxId, EventSeq, SiteId};
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{
    Batch, LateStore, Op, OpenOutcome, OpenReport, Options, Store, StoreError,
};

use super::report::Reports;
use super::session_numbers::{count_start, first_outbox_id};
use super::setup::{ApiSetup, HeartbeatSetup, OpinionSetup, Setup};
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
use crate::fleet::mqtt::broker::Broker;
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
    /// Client for the thread of schedules.
    schedule_runtime: RuntimeClient,
    store: Arc<dyn Store>,
    state_dir: PathBuf,
    /// Folder of traces, notes and blueprints.
    home: PathBuf,
    /// The agent's own trace.
    trace: Trace,
    audit: AuditConfig,
    switch: HeartbeatSwitch,
    model: Option<ModelAccess>,
    notes: Notes,
    links: Option<Arc<ReviewLinks>>,
    /// PEM file with the authorities to trust.
    ca_file: Option<PathBuf>,
    jobs: JobService,
    lookups: LookupService,
    references: ReferenceService,
}

impl Agent {
    /// Opens the store and restores the agent's state; connects to nothing.
    ///
    /// # Errors
    /// [`StartError`], in words that a user can act upon.
    pub fn start(setup: Setup) -> Result<Self, StartError> {
        let folder = setup.state_dir.join(STORE_FOLDER);
        let note = Box::new(record_losses);
        let (store, _) = LateStore::open(&folder, &Options::default(), note)?;
        Self::on_store(setup, Arc::new(store))
    }

    fn on_store(setup: Setup, store: Arc<dyn Store>) -> Result<Self, StartError> {
        let (now, wall) = (Instant::now(), wall_now());
        let folder = setup.state_dir.join(STORE_FOLDER);
        let restored = restore(&*store, &folder, wall)?;
        let (starts, start_op) = count_start(&*store, wall)?;
        let unstored_start = commit_unless_refused(&*store, start_op)?;
        let outbox = open_outbox(setup.limits, restored.outbox, starts);
        let shared = Shared::open(&setup, Arc::clone(&store), folder)?;
        let asker = setup
            .opinions
            .and_then(|opinions| opinion_asker(opinions, &shared));
        let chains = chain_setup(asker, &shared, restored.chains);
        let journal = match &setup.broker {
            Some(_) => JournalReader::follow(&shared.runtime, outbox.cursor()),
            None => JournalReader::Closed,
        };
        log_absence(setup.broker.as_ref());
        let topics = Topics::new(&setup.site, &setup.box_id);
        let retained = restore_retained(&topics, &restored.sources);
        let board = CommandBoard::new(wall, restored.commands);
        let ring = TelemetryRing::new(RING_CAPACITY, RING_SPACING);
        let api = setup.api.map(|api| api_setup(api, &shared));
        let session = Session::new(now, starts, fastrand::u64(..));
        let name = format!("{}/{}", setup.site, setup.box_id);
        let identity = identity(setup.site, setup.box_id);
        let mut outbox = DurableOutbox::new(outbox, Arc::clone(&store));
        if let Some(op) = unstored_start {
            outbox.stage(op);
        }
        let opinion_counts = Arc::clone(&chains.opinion_counts);
        let tasks = task_setup(&setup.sinks, &shared, api, (chains, setup.schedules));
        Ok(Self {
            outbox,
            journal,
            commands: Commands::new(board, shared.trace.clone(), now),
            heartbeat: setup
                .heartbeat
                .map(|heartbeat| heartbeat_task(heartbeat, &shared, restored.heartbeat, now)),
            channels: Channels::new(notify::service::Setup {
                channels: setup.channels,
                sinks: setup.sinks,
                names: Arc::new(Mutex::new(notify::message::Names::new(name))),
                links: shared.links.clone(),
            }),
            monitor: RuntimeMonitor::new(restored.sources, ring, setup.telemetry_every, now),
            chain_counts: Arc::clone(shared.lookups.counts()),
            opinion_counts,
            tasks: Some(tasks),
            mqtt: Mqtt::new(identity, setup.broker, session, retained, wall),
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

fn identity(site: SiteId, box_id: BoxId) -> Identity {
    Identity {
        site,
        box_id,
        boot_id: ulid::Ulid::new().to_string(),
    }
}

fn log_absence(broker: Option<&Broker>) {
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

fn task_setup(
    sinks: &SinksConfig,
    shared: &Shared,
    api: Option<api::service::Setup>,
    (chains, schedules): (evidence::service::Setup, Vec<ScheduleConfig>),
) -> TaskSetup {
    TaskSetup {
        chains,
        trace: shared.trace.clone(),
        jobs: shared.jobs.clone(),
        scheduler: SchedulerSetup {
            schedules,
            home: shared.home.clone(),
            runtime: shared.schedule_runtime.clone(),
        },
        effect_limits: connectors::queue::Limits {
            age: sinks.max_age,
            ..connectors::queue::Limits::default()
        },
        executor: Executor::new(sinks.clone(), Arc::clone(&shared.store)),
        api,
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
    fn open(setup: &Setup, store: Arc<dyn Store>, folder: PathBuf) -> Result<Self, ClientError> {
        // Logged now, not at the first question; everything else works without a model.
        if let Some(Err(error)) = setup.llm().map(catalogue) {
            tracing::error!("the language model is unavailable: {error}");
        }
        let home = setup.state_dir.join(TRACE_FOLDER);
        let trace = Trace::new(&home, AGENT).with_audit_limits(setup.audit);
        let model = setup.llm().map(|llm| ModelAccess {
            llm: Arc::new(LazyLlmClient::new(llm.clone())),
            store: Arc::clone(&store),
            folder,
            trace: trace.clone(),
        });
        let runtime = RuntimeClient::new(&setup.runtime_socket)?;
        let api_socket = setup.api.as_ref().map(|api| api.config.socket.clone());
        let tools = ToolSetup {
            socket: setup.runtime_socket.clone(),
            // Without an API there is no archive.
            agent_socket: api_socket.unwrap_or_default(),
            config: setup.job_tools.clone(),
        };
        Ok(Self {
            references: ReferenceService::open(
                &setup.state_dir,
                &setup.references,
                runtime.clone(),
            ),
            runtime,
            api_runtime: RuntimeClient::new(&setup.runtime_socket)?,
            schedule_runtime: RuntimeClient::new(&setup.runtime_socket)?,
            store,
            state_dir: setup.state_dir.clone(),
            model,
            notes: Notes::in_background(&home, &setup.memory),
            trace,
            audit: setup.audit,
            switch: HeartbeatSwitch::new(
                &home,
                setup.heartbeat.as_ref().map(|heartbeat| heartbeat.every),
            ),
            links: review_links(setup),
            ca_file: setup.sinks.ca_file.clone(),
            jobs: JobService::new(&home, &tools, setup.audit, setup.job_limits),
            lookups: LookupService::new(setup.lookups.clone()),
            home,
        })
    }
}

/// Links that answer reviews, where the configuration has an address for them.
fn review_links(setup: &Setup) -> Option<Arc<ReviewLinks>> {
    let tcp = setup.api.as_ref()?.config.tcp.as_ref()?;
    let url = tcp.public_url.as_deref()?;
    match ReviewLinks::open(&setup.state_dir, url) {
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

fn api_setup(api: ApiSetup, shared: &Shared) -> api::service::Setup {
    let model = api.llm.as_ref().and(shared.model.clone());
    let model = model.map(|model| Arc::new(move || model.open()) as OpenClient);
    let archive = ArchiveSetup {
        state_dir: shared.state_dir.clone(),
        config: api.archive,
        ca_file: shared.ca_file.clone(),
        credentials: credentials_folder(),
    };
    api::service::Setup {
        deps: ConversationDeps {
            client: shared.api_runtime.clone(),
            preferred: api.preferred,
            model,
            provider: api.llm.as_ref().map(|llm| llm.provider.clone()),
            second_opinion: api.llm.as_ref().is_some_and(|llm| llm.second_opinion),
            policy: api.policy,
            home: shared.home.clone(),
            audit: shared.audit,
            heartbeat: shared.switch.clone(),
            notes: shared.notes.clone(),
            archive: Some(ArchiveService::new(archive, shared.api_runtime.clone())),
            jobs: Some(shared.jobs.clone()),
            lookups: shared.lookups.clone(),
            references: Some(shared.references.clone()),
        },
        config: api.config,
        credentials: credentials_folder(),
        links: shared.links.clone(),
    }
}

fn heartbeat_task(
    setup: HeartbeatSetup,
    shared: &Shared,
    stored: Option<heartbeat::on_disk::StoredHeartbeat>,
    now: Instant,
) -> HeartbeatTask {
    let asker = heartbeat::asker::Asker {
        model: setup.llm.as_ref().and(shared.model.clone()),
        trace: shared.trace.clone(),
        notes: shared.notes.clone(),
    };
    let parts = HeartbeatParts {
        interval: setup.every,
        asker,
        look: setup.look,
        switch: shared.switch.clone(),
    };
    HeartbeatTask::new(parts, stored, now)
}

fn opinion_asker(setup: OpinionSetup, shared: &Shared) -> Option<Arc<Asker>> {
    let model = shared.model.clone()?;
    tracing::info!(provider = setup.llm.provider, "second opinions are enabled");
    Some(Arc::new(Asker {
        model,
        runtime: shared.runtime.clone(),
        blueprints: BlueprintStore::new(&shared.home),
        timeout: setup.time,
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
