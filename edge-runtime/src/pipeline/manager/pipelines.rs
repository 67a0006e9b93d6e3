//! The table of pipelines, and its changes.
//!
//! Invariants: what was accepted is stored before it is answered; changes of one pipeline come one after the other; the end of a pipeline is
//! waited for by whoever asked for it and by changes of the same one, and by nobody else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{
    PipelineResults, PipelineSpec, PipelineState, PipelineStatus,
};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_engine::deploy::SpecError;
use watchkeeper_engine::rules::check;

use super::{Deployed, Idle, MAX_PIPELINES, Manager, limit, storage};
use crate::clock;
use crate::journal::{LastWord, Word};
use crate::pipeline::checkpoint::RestoredCheckpoint;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::plan::{self, Plan};
use crate::pipeline::run::Run;
use crate::pipeline::worker::{Services, Subscribe, Worker};

/// How long the answer to a pause or resume waits for the pipeline to do it, so that it tells what is and not what was.
const SETTLING: Duration = Duration::from_secs(2);

/// Pipelines that are being changed.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Mutex<BTreeSet<PipelineId>>,
    given: Condvar,
}

/// The turn to change one pipeline, until it is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    id: PipelineId,
}

impl Turns {
    /// Waits until nobody else changes `id`.
    pub(super) fn take(&self, id: &PipelineId) -> Turn<'_> {
        let mut taken = self.taken.lock();
        while !taken.insert(id.clone()) {
            self.given.wait(&mut taken);
        }
        Turn {
            turns: self,
            id: id.clone(),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.taken.lock().remove(&self.id);
        self.turns.given.notify_all();
    }
}

impl Manager {
    #[must_use]
    pub fn pipelines(&self) -> Vec<PipelineStatus> {
        let all: Vec<Deployed> = {
            let table = self.pipelines.lock();
            table.values().cloned().collect()
        };
        all.iter()
            .map(|deployed| self.told(deployed.status()))
            .collect()
    }

    /// One pipeline.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline.
    pub fn pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        Ok(self.told(self.handle(id)?.status()))
    }

    /// Adds where the specification comes from, where that is not plain.
    fn told(&self, mut status: PipelineStatus) -> PipelineStatus {
        if let Some(origin) = self.sections.lock().note(&status.spec.id) {
            status.note = Some(match status.note {
                Some(note) => format!("{note}; {origin}"),
                None => origin.to_owned(),
            });
        }
        let until = self.parts.pauses.until(&status.spec.id);
        status.paused_until = until.filter(|_| status.spec.paused);
        status
    }

    /// Numbers of one pipeline.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline.
    pub fn results(&self, id: &PipelineId) -> Result<PipelineResults, Problem> {
        Ok(self.handle(id)?.status().results)
    }

    /// Deploys a pipeline. With `replace` the one of the same name ends first, its open events with it. Over a section of the configuration file
    /// it holds until that section is edited.
    ///
    /// # Errors
    /// [`Problem`] when the specification is not valid, its source or model is not here, the name is taken, or the store refuses; what ran
    /// before then goes on running.
    pub fn create_pipeline(
        &self,
        spec: PipelineSpec,
        replace: bool,
    ) -> Result<PipelineStatus, Problem> {
        let _turn = self.turns.take(&spec.id);
        let exists = self.has_place(&spec.id)?;
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
        // Everything that can fail comes before anything that changes. A model may take minutes to load, which only changes of this pipeline wait for.
        self.check_storable()?;
        self.has_channels(&spec)?;
        let prepared = self.prepare(&spec)?;
        let was_paused = self
            .handle(&spec.id)
            .is_ok_and(|old| old.status().spec.paused);
        if !exists {
            // What is left of one of this name that is gone. Before the lock: that waits for the disk.
            self.forget_state(&spec.id);
        }
        let change = self.changes.lock();
        // Asked again: others went on meanwhile.
        self.has_place(&spec.id)?;
        self.has_source(&spec)?;
        self.check_storable()?;
        let over = self.sections.lock().fingerprint(&spec.id);
        let specs = self.parts.journal.specs();
        specs.put(&spec, over.as_deref()).map_err(storage)?;
        // What was paused until some moment and stays paused stays so until then.
        if !(was_paused && spec.paused) {
            self.forget_pause(&spec.id);
        }
        self.sections.lock().replace(&spec.id, true);
        self.release(&spec.id);
        if !exists {
            // Under the lock, so that there are never more than the most.
            return self.run(spec, prepared, None);
        }
        drop(change);
        self.end(&spec.id);
        self.run(spec, prepared, None)
    }

    /// Whether there is a pipeline of this name already; a refusal where there is none and no place for one.
    fn has_place(&self, id: &PipelineId) -> Result<bool, Problem> {
        let table = self.pipelines.lock();
        let exists = table.contains_key(id);
        if !exists && table.len() >= MAX_PIPELINES {
            return Err(limit("pipelines", MAX_PIPELINES));
        }
        Ok(exists)
    }

    /// A refusal where the source of a pipeline is not here.
    fn has_source(&self, spec: &PipelineSpec) -> Result<(), Problem> {
        if self.sources.table.read().contains_key(&spec.source) {
            return Ok(());
        }
        let mut problem = self.no_source(&spec.source);
        problem.field = Some("source".to_owned());
        Err(problem)
    }

    /// Ends a pipeline, if it runs, and waits for its last events. It stays listed.
    fn end(&self, id: &PipelineId) {
        // Before the wait: what ends would be taken for the state of what comes in its place, were the process killed meanwhile.
        self.forget_state(id);
        // A block of its own: the table must not be held while the end is waited for.
        let old = { self.pipelines.lock().get(id).cloned() };
        if let Some(Deployed::Running(worker)) = old {
            worker.stop();
        }
        // After it: the frame that was in work may have wanted something. What hangs still is not listened to any more.
        self.parts.effects.forget(id);
    }

    /// What a pipeline remembered is of no use any more; waits for the disk, so no lock may be held that others need.
    fn forget_state(&self, id: &PipelineId) {
        if let Err(why) = self.parts.checkpoints.remove(id) {
            tracing::warn!(
                pipeline = %id, why,
                "what it remembered before is not off the disk yet; a crash now would bring it back"
            );
        }
    }

    /// Lists a pipeline in the place of the one of its name, which is dropped where no lock is held: that may wait for its thread.
    fn list(&self, id: &PipelineId, deployed: Deployed) {
        let old = self.pipelines.lock().insert(id.clone(), deployed);
        drop(old);
    }

    /// Starts what was prepared and lists it, also when it does not start: it is stored, so it is there. Without something `kept` it counts from nought; what
    /// was left of it is forgotten before.
    fn run(
        &self,
        spec: PipelineSpec,
        prepared: Prepared,
        kept: Option<RestoredCheckpoint>,
    ) -> Result<PipelineStatus, Problem> {
        let id = spec.id.clone();
        let (deployed, answer) = match self.start(spec.clone(), prepared, kept) {
            Ok(worker) => {
                let status = self.told(worker.status());
                (Deployed::Running(Arc::new(worker)), Ok(status))
            }
            Err(problem) => (Deployed::broken(spec, &problem), Err(problem)),
        };
        self.list(&id, deployed);
        self.watched_now(&id);
        answer
    }

    /// Stops taking frames, until then or until it is resumed.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline, it can't run, or the moment is past.
    pub fn pause(
        &self,
        id: &PipelineId,
        until: Option<Timestamp>,
    ) -> Result<PipelineStatus, Problem> {
        let now = clock::wall();
        if let Some(until) = until
            && now.quality != TimeQuality::Unsynced
            && until.as_millisecond() <= now.unix_ms
        {
            let text = format!(
                "a pause until {until} would be over already, it is {} now; name a moment to come",
                clock::utc(now.unix_ms)
            );
            let problem = Problem::new(422, ProblemCode::InvalidRequest, text);
            return Err(problem.at("until", until.to_string()));
        }
        let _turn = self.turns.take(id);
        self.set_paused(id, Some(until))
    }

    /// Resumes what was paused until a moment that has come; to be called now and then.
    pub fn end_pauses(&self) {
        let quality = clock::wall().quality;
        for id in self.parts.pauses.due(clock::now(), quality) {
            let _turn = self.turns.take(&id);
            // Asked again: somebody may have named another moment meanwhile.
            if self
                .parts
                .pauses
                .until(&id)
                .is_none_or(|at| at > clock::now())
            {
                continue;
            }
            let is_paused = self.handle(&id).is_ok_and(|d| d.status().spec.paused);
            if !is_paused {
                self.forget_pause(&id);
                continue;
            }
            match self.resume_now(&id) {
                Ok(_) => tracing::info!(pipeline = %id, "its pause is over"),
                Err(problem) => {
                    tracing::warn!(pipeline = %id, %problem, "its pause is over and it can't go on; tried again");
                }
            }
        }
    }

    /// Nobody waits for the end of a pause any more.
    pub(super) fn forget_pause(&self, id: &PipelineId) {
        if let Err(error) = self.parts.pauses.set(id, None) {
            tracing::warn!(pipeline = %id, %error, "until when it was paused is not forgotten");
        }
    }

    /// Takes frames again. What was stopped, has failed or has ended is begun anew; what is held, or could not run so far, goes on where it stood.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline or it can't run.
    pub fn resume(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        let _turn = self.turns.take(id);
        self.resume_now(id)
    }

    /// The same for whoever has the turn.
    fn resume_now(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        let status = self.set_paused(id, None)?;
        self.forget_pause(id);
        Ok(status)
    }

    /// TimedPauses it until some moment or for good, or (`None`) resumes it. For whoever has the turn.
    fn set_paused(
        &self,
        id: &PipelineId,
        pause: Option<Option<Timestamp>>,
    ) -> Result<PipelineStatus, Problem> {
        let paused = pause.is_some();
        let deployed = self.handle(id)?;
        let mut spec = deployed.spec().clone();
        spec.paused = paused;
        let worker = match deployed {
            Deployed::Running(worker) if paused || !worker.is_finished() => worker,
            Deployed::Idle { .. } if paused => deployed.worker()?,
            // It never ran in this process, or only until it failed: what was left is its own still.
            Deployed::Idle {
                why: Idle::Held(_) | Idle::Broken(_),
                ..
            } => {
                let kept = self.kept(&spec);
                return self.begin_anew(spec, kept);
            }
            Deployed::Running(_) | Deployed::Idle { .. } => return self.begin_anew(spec, None),
        };
        let change = self.changes.lock();
        if let Some(until) = pause {
            self.parts.pauses.set(id, until).map_err(storage)?;
        }
        self.keep(&spec)?;
        if paused {
            worker.pause();
        } else {
            worker.resume();
        }
        drop(change);
        worker.settle(SETTLING);
        if paused {
            return Ok(self.told(worker.status()));
        }
        if worker.is_finished() {
            // It came to its end meanwhile.
            return self.begin_anew(spec, None);
        }
        self.watched_now(id);
        Ok(self.told(worker.status()))
    }

    /// Runs a pipeline in the place of the one of its name, which is over or never ran; it goes on with what was `kept`.
    fn begin_anew(
        &self,
        spec: PipelineSpec,
        kept: Option<RestoredCheckpoint>,
    ) -> Result<PipelineStatus, Problem> {
        // A model may take minutes to load, which only changes of this pipeline wait for.
        let prepared = self.prepare(&spec)?;
        let change = self.changes.lock();
        // Asked again: it may have been deleted meanwhile.
        self.has_source(&spec)?;
        self.keep(&spec)?;
        self.release(&spec.id);
        drop(change);
        if kept.is_none() {
            // The last events of one that is over may not be durable yet.
            self.end(&spec.id);
        }
        self.run(spec, prepared, kept)
    }

    /// Begins anew what could not run or has failed, because something changed that it needs. What goes on failing is listed with the reason.
    pub(super) fn revive(&self, id: &PipelineId) {
        let _turn = self.turns.take(id);
        let Ok(deployed) = self.handle(id) else {
            return;
        };
        let has_failed = match &deployed {
            Deployed::Running(worker) => {
                if worker.is_finished() {
                    // On its way out it has not said yet how it ended.
                    worker.stop();
                }
                matches!(worker.state(), PipelineState::Failed { .. })
            }
            Deployed::Idle { why, .. } => matches!(why, Idle::Broken(_)),
        };
        if !has_failed {
            return;
        }
        let mut spec = deployed.spec().clone();
        if let Deployed::Running(worker) = &deployed {
            spec.paused = worker.is_paused();
        }
        let begun = match self.prepare(&spec) {
            Ok(prepared) => {
                // Nobody asked for a new beginning: it goes on with what it left, or an earlier process.
                let kept = self.kept(&spec);
                if kept.is_none() {
                    self.forget_state(id);
                }
                self.run(spec, prepared, kept).map(drop)
            }
            Err(problem) => {
                self.list(id, Deployed::broken(spec, &problem));
                Err(problem)
            }
        };
        if let Err(problem) = begun {
            tracing::warn!(pipeline = %id, %problem, "it still can't run");
        }
    }

    /// Stores a change of `paused`: as a word where the file names the pipeline, else in its specification.
    fn keep(&self, spec: &PipelineSpec) -> Result<(), Problem> {
        let word = if spec.paused { Word::Pause } else { Word::Run };
        let specs = self.parts.journal.specs();
        match self.word(&spec.id, word, clock::wall()) {
            Some(word) => specs.put_word::<PipelineSpec>(&word),
            None => specs.put(spec, None),
        }
        .map_err(storage)
    }

    /// What a person wants of a pipeline that the file names; nothing where it does not.
    fn word(&self, id: &PipelineId, word: Word, at: Wall) -> Option<LastWord<PipelineId>> {
        self.sections.lock().word(id, word, at.unix_ms)
    }

    /// Ends a pipeline and forgets it. One that the configuration file names stays listed as stopped, over restarts too.
    ///
    /// # Errors
    /// [`Problem`] when there is none or the store refuses.
    pub fn delete_pipeline(&self, id: &PipelineId) -> Result<(), Problem> {
        let _turn = self.turns.take(id);
        let change = self.changes.lock();
        self.handle(id)?;
        self.check_storable()?;
        let now = clock::wall();
        let word = self.word(id, Word::Stop, now);
        let specs = self.parts.journal.specs();
        specs
            .delete::<PipelineSpec>(id, word.as_ref())
            .map_err(storage)?;
        self.forget_pause(id);
        self.release(id);
        drop(change);
        self.end(id);
        let configured = {
            let mut sections = self.sections.lock();
            sections.replace(id, false);
            sections.spec(id)
        };
        match configured {
            Some(spec) => self.list(id, Deployed::stopped(spec, now)),
            None => {
                let old = self.pipelines.lock().remove(id);
                // Dropped where no lock is held: that may wait for its thread.
                drop(old);
            }
        }
        Ok(())
    }

    /// The worker of a pipeline that runs.
    ///
    /// # Errors
    /// [`Problem`] when there is none or it can't run.
    pub fn worker(&self, id: &PipelineId) -> Result<Arc<Worker>, Problem> {
        self.handle(id)?.worker()
    }

    /// A pipeline that goes on where the last process stood with it.
    pub(super) fn build(&self, spec: &PipelineSpec) -> Result<Worker, Problem> {
        let prepared = self.prepare(spec)?;
        self.start(spec.clone(), prepared, self.kept(spec))
    }

    /// What an earlier process left of a pipeline that has not run in this one.
    fn kept(&self, spec: &PipelineSpec) -> Option<RestoredCheckpoint> {
        let loaded = self.parts.checkpoints.load(&spec.id, &spec.source);
        loaded.unwrap_or_else(|why| {
            tracing::warn!(pipeline = %spec.id, why, "what it remembered can't be used: it counts from nought");
            None
        })
    }

    /// Refuses rules that name a channel which nobody knows. Only where somebody deploys: a channel that is taken out of the configuration
    /// later stops no pipeline.
    ///
    /// # Errors
    /// [`Problem`] with the channels that there are.
    pub fn has_channels(&self, spec: &PipelineSpec) -> Result<(), Problem> {
        let rules = spec.rules.as_deref().unwrap_or_default();
        let unknown = check::unknown_channels(rules, &self.parts.channels);
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(plan::problem(
                unknown
                    .into_iter()
                    .map(Box::new)
                    .map(SpecError::Rule)
                    .collect(),
            )),
        }
    }

    fn prepare(&self, spec: &PipelineSpec) -> Result<Prepared, Problem> {
        self.has_source(spec)?;
        let plan = plan::plan(spec)?;
        let field = if spec.model.is_some() {
            "model"
        } else {
            "workflow"
        };
        let detectors = Detectors::open(spec, &plan, &|model| {
            self.parts.models.open(model).map_err(|error| {
                Problem::new(422, ProblemCode::Model, error.to_string()).at(field, model)
            })
        })?;
        Ok(Prepared { plan, detectors })
    }

    fn start(
        &self,
        spec: PipelineSpec,
        prepared: Prepared,
        kept: Option<RestoredCheckpoint>,
    ) -> Result<Worker, Problem> {
        let host = DetectHost::new(prepared.detectors, fastrand::u64(..))
            .with_outlet(self.parts.effects.outlet(&spec.id));
        let run = Run::new(prepared.plan, host, &spec);
        let recording = spec.record.then(|| self.parts.recordings.of(&spec.id));
        let services = Services {
            sources: Arc::clone(&self.sources) as Arc<dyn Subscribe>,
            recorder: self.parts.recorder.clone(),
            media: Arc::clone(&self.parts.media),
            metrics: Arc::clone(&self.parts.metrics),
            boot_id: Arc::clone(&self.parts.boot_id),
            started: self.parts.started,
            stop_timeout: self.parts.stop_timeout,
        };
        let checkpointer = self.parts.checkpoints.checkpointer(&spec.id, &spec.source);
        Worker::spawn(spec, run, kept, checkpointer, recording, services).map_err(|e| {
            Problem::new(
                500,
                ProblemCode::Internal,
                format!("no thread for the pipeline: {e}"),
            )
        })
    }

    pub(super) fn handle(&self, id: &PipelineId) -> Result<Deployed, Problem> {
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
}

struct Prepared {
    plan: Plan,
    detectors: Detectors,
}
