//! Every source and pipeline of this box, for the API.
//!
//! - A pipeline needs its source; a source with pipelines can't be deleted; pipelines find a
//!   replaced source again.
//! - An accepted change is stored in one write before it is answered. So it survives `kill -9`,
//!   even where the configuration file names the same pipeline.
//! - A stored pipeline that can't run (its model is gone) is listed as failed with the reason.
//! - No shared lock is held while a thread is waited for, and every wait for a thread has a
//!   timeout. Only changes wait for the disk under a lock, because each must be stored.
//!
//! Locks, in order: the lock of one pipeline, `changes`, `outages`, then one of the tables, the
//! sections, `restarts` or `load`.

mod change_locks;
mod deployed;
mod holds;
mod load;
mod load_state;
mod open_outages;
mod outage_journal;
mod outages;
mod pauses;
mod pipelines;
mod restarts;
mod restore;
mod sections;
mod source_table;
mod sources;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_config::{DeclaredSections, PrivacyMasks};
use watchkeeper_contract::health::{HealthReason, ReasonKind, StorageFault};
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, WarningKind};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::review::ReviewShare;
use watchkeeper_contract::source::{SourceSpec, SourceState, SourceStatus};
use watchkeeper_contract::time::Wall;
use watchkeeper_vision::frame::Frame;

use self::change_locks::ChangeLocks;
use self::deployed::{Deployed, Idle};
use self::load_state::LoadState;
use self::open_outages::{Outages, describe_blindness};
use self::outage_journal::OutageJournal;
use self::restarts::Restarts;
use self::sections::Sections;
use self::source_table::Sources;
use crate::boot::Boot;
use crate::capture;
use crate::capture::mailbox::Recv;
use crate::capture::notices::{self, NoticeSender};
use crate::capture::source::SourceHandle;
use crate::clock;
use crate::coverage::CoverageLedger;
use crate::effects::Effects;
use crate::guard::GuardFile;
use crate::history::DetectionHistory;
use crate::journal::media::MediaStore;
use crate::journal::{Journal, describe_review_share};
use crate::metrics::Metrics;
use crate::pipeline::checkpoint::CheckpointStore;
use crate::pipeline::checkpoint::pauses::TimedPauses;
use crate::pipeline::checkpoint::views::UsualViews;
use crate::pipeline::inference::models::Models;
use crate::pipeline::recorder::{Recorder, STORED_LATER};
use crate::pipeline::retention::recordings::Recordings;
use crate::pipeline::worker::{Subscribe as _, Worker};
use crate::thread::Thread;

/// Maximum number of sources of one box.
pub const MAX_SOURCES: usize = 64;

/// Maximum number of pipelines of one box.
pub const MAX_PIPELINES: usize = 128;

/// Interval of checking whether a source is known to be lost.
const LOST_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Parts of the runtime for the manager.
pub struct Parts {
    /// Stores events and specifications.
    pub journal: Arc<Journal>,
    /// Makes events durable.
    pub recorder: Recorder,
    /// Stores snapshots and clips of events.
    pub media: Arc<MediaStore>,
    /// End times of pauses.
    pub pauses: TimedPauses,
    /// Usual views of cameras.
    pub views: UsualViews,
    pub models: Models,
    pub metrics: Arc<Metrics>,
    /// Annotated videos and their retention.
    pub recordings: Arc<Recordings>,
    /// State of pipelines that outlives the process.
    pub checkpoints: Arc<CheckpointStore>,
    /// When each pipeline watched.
    pub coverage: Arc<CoverageLedger>,
    /// Detections of the last day.
    pub history: Arc<DetectionHistory>,
    /// Folders below which a dry run may read files.
    pub dry_run_roots: Vec<PathBuf>,
    /// Effects of workflows.
    pub effects: Arc<Effects>,
    /// Privacy masks of sources.
    pub privacy: PrivacyMasks,
    /// Sections that the configuration file has; absent: there is no file.
    pub declared: Option<DeclaredSections>,
    /// Channels that rules may name.
    pub channels: Vec<ChannelId>,
    /// Holds pipelines back after crashes of the process.
    pub guard: Arc<GuardFile>,
    pub boot: Boot,
    /// Longest wait for a pipeline to stop, usually [`crate::pipeline::worker::STOP_TIMEOUT`].
    pub stop_timeout: Duration,
}

/// Every source and pipeline of this box.
pub struct Manager {
    parts: Parts,
    sources: Arc<Sources>,
    pipelines: Arc<Mutex<BTreeMap<PipelineId, Deployed>>>,
    /// Sections of the configuration file.
    sections: Mutex<Sections<PipelineSpec>>,
    source_sections: Mutex<Sections<SourceSpec>>,
    /// Serialises changes of both tables and of the store.
    changes: Mutex<()>,
    /// Serialises changes of one pipeline, including the wait for its end.
    change_locks: ChangeLocks,
    /// Number of sources opened so far.
    runs: AtomicU64,
    /// When the journal was first found broken; only a restart opens it again.
    broken_since: OnceLock<Wall>,
    notices: NoticeSender,
    outages: Arc<Mutex<Outages>>,
    /// Journals the notices.
    outage_thread: Thread,
    /// Failed pipelines and their restarts.
    restarts: Mutex<Restarts>,
    /// Shedding of load by heat.
    load: Mutex<LoadState>,
}

impl Manager {
    /// An empty manager, and the thread that journals outages.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn new(parts: Parts) -> std::io::Result<Self> {
        let (notices, received) = notices::channel();
        let outages = Arc::new(Mutex::new(Outages::default()));
        let sources = Arc::<Sources>::default();
        let pipelines = Arc::<Mutex<BTreeMap<PipelineId, Deployed>>>::default();
        let journaling = OutageJournal {
            outages: Arc::clone(&outages),
            sources: Arc::clone(&sources),
            pipelines: Arc::clone(&pipelines),
            recorder: parts.recorder.clone(),
            boot: parts.boot.clone(),
        };
        let outage_thread = Thread::spawn("outages".to_owned(), move || {
            journaling.run_until_closed(&received);
        })?;
        Ok(Self {
            parts,
            sources,
            pipelines,
            sections: Mutex::default(),
            source_sections: Mutex::default(),
            changes: Mutex::default(),
            change_locks: ChangeLocks::default(),
            runs: AtomicU64::default(),
            broken_since: OnceLock::new(),
            notices,
            outages,
            outage_thread,
            restarts: Mutex::default(),
            load: Mutex::default(),
        })
    }

    /// The parts that the manager was made of.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Rejects a change that ends a pipeline or source while the disk refuses. The last events
    /// would wait for the disk, and later changes for them.
    fn check_storable(&self) -> Result<(), Problem> {
        self.storage_error()
            .map_or(Ok(()), |error| Err(storage(error)))
    }

    /// Why nothing can be stored, and where events are meanwhile.
    fn storage_error(&self) -> Option<String> {
        let StorageFault { message, since } = self.storage_fault()?;
        let (journal, recorder) = (&self.parts.journal, &self.parts.recorder);
        if journal.broken().is_some() {
            return Some(message);
        }
        let effect = if recorder.blocks_pipelines() {
            ", there is no room for another one, so pipelines watch nothing"
        } else if recorder.has_no_room_for_pictures() {
            ", new ones have no pictures"
        } else {
            ""
        };
        let outlook = recorder.storage_error().map(|error| error.outlook());
        let outlook = outlook.unwrap_or_else(|| STORED_LATER.to_owned());
        Some(format!(
            "{message}; since {}; {} events wait in memory{effect}; {outlook}",
            clock::utc(since.unix_ms),
            recorder.waiting()
        ))
    }

    /// Why nothing can be stored, if that is known: an event waits, the store waits for its disk,
    /// or the disk failed a check.
    pub fn storage_fault(&self) -> Option<StorageFault> {
        let Parts {
            journal,
            recorder,
            boot,
            ..
        } = &self.parts;
        let held = recorder.storage_error();
        let broken = journal.broken();
        let broken = broken.map(|why| (why, *self.broken_since.get_or_init(clock::wall)));
        // A store that was never open waits since the start, with or without events.
        let waiting = journal
            .waiting()
            .map(|waiting| (waiting.why, boot.started_at()));
        let held = held.map(|held| (held.why, held.since));
        let since = held.as_ref().map(|(_, since)| *since);
        let (why, found_at) = broken.or(waiting).or(held)?;
        let since = since.unwrap_or(found_at);
        let message = format!("events can't be stored: {why}");
        Some(StorageFault { message, since })
    }

    /// A current frame of `source`, from a running subscription or a short one.
    ///
    /// # Errors
    /// [`Problem`] when there is no such source, no frame within `timeout`, or a privacy mask of
    /// classes, which only a pipeline can apply.
    pub fn frame(&self, source: &SourceId, timeout: Duration) -> Result<Frame, Problem> {
        self.refuse_class_mask(source)?;
        let Some(receiver) = self.sources.subscribe(source) else {
            return Err(self.no_source(source));
        };
        let not_ready = |why: String| {
            let detail = format!("source {:?}: {why}", source.as_str());
            Problem::not_ready(detail)
        };
        let until = Instant::now() + timeout;
        loop {
            match receiver.recv(LOST_CHECK_INTERVAL) {
                Recv::Frame(frame) => return Ok(frame),
                Recv::Timeout => {}
                Recv::Failed { message, .. } => return Err(not_ready(message)),
                Recv::Ended | Recv::Closed => {
                    return Err(not_ready("the source has ended".to_owned()));
                }
            }
            // A camera that is known to be lost is not waited for; its cause is known.
            if let SourceState::Lost { message, .. } = self.source(source)?.state {
                return Err(not_ready(message));
            }
            if Instant::now() >= until {
                let seconds = timeout.as_secs();
                return Err(not_ready(format!("no frame within {seconds} s")));
            }
        }
    }

    /// The rules of running pipelines too many of whose events need a person.
    pub fn review_shares(&self) -> Vec<ReviewShare> {
        let running = self.running_workers().into_iter();
        let watching = running.filter(|worker| worker.state() == PipelineState::Running);
        watching
            .flat_map(|worker| self.worker_review_shares(&worker))
            .collect()
    }

    fn worker_review_shares(&self, worker: &Worker) -> Vec<ReviewShare> {
        let Some(since) = worker.results().counting_since else {
            return Vec::new();
        };
        let (journal, now_ms) = (&self.parts.journal, clock::wall().unix_ms);
        let shares = journal.high_review_shares(&worker.spec().id, since.unix_ms, now_ms);
        let in_force = shares
            .into_iter()
            .filter(|share| worker.has_rule(&share.rule));
        in_force.collect()
    }

    /// Whether there are pipelines, and a user paused or stopped each of them.
    pub fn rests(&self) -> bool {
        let table = self.pipelines.lock();
        let mut all = table.values();
        let rests = |deployed: &Deployed| match deployed {
            Deployed::Running(worker) => worker.is_paused(),
            Deployed::Idle { why, .. } => matches!(why, Idle::Stopped(_)),
        };
        !table.is_empty() && all.all(rests)
    }

    /// A reason for each trouble of the box, and for each source or pipeline that should run and
    /// does not. The rules of `shares` are also reasons: their events need people too often.
    pub fn troubles(&self, shares: &[ReviewShare]) -> Vec<HealthReason> {
        let mut troubles = Vec::new();
        let mut add = |kind, why: Vec<String>| {
            troubles.extend(why.into_iter().map(|why| HealthReason::new(kind, why)));
        };
        let hanging = capture::teardown_trouble(capture::hanging_teardowns());
        add(
            ReasonKind::Storage,
            self.storage_error().into_iter().collect(),
        );
        add(ReasonKind::Effects, self.parts.effects.problems());
        add(ReasonKind::Heat, self.load_level().1.into_iter().collect());
        add(ReasonKind::Teardown, hanging.into_iter().collect());
        for status in self.sources() {
            // The status still shows the last failed try, but nothing watches the source.
            let is_unwatched = matches!(status.state, SourceState::Failed { .. })
                && self.watchers_of(&status.spec.id).is_empty();
            if !is_unwatched {
                add_source_troubles(status, &mut troubles);
            }
        }
        for (id, deployed) in self.pipelines.lock().iter() {
            match deployed {
                Deployed::Running(worker) => add_worker_troubles(id, worker, &mut troubles),
                Deployed::Idle {
                    why: Idle::Broken(why) | Idle::Held(why),
                    ..
                } => troubles.push(pipeline_trouble(ReasonKind::PipelineState, id, why)),
                // It starts soon, or it rests as a user requested it.
                Deployed::Idle {
                    why: Idle::Unchecked(_) | Idle::Stopped(_) | Idle::Finished(_),
                    ..
                } => {}
            }
        }
        troubles.extend(shares.iter().map(|share| HealthReason {
            pipeline: Some(share.pipeline.clone()),
            ..HealthReason::new(ReasonKind::Reviews, describe_review_share(share))
        }));
        troubles
    }

    /// Stops all pipelines, so that their events are durable, then all sources. Threads that have
    /// not ended at `until` are abandoned.
    pub fn shut_down(&self, until: Instant) {
        let remaining = || until.saturating_duration_since(Instant::now());
        self.end_restart_events();
        self.end_load_event();
        let pipelines = std::mem::take(&mut *self.pipelines.lock());
        let workers = || pipelines.values().filter_map(Deployed::running);
        // All at once: they wait for the same things in parallel.
        workers().for_each(|worker| worker.begin_stop());
        for worker in workers() {
            worker.stop_within(remaining());
        }
        self.parts.checkpoints.shut_down(remaining());
        let ids: Vec<SourceId> = self.sources.table.read().keys().cloned().collect();
        let sources: Vec<SourceHandle> = ids
            .iter()
            .filter_map(|id| self.replace_source(id, None))
            .collect();
        for source in sources {
            source.close_within(remaining());
        }
        // A source that hangs keeps a sender.
        self.notices.close();
        self.outage_thread.join(remaining());
    }

    fn running_workers(&self) -> Vec<Arc<Worker>> {
        let table = self.pipelines.lock();
        let running = table.values().filter_map(Deployed::running);
        running.cloned().collect()
    }

    /// Number of the next source.
    fn next_source_number(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }
}

fn add_source_troubles(status: SourceStatus, troubles: &mut Vec<HealthReason>) {
    let id = status.spec.id;
    let name = id.as_str();
    let mut add = |kind, sentence: String| {
        let source = Some(id.clone());
        troubles.push(HealthReason {
            source,
            ..HealthReason::new(kind, sentence)
        });
    };
    match status.state {
        SourceState::Lost { message, .. } | SourceState::Failed { message, .. } => {
            add(
                ReasonKind::SourceState,
                format!("source {name:?}: {message}"),
            );
        }
        SourceState::Live { blind } => {
            if let Some(why) = status.decoder.and_then(|decoder| decoder.fallback) {
                let sentence = format!("source {name:?} is decoded on the processor: {why}");
                add(ReasonKind::Decoder, sentence);
            }
            if let Some(how) = blind {
                let why = describe_blindness(how);
                add(ReasonKind::Blind, format!("source {name:?}: {why}"));
            }
        }
        SourceState::Connecting { .. } | SourceState::Ended | SourceState::Idle => {}
    }
}

fn pipeline_trouble(kind: ReasonKind, id: &PipelineId, why: &str) -> HealthReason {
    HealthReason {
        pipeline: Some(id.clone()),
        ..HealthReason::new(kind, format!("pipeline {:?}: {why}", id.as_str()))
    }
}

fn add_worker_troubles(id: &PipelineId, worker: &Worker, troubles: &mut Vec<HealthReason>) {
    let trouble = |kind, why: &str| pipeline_trouble(kind, id, why);
    if let PipelineState::Failed { message } = worker.state() {
        let source = &worker.spec().source;
        let is_listed = troubles
            .iter()
            .any(|it| it.kind == ReasonKind::SourceState && it.source.as_ref() == Some(source));
        troubles.push(match worker.has_lost_source() && is_listed {
            true => HealthReason {
                source: Some(source.clone()),
                ..trouble(
                    ReasonKind::PipelineState,
                    &format!("its camera {:?} failed", source.as_str()),
                )
            },
            false => trouble(ReasonKind::PipelineState, &message),
        });
    } else if let Some(stall) = worker.stall() {
        troubles.push(trouble(ReasonKind::PipelineWarning, &stall));
    }
    for warning in worker.warnings() {
        if matches!(
            warning.kind,
            WarningKind::OutsidePicture | WarningKind::NotRecording | WarningKind::PrivacyMask
        ) {
            troubles.push(trouble(ReasonKind::PipelineWarning, &warning.message));
        }
    }
}

fn limit(what: &str, max: usize) -> Problem {
    Problem::new(
        409,
        ProblemCode::Limit,
        format!("limit of {max} {what} reached; delete one first"),
    )
}

fn storage(error: impl std::fmt::Display) -> Problem {
    Problem::storage(format!("nothing was changed: it can't be stored: {error}"))
}

#[cfg(test)]
pub(crate) mod tests;
