//! Every source and pipeline of this box, and what the API may ask of them.
//!
//! Owns the two tables and their rules: a pipeline needs its source, a source with pipelines can't be deleted, a replaced source is found again by
//! its pipelines. Invariants: what was accepted is stored before it is answered, so it is back after `kill -9`; a stored pipeline
//! that can't run any more (its model is gone) is listed as failed with the reason, never forgotten; what a person said about a configured
//! pipeline holds until its section is edited; no lock is held while a thread is joined.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::id::{EventSeq, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{
    PipelineResults, PipelineSpec, PipelineState, PipelineStatus, WarningKind,
};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::{SourceSpec, SourceState, SourceStatus};

use super::deployed::{Deployed, Idle};
use super::host::DetectHost;
use super::models::Models;
use super::outage::{self, Notice, Outages};
use super::plan::{self, Plan};
use super::recorder::Recorder;
use super::recordings::Recordings;
use super::run::Run;
use super::worker::{Services, Subscribe, Worker, new_id};
use crate::capture::mailbox::FrameReceiver;
use crate::capture::source::{Deps, Source, SourceHandle, SourceNotice};
use crate::clock;
use crate::detect::Detector;
use crate::guard::{GuardFile, Held, fingerprint};
use crate::journal::{Journal, LastWord, Unreadable, Word};
use crate::server::metrics::Metrics;

/// Most sources of one box.
pub const MAX_SOURCES: usize = 64;

/// Most pipelines of one box.
pub const MAX_PIPELINES: usize = 128;

/// How often a look at a source asks whether it is known to be away.
const LOOK: Duration = Duration::from_millis(100);

/// Notices of sources that may wait for the thread that journals them.
const NOTICES: usize = 256;

/// What the manager is made of.
#[derive(Debug)]
pub struct Parts {
    /// Where events and specifications are kept.
    pub journal: Arc<Journal>,
    /// Where events go first.
    pub recorder: Recorder,
    /// Loads models.
    pub models: Models,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Where annotated videos go, and how much of them is kept.
    pub recordings: Arc<Recordings>,
    /// What keeps a crash loop from bricking the box.
    pub guard: Arc<GuardFile>,
    /// Identity of this run of the runtime.
    pub boot_id: Arc<str>,
    /// When it started.
    pub started: Instant,
}

/// Sources by name; shared with the pipelines, which look themselves up here.
#[derive(Debug, Default)]
struct Sources {
    table: RwLock<BTreeMap<SourceId, SourceHandle>>,
}

impl Subscribe for Sources {
    fn subscribe(&self, source: &SourceId) -> Option<FrameReceiver> {
        self.table.read().get(source).map(SourceHandle::subscribe)
    }
}

/// Every source and pipeline of this box.
pub struct Manager {
    parts: Parts,
    sources: Arc<Sources>,
    pipelines: Arc<Mutex<BTreeMap<PipelineId, Deployed>>>,
    /// What the configuration file names, as it stands there.
    configured: Mutex<BTreeMap<PipelineId, PipelineSpec>>,
    /// Serialises changes of the two tables with what is stored.
    changes: Mutex<()>,
    notices: SyncSender<(SourceId, SourceNotice)>,
    outages: Arc<Mutex<Outages>>,
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
        let (notices, received) = mpsc::sync_channel(NOTICES);
        let outages = Arc::new(Mutex::new(Outages::default()));
        let pipelines = Arc::<Mutex<BTreeMap<PipelineId, Deployed>>>::default();
        let journaling = OutageJournal {
            outages: Arc::clone(&outages),
            pipelines: Arc::clone(&pipelines),
            recorder: parts.recorder.clone(),
            boot_id: Arc::clone(&parts.boot_id),
            started: parts.started,
        };
        std::thread::Builder::new()
            .name("outages".to_owned())
            .spawn(move || journaling.run(&received))?;
        Ok(Self {
            parts,
            sources: Arc::default(),
            pipelines,
            configured: Mutex::default(),
            changes: Mutex::default(),
            notices,
            outages,
        })
    }

    /// What the parts are, for whoever answers about them.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Brings back what was stored, then adds what the configuration file names; the file wins where both name the same.
    ///
    /// Returns one sentence for each thing that could not be brought back.
    pub fn restore(&self, sources: &[SourceSpec], pipelines: &[PipelineSpec]) -> Vec<String> {
        let mut troubles = Vec::new();
        let specs = self.parts.journal.specs();
        match specs.sources() {
            Ok(stored) => {
                troubles.extend(stored.unreadable.iter().map(unreadable));
                for spec in stored.specs {
                    self.open_source(spec);
                }
            }
            Err(error) => troubles.push(format!("stored sources can't be read: {error}")),
        }
        for spec in sources {
            self.open_source(spec.clone());
        }
        let mut wanted: BTreeMap<PipelineId, PipelineSpec> = BTreeMap::new();
        match specs.pipelines() {
            Ok(stored) => {
                troubles.extend(stored.unreadable.iter().map(unreadable));
                wanted.extend(stored.specs.into_iter().map(|s| (s.id.clone(), s)));
            }
            Err(error) => troubles.push(format!("stored pipelines can't be read: {error}")),
        }
        wanted.extend(pipelines.iter().map(|s| (s.id.clone(), s.clone())));
        *self.configured.lock() = pipelines
            .iter()
            .map(|s| (s.id.clone(), s.clone()))
            .collect();
        let words = self.last_words(&mut troubles);
        self.judge(&wanted);
        for (id, mut spec) in wanted {
            let word = words.get(&id);
            match word.map(|w| w.word) {
                Some(Word::Pause) => spec.paused = true,
                Some(Word::Run) => spec.paused = false,
                Some(Word::Stop) | None => {}
            }
            let deployed = match word.filter(|w| w.word == Word::Stop) {
                Some(word) => Deployed::idle(spec, Idle::Stopped(stopped(word))),
                None => match self.parts.guard.held(&id) {
                    Some(held) => Deployed::idle(spec, Idle::Held(held.why)),
                    None => self.built(spec),
                },
            };
            if let Deployed::Idle {
                why: Idle::Broken(why) | Idle::Held(why),
                ..
            } = &deployed
            {
                troubles.push(format!("pipeline {:?}: {why}", id.as_str()));
            }
            self.pipelines.lock().insert(id.clone(), deployed);
            self.watched_now(&id);
        }
        troubles
    }

    /// What was said about pipelines that the file still describes in the same way; the rest is forgotten.
    fn last_words(&self, troubles: &mut Vec<String>) -> BTreeMap<PipelineId, LastWord> {
        let specs = self.parts.journal.specs();
        let words = match specs.words() {
            Ok(words) => words,
            Err(error) => {
                troubles.push(format!("stored pauses and stops can't be read: {error}"));
                return BTreeMap::new();
            }
        };
        troubles.extend(words.unreadable.iter().map(unreadable));
        let configured = self.configured.lock();
        let (hold, stale): (Vec<_>, Vec<_>) = words.specs.into_iter().partition(|word| {
            let spec = configured.get(&word.id);
            // A section that can't be read just now was not edited on purpose.
            spec.is_none_or(|spec| fingerprint(spec) == word.fingerprint)
        });
        for word in stale {
            tracing::info!(pipeline = %word.id, word = ?word.word, "edited since, so what was said about it no longer holds");
            if let Err(error) = specs.delete_word(&word.id) {
                tracing::warn!(%error, "an old word is not forgotten");
            }
        }
        let known = hold.into_iter().filter(|w| configured.contains_key(&w.id));
        known.map(|w| (w.id.clone(), w)).collect()
    }

    /// Lets the guard look at what is going to run, and tells what it holds or lets go.
    fn judge(&self, wanted: &BTreeMap<PipelineId, PipelineSpec>) {
        let prints = wanted
            .values()
            .map(|s| (s.id.clone(), self.print(s)))
            .collect();
        let (newly, released) = self.parts.guard.judge(&prints, &mut new_id);
        for id in newly {
            if let Some(held) = self.parts.guard.held(&id) {
                tracing::error!(pipeline = %id, "{}", held.why);
                self.tell_held(&id, &held, Phase::New);
            }
        }
        for (id, held) in released {
            self.tell_held(&id, &held, Phase::End);
        }
    }

    /// Fingerprint of what runs: the pipeline with its source, whether paused or not.
    fn print(&self, spec: &PipelineSpec) -> String {
        let source = self
            .sources
            .table
            .read()
            .get(&spec.source)
            .map(|s| s.spec().clone());
        let spec = PipelineSpec {
            paused: false,
            ..spec.clone()
        };
        fingerprint(&(spec, source))
    }

    /// Tells the guard what runs; to be called now and then.
    pub fn beat(&self) {
        let running: Vec<_> = {
            let table = self.pipelines.lock();
            let workers = table.values().filter_map(|deployed| match deployed {
                Deployed::Running(worker) if worker.wants_frames() => Some(Arc::clone(worker)),
                Deployed::Running(_) | Deployed::Idle { .. } => None,
            });
            workers.collect()
        };
        let prints = running
            .iter()
            .map(|w| (w.spec().id.clone(), self.print(w.spec())))
            .collect();
        self.parts.guard.beat(&prints);
    }

    /// Lifts a hold, if there is one.
    fn release(&self, id: &PipelineId) {
        if let Some(held) = self.parts.guard.release(id) {
            self.tell_held(id, &held, Phase::End);
        }
    }

    fn tell_held(&self, id: &PipelineId, held: &Held, phase: Phase) {
        let record = outage::OutageRecord {
            id: held.event,
            phase,
            body: EventBody::PipelineHeld {
                message: held.why.clone(),
            },
        };
        let mut event = box_event(record, &self.parts.boot_id, self.parts.started);
        event.pipeline = Some(id.clone());
        event.severity = Severity::Critical;
        self.parts.recorder.record(event, None);
    }

    /// A pipeline at the start: running, or broken with the reason.
    fn built(&self, spec: PipelineSpec) -> Deployed {
        match self.build(&spec) {
            Ok(worker) => Deployed::Running(Arc::new(worker)),
            Err(problem) => Deployed::idle(spec, Idle::Broken(problem.to_string())),
        }
    }

    /// Keeps what a person wants of a pipeline that the file names. False when the file does not name it.
    fn say(&self, id: &PipelineId, word: Word) -> Result<bool, Problem> {
        let Some(configured) = self.configured.lock().get(id).map(fingerprint) else {
            return Ok(false);
        };
        let word = LastWord {
            id: id.clone(),
            fingerprint: configured,
            word,
            at_ms: clock::wall().unix_ms,
        };
        self.parts
            .journal
            .specs()
            .put_word(&word)
            .map_err(storage)?;
        Ok(true)
    }

    /// Every source.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceStatus> {
        let table = self.sources.table.read();
        table.values().map(SourceHandle::status).collect()
    }

    /// One source.
    ///
    /// # Errors
    /// [`Problem`] when there is no such source.
    pub fn source(&self, id: &SourceId) -> Result<SourceStatus, Problem> {
        let table = self.sources.table.read();
        table
            .get(id)
            .map(SourceHandle::status)
            .ok_or_else(|| self.no_source(id))
    }

    /// Adds a source, or replaces the one of the same name; its pipelines go on with the new one.
    ///
    /// # Errors
    /// [`Problem`] for an address that can't be read, too many sources, or a store that refuses.
    pub fn put_source(&self, spec: SourceSpec) -> Result<SourceStatus, Problem> {
        check_source(&spec)?;
        let _change = self.changes.lock();
        self.check_storable()?;
        {
            let table = self.sources.table.read();
            if !table.contains_key(&spec.id) && table.len() >= MAX_SOURCES {
                return Err(limit("sources", MAX_SOURCES));
            }
        }
        self.parts
            .journal
            .specs()
            .put_source(&spec)
            .map_err(storage)?;
        let id = spec.id.clone();
        self.open_source(spec);
        self.source(&id)
    }

    /// Removes a source.
    ///
    /// # Errors
    /// [`Problem`] when there is none, a pipeline still needs it, or the store refuses.
    pub fn delete_source(&self, id: &SourceId) -> Result<(), Problem> {
        let _change = self.changes.lock();
        if !self.sources.table.read().contains_key(id) {
            return Err(self.no_source(id));
        }
        self.check_storable()?;
        let users: Vec<String> = self
            .pipelines
            .lock()
            .iter()
            .filter(|(_, deployed)| deployed.spec().source == *id)
            .map(|(pipeline, _)| pipeline.to_string())
            .collect();
        if !users.is_empty() {
            return Err(Problem::new(
                409,
                ProblemCode::Conflict,
                format!(
                    "source {:?} is watched by {}; delete {} first",
                    id.as_str(),
                    users.join(", "),
                    if users.len() == 1 { "it" } else { "them" }
                ),
            )
            .at("id", id.as_str()));
        }
        self.parts
            .journal
            .specs()
            .delete_source(id)
            .map_err(storage)?;
        let gone = self.sources.table.write().remove(id);
        drop(gone);
        self.forget_outage(id);
        Ok(())
    }

    /// Every pipeline.
    #[must_use]
    pub fn pipelines(&self) -> Vec<PipelineStatus> {
        let all: Vec<Deployed> = {
            let table = self.pipelines.lock();
            table.values().cloned().collect()
        };
        all.iter().map(Deployed::status).collect()
    }

    /// One pipeline.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline.
    pub fn pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        Ok(self.handle(id)?.status())
    }

    /// Numbers of one pipeline.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline.
    pub fn results(&self, id: &PipelineId) -> Result<PipelineResults, Problem> {
        Ok(self.handle(id)?.status().results)
    }

    /// Deploys a pipeline. With `replace` the one of the same name ends first, its open events with it.
    ///
    /// # Errors
    /// [`Problem`] when the specification is not valid, its source or model is not here, the name is taken, or the store refuses; what ran
    /// before then goes on running.
    pub fn create_pipeline(
        &self,
        spec: PipelineSpec,
        replace: bool,
    ) -> Result<PipelineStatus, Problem> {
        let _change = self.changes.lock();
        let exists = {
            let table = self.pipelines.lock();
            if !table.contains_key(&spec.id) && table.len() >= MAX_PIPELINES {
                return Err(limit("pipelines", MAX_PIPELINES));
            }
            table.contains_key(&spec.id)
        };
        if exists && !replace {
            return Err(Problem::new(
                409,
                ProblemCode::Conflict,
                format!(
                    "there is a pipeline {:?} already; PUT replaces it",
                    spec.id.as_str()
                ),
            )
            .at("id", spec.id.as_str()));
        }
        // Everything that can fail comes before anything that changes.
        self.check_storable()?;
        let prepared = self.prepare(&spec)?;
        self.parts
            .journal
            .specs()
            .put_pipeline(&spec)
            .map_err(storage)?;
        self.say(&spec.id, if spec.paused { Word::Pause } else { Word::Run })?;
        self.release(&spec.id);
        let old = self.pipelines.lock().remove(&spec.id);
        if let Some(Deployed::Running(worker)) = old {
            worker.stop();
        }
        self.run(spec, prepared)
    }

    /// Starts what was prepared and lists it, also when it does not start: it is stored, so it is there.
    fn run(&self, spec: PipelineSpec, prepared: Prepared) -> Result<PipelineStatus, Problem> {
        let id = spec.id.clone();
        let (deployed, answer) = match self.start(spec.clone(), prepared) {
            Ok(worker) => {
                let status = worker.status();
                (Deployed::Running(Arc::new(worker)), Ok(status))
            }
            Err(problem) => {
                let why = Idle::Broken(problem.to_string());
                (Deployed::idle(spec, why), Err(problem))
            }
        };
        self.pipelines.lock().insert(id.clone(), deployed);
        self.watched_now(&id);
        answer
    }

    /// Stops taking frames.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline or it can't run.
    pub fn pause(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        self.set_paused(id, true)
    }

    /// Takes frames again.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline or it can't run.
    pub fn resume(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        self.set_paused(id, false)
    }

    fn set_paused(&self, id: &PipelineId, paused: bool) -> Result<PipelineStatus, Problem> {
        let _change = self.changes.lock();
        let deployed = self.handle(id)?;
        let mut spec = deployed.spec().clone();
        spec.paused = paused;
        let word = if paused { Word::Pause } else { Word::Run };
        let worker = match deployed {
            Deployed::Running(worker) => worker,
            // Resuming what was stopped, held or broken is another try.
            Deployed::Idle { .. } if !paused => {
                let prepared = self.prepare(&spec)?;
                self.keep(&spec, word)?;
                self.release(id);
                return self.run(spec, prepared);
            }
            Deployed::Idle { .. } => deployed.worker()?,
        };
        self.keep(&spec, word)?;
        if paused {
            worker.pause();
        } else {
            worker.resume();
            self.watched_now(id);
        }
        Ok(worker.status())
    }

    /// Stores a change of `paused`: as a word where the file names the pipeline, else in its specification.
    fn keep(&self, spec: &PipelineSpec, word: Word) -> Result<(), Problem> {
        if self.say(&spec.id, word)? {
            return Ok(());
        }
        let specs = self.parts.journal.specs();
        specs.put_pipeline(spec).map_err(storage)
    }

    /// Ends a pipeline and forgets it. One that the configuration file names stays listed as stopped, over restarts too.
    ///
    /// # Errors
    /// [`Problem`] when there is none or the store refuses.
    pub fn delete_pipeline(&self, id: &PipelineId) -> Result<(), Problem> {
        let _change = self.changes.lock();
        self.handle(id)?;
        self.check_storable()?;
        let is_configured = self.say(id, Word::Stop)?;
        self.parts
            .journal
            .specs()
            .delete_pipeline(id)
            .map_err(storage)?;
        self.release(id);
        let gone = self.pipelines.lock().remove(id);
        if let Some(Deployed::Running(worker)) = gone {
            worker.stop();
        }
        let configured = self.configured.lock().get(id).cloned();
        if let (true, Some(spec)) = (is_configured, configured) {
            let word = LastWord {
                id: id.clone(),
                fingerprint: String::new(),
                word: Word::Stop,
                at_ms: clock::wall().unix_ms,
            };
            let stopped = Deployed::idle(spec, Idle::Stopped(stopped(&word)));
            self.pipelines.lock().insert(id.clone(), stopped);
        }
        Ok(())
    }

    /// Refuses a change that ends a pipeline or a source while nothing can be stored: their last events would have to wait for room, and
    /// everybody who wants to change something with them.
    fn check_storable(&self) -> Result<(), Problem> {
        self.storage_trouble()
            .map_or(Ok(()), |trouble| Err(storage(trouble)))
    }

    /// Why nothing can be stored now, if that is known: an event had to wait, or the disk failed a check.
    fn storage_trouble(&self) -> Option<String> {
        self.parts.recorder.trouble().or_else(|| {
            let why = self.parts.journal.broken()?;
            Some(format!("events can't be stored: {why}"))
        })
    }

    /// The worker of a pipeline that runs.
    ///
    /// # Errors
    /// [`Problem`] when there is none or it can't run.
    pub fn worker(&self, id: &PipelineId) -> Result<Arc<Worker>, Problem> {
        self.handle(id)?.worker()
    }

    /// A frame of `source` now: of a pipeline that watches it, or by looking for a moment.
    ///
    /// # Errors
    /// [`Problem`] when there is no such source or no frame comes within `patience`.
    pub fn frame(
        &self,
        source: &SourceId,
        patience: Duration,
    ) -> Result<crate::frame::Frame, Problem> {
        use crate::capture::mailbox::Recv;
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
        for status in self.sources() {
            let id = &status.spec.id;
            match status.state {
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
                    why: Idle::Stopped(_),
                    ..
                } => continue,
            };
            if let PipelineState::Failed { message } = worker.state() {
                troubles.push(format!("pipeline {id:?}: {message}"));
            }
            for warning in worker.warnings() {
                if warning.kind == WarningKind::OutsidePicture {
                    troubles.push(format!("pipeline {id:?}: {}", warning.message));
                }
            }
        }
        troubles
    }

    /// Ends everything: pipelines first, so that their events are durable, then sources.
    pub fn shut_down(&self) {
        let pipelines = std::mem::take(&mut *self.pipelines.lock());
        // All of them first: what each waits for on its way out, the others wait for at the same time.
        for deployed in pipelines.values() {
            if let Deployed::Running(worker) = deployed {
                worker.begin_stop();
            }
        }
        for deployed in pipelines.values() {
            if let Deployed::Running(worker) = deployed {
                worker.stop();
            }
        }
        let sources = std::mem::take(&mut *self.sources.table.write());
        let ids: Vec<SourceId> = sources.keys().cloned().collect();
        drop(sources);
        for id in ids {
            self.forget_outage(&id);
        }
    }

    fn open_source(&self, spec: SourceSpec) {
        let id = spec.id.clone();
        let deps = Deps {
            wall: Arc::new(clock::wall),
            notices: Some(self.notices.clone()),
            seed: fastrand::u64(..),
            ..Deps::default()
        };
        let handle = Source::spawn(spec, deps);
        let old = self.sources.table.write().insert(id.clone(), handle);
        // Stopping the old one waits for its thread; nobody else should.
        drop(old);
        self.forget_outage(&id);
    }

    fn forget_outage(&self, id: &SourceId) {
        let mut outages = self.outages.lock();
        let record = outages.notice(Instant::now(), id, Notice::Forgotten, &mut new_id);
        // Under the lock, so that nobody's `new` overtakes this `end`.
        self.tell_outage(id, record);
    }

    /// A pipeline begins to watch: what only a look had noticed of its source is an outage from now on.
    fn watched_now(&self, id: &PipelineId) {
        let Ok(deployed) = self.handle(id) else {
            return;
        };
        let source = deployed.spec().source.clone();
        let mut outages = self.outages.lock();
        let record = outages.watched(Instant::now(), &source, &mut new_id);
        self.tell_outage(&source, record);
    }

    fn tell_outage(&self, source: &SourceId, record: Option<outage::OutageRecord>) {
        if let Some(record) = record {
            let mut event = box_event(record, &self.parts.boot_id, self.parts.started);
            event.source = Some(source.clone());
            self.parts.recorder.record(event, None);
        }
    }

    fn build(&self, spec: &PipelineSpec) -> Result<Worker, Problem> {
        let prepared = self.prepare(spec)?;
        self.start(spec.clone(), prepared)
    }

    fn prepare(&self, spec: &PipelineSpec) -> Result<Prepared, Problem> {
        if !self.sources.table.read().contains_key(&spec.source) {
            let mut problem = self.no_source(&spec.source);
            problem.field = Some("source".to_owned());
            return Err(problem);
        }
        let plan = plan::plan(spec)?;
        let mut detectors: BTreeMap<String, Box<dyn Detector>> = BTreeMap::new();
        let wanted: Vec<String> = match &spec.model {
            Some(model) if !plan.models.is_empty() => vec![model.clone()],
            _ => plan.models.clone(),
        };
        for model in wanted {
            let detector = self.parts.models.open(&model).map_err(|error| {
                Problem::new(422, ProblemCode::Model, error.to_string()).at(
                    if spec.model.is_some() {
                        "model"
                    } else {
                        "workflow"
                    },
                    model.clone(),
                )
            })?;
            detectors.insert(model, detector);
        }
        Ok(Prepared { plan, detectors })
    }

    fn start(&self, spec: PipelineSpec, prepared: Prepared) -> Result<Worker, Problem> {
        let host = DetectHost::new(prepared.detectors, spec.model.clone(), fastrand::u64(..));
        let run = Run::new(prepared.plan, host, spec.detect);
        let recording = spec.record.then(|| self.parts.recordings.of(&spec.id));
        let services = Services {
            sources: Arc::clone(&self.sources) as Arc<dyn Subscribe>,
            recorder: self.parts.recorder.clone(),
            metrics: Arc::clone(&self.parts.metrics),
            boot_id: Arc::clone(&self.parts.boot_id),
            started: self.parts.started,
        };
        Worker::spawn(spec, run, recording, services).map_err(|e| {
            Problem::new(
                500,
                ProblemCode::Internal,
                format!("no thread for the pipeline: {e}"),
            )
        })
    }

    fn handle(&self, id: &PipelineId) -> Result<Deployed, Problem> {
        let table = self.pipelines.lock();
        table.get(id).cloned().ok_or_else(|| {
            let known: Vec<String> = table.keys().map(ToString::to_string).collect();
            let mut problem = Problem::new(
                404,
                ProblemCode::NotFound,
                format!("there is no pipeline {:?}", id.as_str()),
            )
            .at("id", id.as_str());
            problem.allowed = known;
            problem
        })
    }

    fn no_source(&self, id: &SourceId) -> Problem {
        let mut problem = Problem::new(
            404,
            ProblemCode::NotFound,
            format!("there is no source {:?}", id.as_str()),
        )
        .at("id", id.as_str());
        problem.allowed = self
            .sources
            .table
            .read()
            .keys()
            .map(ToString::to_string)
            .collect();
        problem
    }
}

struct Prepared {
    plan: Plan,
    detectors: BTreeMap<String, Box<dyn Detector>>,
}

/// What the status of a stopped pipeline says.
fn stopped(word: &LastWord) -> String {
    let at = clock::utc(word.at_ms);
    format!(
        "stopped by request at {at}; resume it, deploy it again, or edit its section in the configuration file to start it"
    )
}

/// The thread that turns notices of sources into events.
struct OutageJournal {
    outages: Arc<Mutex<Outages>>,
    pipelines: Arc<Mutex<BTreeMap<PipelineId, Deployed>>>,
    recorder: Recorder,
    boot_id: Arc<str>,
    started: Instant,
}

impl OutageJournal {
    fn run(&self, notices: &Receiver<(SourceId, SourceNotice)>) {
        while let Ok((source, notice)) = notices.recv() {
            let notice = match notice {
                SourceNotice::Lost { cause, message, .. } => Notice::Lost { cause, message },
                SourceNotice::Blind { kind, .. } => Notice::Blind(kind),
                SourceNotice::Forgotten { .. } => Notice::Forgotten,
                SourceNotice::Back { .. } | SourceNotice::Seeing { .. } => Notice::Seeing,
            };
            let mut outages = self.outages.lock();
            // Asked under the lock: a pipeline that begins to watch meanwhile finds what was glimpsed.
            let is_watched = self.is_watched(&source);
            let record = if is_watched {
                outages.notice(Instant::now(), &source, notice, &mut new_id)
            } else {
                outages.glimpse(Instant::now(), &source, notice, &mut new_id)
            };
            if let Some(record) = record {
                let mut event = box_event(record, &self.boot_id, self.started);
                event.source = Some(source);
                // Under the lock, so that records of one outage keep their order.
                if !self.recorder.record(event, None) {
                    return;
                }
            }
        }
    }

    /// Whether a pipeline takes frames of the source, rather than somebody looking once.
    fn is_watched(&self, source: &SourceId) -> bool {
        let table = self.pipelines.lock();
        table.values().any(|deployed| match deployed {
            Deployed::Running(worker) => worker.spec().source == *source && worker.wants_frames(),
            Deployed::Idle { .. } => false,
        })
    }
}

fn box_event(record: outage::OutageRecord, boot_id: &str, started: Instant) -> Event {
    let (severity, decision, evidence) = outage::decision();
    Event {
        schema: watchkeeper_contract::event::EVENT_SCHEMA,
        id: record.id,
        seq: EventSeq::default(),
        boot_id: boot_id.to_owned(),
        mono_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        at: clock::wall(),
        phase: record.phase,
        source: None,
        pipeline: None,
        severity,
        body: record.body,
        decision,
        evidence,
        media: Vec::new(),
        hash: String::new(),
    }
}

fn check_source(spec: &SourceSpec) -> Result<(), Problem> {
    crate::capture::address::Address::parse(&spec.uri).map_err(|error| {
        Problem::new(422, ProblemCode::InvalidRequest, error.to_string())
            .at("uri", crate::capture::redact::uri(&spec.uri))
    })?;
    match spec.max_fps {
        Some(fps) if !(fps.is_finite() && fps > 0.0 && fps <= 1000.0) => Err(Problem::new(
            422,
            ProblemCode::InvalidRequest,
            format!("max_fps is {fps}; use a number over 0 and up to 1000, or leave it out"),
        )
        .at("max_fps", fps.to_string())),
        _ => Ok(()),
    }
}

fn unreadable(spec: &Unreadable) -> String {
    format!("the stored {:?} can't be read: {}", spec.name, spec.why)
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
