//! Every source and pipeline of this box, and what the API may ask of them.
//!
//! Owns the two tables. Their changes have files of their own: [`sources`], [`pipelines`], [`restore`] (what is there after a start), [`sections`]
//! (what the configuration file has to say about it), [`holds`] (what the guard against crash loops keeps back, and what has failed), [`outages`] (what happens to
//! sources, as events). Invariants: a pipeline needs its source, a source with pipelines can't be deleted, a replaced source is found again by its
//! pipelines; what was accepted is stored before it is answered, in one write, so it is back after `kill -9`, also where the file names the same; a stored pipeline that can't run any more (its model is gone) is listed as failed with the reason, never forgotten; no
//! lock that others need is held while a thread is waited for, and no thread is waited for without end. Only changes wait for the disk with a lock held:
//! each has to be stored anyway.
//!
//! Locks, in the order in which they are taken: the turn of a pipeline, `changes`, `outages`, and last one of the tables or of the sections, or `restarts`.

mod deployed;
mod holds;
mod open_outages;
mod outages;
mod pipelines;
mod restarts;
mod restore;
mod sections;
mod sources;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, WarningKind};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::source::{SourceSpec, SourceState};
use watchkeeper_vision::frame::Frame;

use self::deployed::{Deployed, Idle};
use self::open_outages::Outages;
use self::outages::OutageJournal;
use self::pipelines::Turns;
use self::restarts::Restarts;
use self::sections::Sections;
use self::sources::Sources;
use crate::capture::mailbox::Recv;
use crate::capture::notices::{self, Teller};
use crate::capture::source::SourceHandle;
use crate::effects::Effects;
use crate::guard::GuardFile;
use crate::journal::Journal;
use crate::journal::media::MediaStore;
use crate::metrics::Metrics;
use crate::pipeline::checkpoint::CheckpointStore;
use crate::pipeline::checkpoint::pauses::TimedPauses;
use crate::pipeline::inference::models::Models;
use crate::pipeline::recorder::Recorder;
use crate::pipeline::retention::recordings::Recordings;
use crate::pipeline::worker::Subscribe as _;

/// Most sources of one box.
pub const MAX_SOURCES: usize = 64;

/// Most pipelines of one box.
pub const MAX_PIPELINES: usize = 128;

/// How often a look at a source asks whether it is known to be away.
const LOOK: Duration = Duration::from_millis(100);

/// What the manager is made of.
#[derive(Debug)]
pub struct Parts {
    /// Where events and specifications are kept.
    pub journal: Arc<Journal>,
    /// Where events go first.
    pub recorder: Recorder,
    /// Where pictures and clips of events are kept.
    pub media: Arc<MediaStore>,
    /// Until when pipelines are paused.
    pub pauses: TimedPauses,
    pub models: Models,
    pub metrics: Arc<Metrics>,
    /// Where annotated videos go, and how much of them is kept.
    pub recordings: Arc<Recordings>,
    /// What pipelines remember over a restart.
    pub checkpoints: Arc<CheckpointStore>,
    /// What workflows want done outside.
    pub effects: Arc<Effects>,
    /// Channels that rules may name.
    pub channels: Vec<ChannelId>,
    /// What keeps a crash loop from bricking the box.
    pub guard: Arc<GuardFile>,
    /// Identity of this run of the runtime.
    pub boot_id: Arc<str>,
    /// When it started.
    pub started: Instant,
    /// How long whoever ends a pipeline waits for it; [`crate::pipeline::worker::STOP_TIMEOUT`].
    pub stop_timeout: Duration,
}

/// Every source and pipeline of this box.
pub struct Manager {
    parts: Parts,
    sources: Arc<Sources>,
    pipelines: Arc<Mutex<BTreeMap<PipelineId, Deployed>>>,
    /// What the configuration file names.
    sections: Mutex<Sections<PipelineSpec>>,
    source_sections: Mutex<Sections<SourceSpec>>,
    /// Serialises changes of the two tables with what is stored.
    changes: Mutex<()>,
    /// Changes of one pipeline wait for each other, over the time that its end takes.
    turns: Turns,
    /// Counts the sources that were begun.
    runs: AtomicU64,
    notices: Teller,
    outages: Arc<Mutex<Outages>>,
    /// What has failed and is begun anew.
    restarts: Mutex<Restarts>,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("sources", &self.sources.table.read().len())
            .field("pipelines", &self.pipelines.lock().len())
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// An empty box, and the thread that journals its outages.
    ///
    /// # Errors
    /// When the thread can't be started.
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
            boot_id: Arc::clone(&parts.boot_id),
            started: parts.started,
        };
        std::thread::Builder::new()
            .name("outages".to_owned())
            .spawn(move || journaling.run_on(&received))?;
        Ok(Self {
            parts,
            sources,
            pipelines,
            sections: Mutex::default(),
            source_sections: Mutex::default(),
            changes: Mutex::default(),
            turns: Turns::default(),
            runs: AtomicU64::default(),
            notices,
            outages,
            restarts: Mutex::default(),
        })
    }

    /// What the parts are, for whoever answers about them.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Refuses a change that ends a pipeline or a source while nothing can be stored: their last events would have to wait for room, and
    /// everybody who wants to change something with them.
    fn check_storable(&self) -> Result<(), Problem> {
        self.storage_trouble()
            .map_or(Ok(()), |trouble| Err(storage(trouble)))
    }

    /// Why nothing can be stored now, if that is known: an event had to wait, or the disk failed a check.
    fn storage_trouble(&self) -> Option<String> {
        self.parts.recorder.storage_error().or_else(|| {
            let why = self.parts.journal.broken()?;
            Some(format!("events can't be stored: {why}"))
        })
    }

    /// A frame of `source` now: of a pipeline that watches it, or by looking for a moment.
    ///
    /// # Errors
    /// [`Problem`] when there is no such source or no frame comes within `patience`.
    pub fn frame(&self, source: &SourceId, patience: Duration) -> Result<Frame, Problem> {
        let Some(receiver) = self.sources.subscribe(source) else {
            return Err(self.no_source(source));
        };
        let not_ready = |why: String| {
            let detail = format!("source {:?}: {why}", source.as_str());
            Problem::new(503, ProblemCode::NotReady, detail)
        };
        let until = Instant::now() + patience;
        loop {
            match receiver.recv(LOOK) {
                Recv::Frame(frame) => return Ok(frame),
                Recv::Timeout => {}
                Recv::Failed { message, .. } => return Err(not_ready(message)),
                Recv::Ended | Recv::Closed => return Err(not_ready("it has ended".to_owned())),
            }
            // A camera that is known to be away is not waited for: the cause is known already.
            if let SourceState::Lost { message, .. } = self.source(source)?.state {
                return Err(not_ready(message));
            }
            if Instant::now() >= until {
                let seconds = patience.as_secs();
                return Err(not_ready(format!("no frame came within {seconds} s")));
            }
        }
    }

    /// One sentence for each thing that is asked for and does not run.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles: Vec<String> = self.storage_trouble().into_iter().collect();
        troubles.extend(self.parts.effects.troubles());
        for status in self.sources() {
            let id = &status.spec.id;
            match status.state {
                // Why the last look at it failed still stands in its status.
                SourceState::Failed { .. } if self.watchers_of(id).is_empty() => {}
                SourceState::Lost { message, .. } | SourceState::Failed { message, .. } => {
                    troubles.push(format!("source {:?}: {message}", id.as_str()));
                }
                SourceState::Live { blind: Some(how) } => {
                    troubles.push(format!("source {:?} shows nothing ({how:?})", id.as_str()));
                }
                SourceState::Live { blind: None }
                | SourceState::Connecting { .. }
                | SourceState::Ended
                | SourceState::Idle => {}
            }
        }
        for (id, deployed) in self.pipelines.lock().iter() {
            let id = id.as_str();
            let worker = match deployed {
                Deployed::Running(worker) => worker,
                Deployed::Idle {
                    why: Idle::Broken(why) | Idle::Held(why),
                    ..
                } => {
                    troubles.push(format!("pipeline {id:?}: {why}"));
                    continue;
                }
                // As a person wanted it.
                Deployed::Idle {
                    why: Idle::Stopped(_) | Idle::Over(_),
                    ..
                } => continue,
            };
            if let PipelineState::Failed { message } = worker.state() {
                troubles.push(format!("pipeline {id:?}: {message}"));
            }
            for warning in worker.warnings() {
                if matches!(
                    warning.kind,
                    WarningKind::OutsidePicture | WarningKind::NotRecording
                ) {
                    troubles.push(format!("pipeline {id:?}: {}", warning.message));
                }
            }
        }
        troubles
    }

    /// Ends everything: pipelines first, so that their events are durable, then sources. What has not ended at `until` is left to the end of the
    /// process.
    pub fn shut_down(&self, until: Instant) {
        let left = || until.saturating_duration_since(Instant::now());
        self.end_failures();
        let pipelines = std::mem::take(&mut *self.pipelines.lock());
        let workers = || {
            pipelines.values().filter_map(|deployed| match deployed {
                Deployed::Running(worker) => Some(worker),
                Deployed::Idle { .. } => None,
            })
        };
        // All of them first: what each waits for on its way out, the others wait for at the same time.
        workers().for_each(|worker| worker.begin_stop());
        for worker in workers() {
            worker.stop_within(left());
        }
        self.parts.checkpoints.shut_down(left());
        let ids: Vec<SourceId> = self.sources.table.read().keys().cloned().collect();
        let sources: Vec<SourceHandle> = ids
            .iter()
            .filter_map(|id| self.exchange(id, None))
            .collect();
        for source in sources {
            source.close_within(left());
        }
    }

    /// A number for the next source that is begun.
    fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }
}

fn limit(what: &str, most: usize) -> Problem {
    Problem::new(
        409,
        ProblemCode::Limit,
        format!("{most} {what} are the most of one box; delete one first"),
    )
}

fn storage(error: impl std::fmt::Display) -> Problem {
    Problem::new(
        507,
        ProblemCode::Storage,
        format!("nothing was changed, because it can't be stored: {error}"),
    )
}

#[cfg(test)]
mod tests;
