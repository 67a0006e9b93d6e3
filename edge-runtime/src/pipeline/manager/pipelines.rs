//! The table of pipelines and its changes.
//!
//! - An accepted change is stored before it is answered.
//! - Changes of one pipeline are serialised.
//! - Only the caller that stops a pipeline, and later changes of it, wait for its end.

use std::sync::Arc;

use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{
    DetectMode, PipelineResults, PipelineSpec, PipelineState, PipelineStatus, Priority, RateLimit,
};
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_contract::review::PipelineAnswers;
use watchkeeper_detect::Claim;
use watchkeeper_engine::deploy::SpecError;
use watchkeeper_engine::rules::check;

use super::deployed::Deployed;
use super::{MAX_PIPELINES, Manager, limit, storage};
use crate::clock;
use crate::history::Looks;
use crate::journal::{JournalError, UserIntent};
use crate::pipeline::checkpoint::RestoredCheckpoint;
use crate::pipeline::definition;
use crate::pipeline::inference::detectors::Detectors;
use crate::pipeline::inference::host::DetectHost;
use crate::pipeline::plan::{self, Plan};
use crate::pipeline::run::Run;
use crate::pipeline::worker::{Services, Subscribe, Worker};

impl Manager {
    pub fn pipelines(&self) -> Vec<PipelineStatus> {
        let all: Vec<Deployed> = {
            let table = self.pipelines.lock();
            table.values().cloned().collect()
        };
        all.iter()
            .map(|deployed| self.annotate(deployed.status()))
            .collect()
    }

    /// The status of one pipeline.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline.
    pub fn pipeline(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        Ok(self.annotate(self.handle(id)?.status()))
    }

    /// Adds the origin of the specification, the end of a pause, and why no frame is looked at.
    pub(super) fn annotate(&self, mut status: PipelineStatus) -> PipelineStatus {
        if status.state == PipelineState::Running
            && let Some(looks) = &mut status.looks
        {
            if self.sources.is_lost(&status.spec.source) {
                looks.limited_by = Some(RateLimit::Camera);
            } else if looks.limited_by.is_some() && self.parts.recorder.blocks_pipelines() {
                looks.limited_by = Some(RateLimit::Disk);
            }
        }
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

    /// The results of one pipeline.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline.
    pub fn results(&self, id: &PipelineId) -> Result<PipelineResults, Problem> {
        Ok(self.handle(id)?.status().results)
    }

    /// Answers of people about events of a pipeline since it was last replaced, and the
    /// calibrations that follow from them.
    ///
    /// # Errors
    /// [`Problem`] when the pipeline is unknown.
    pub fn answers(&self, id: &PipelineId) -> Result<PipelineAnswers, Problem> {
        let status = self.handle(id)?.status();
        let since = status.results.counting_since;
        let since_ms = since.map_or(i64::MIN, |since| since.unix_ms);
        let rules = status.spec.rules.unwrap_or_default();
        let is_off = |name: &str| {
            rules
                .iter()
                .any(|rule| rule.name == name && !rule.calibrate)
        };
        let answers = self.parts.journal.answers();
        Ok(answers.of_pipeline(id, since_ms, &|rule| !is_off(rule)))
    }

    /// Deploys a pipeline under a new name, see [`Self::put_pipeline`].
    ///
    /// # Errors
    /// [`Problem`] when the name is taken, and those of [`Self::put_pipeline`].
    pub fn create_pipeline(&self, spec: PipelineSpec) -> Result<PipelineStatus, Problem> {
        let _lock = self.change_locks.acquire(&spec.id)?;
        if self.exists_or_fits(&spec.id)? {
            return Err(Problem::conflict(format!(
                "pipeline {:?} already exists; use PUT to replace it",
                spec.id.as_str()
            ))
            .at("id", spec.id.as_str()));
        }
        self.deploy(spec)
    }

    /// Deploys a pipeline; the one of the same name and its open events end first. The deployment
    /// overrides a section of the configuration file until that section is edited.
    ///
    /// # Errors
    /// [`Problem`] when the specification is invalid, its source or model is missing, or the store
    /// refuses. The old pipeline keeps running then.
    pub fn put_pipeline(&self, spec: PipelineSpec) -> Result<PipelineStatus, Problem> {
        let _lock = self.change_locks.acquire(&spec.id)?;
        self.deploy(spec)
    }

    /// Deploys a pipeline, for a caller that holds its lock.
    fn deploy(&self, spec: PipelineSpec) -> Result<PipelineStatus, Problem> {
        let exists = self.exists_or_fits(&spec.id)?;
        // Everything that can fail comes before the first change. Loading a model may take minutes;
        // only changes of this pipeline wait for it.
        self.check_storable()?;
        self.check_channels(&spec)?;
        let prepared = self.prepare(&spec)?;
        let was_paused = self
            .handle(&spec.id)
            .is_ok_and(|old| old.status().spec.paused);
        if !exists {
            // Checkpoint of a deleted pipeline with this name. Before the lock, because this waits
            // for the disk.
            self.remove_checkpoint(&spec.id);
        }
        let change = self.changes.lock();
        // Checked again: other changes ran meanwhile.
        self.exists_or_fits(&spec.id)?;
        self.check_source_exists(&spec)?;
        self.check_storable()?;
        let over = self.sections.lock().fingerprint(&spec.id);
        let specs = self.parts.journal.specs();
        specs.put(&spec, over.as_deref()).map_err(storage)?;
        // A pipeline that was paused with an end time and stays paused keeps that time.
        if !(was_paused && spec.paused) {
            self.clear_pause_end(&spec.id);
        }
        self.sections.lock().replace(&spec.id, true);
        self.release(&spec.id);
        if !exists {
            // Under the lock, so that the limit holds.
            return self.run(spec, prepared, None);
        }
        drop(change);
        self.end(&spec.id);
        let mut status = self.run(spec, prepared, None)?;
        let note = status.note.into_iter().chain([REPLACED.to_owned()]);
        status.note = Some(note.collect::<Vec<_>>().join("; "));
        Ok(status)
    }

    /// Whether the pipeline exists; rejects a new one when the limit is reached.
    fn exists_or_fits(&self, id: &PipelineId) -> Result<bool, Problem> {
        let table = self.pipelines.lock();
        let exists = table.contains_key(id);
        if !exists && table.len() >= MAX_PIPELINES {
            return Err(limit("pipelines", MAX_PIPELINES));
        }
        Ok(exists)
    }

    /// Rejects a pipeline without its source.
    pub(crate) fn check_source_exists(&self, spec: &PipelineSpec) -> Result<(), Problem> {
        if self.sources.table.read().contains_key(&spec.source) {
            return Ok(());
        }
        let mut problem = self.no_source(&spec.source);
        problem.field = Some("source".to_owned());
        Err(problem)
    }

    /// Stops a running pipeline and waits for its last events. It stays listed.
    pub(super) fn end(&self, id: &PipelineId) {
        // Before the wait: if the process is killed meanwhile, the new pipeline must not resume the
        // old state.
        self.remove_checkpoint(id);
        // A block, so that the table is not locked during the wait.
        let old = { self.pipelines.lock().get(id).cloned() };
        if let Some(worker) = old.as_ref().and_then(Deployed::running) {
            worker.stop();
        }
        // After the wait: the last frame may have had effects. A hanging thread can't add any more.
        self.parts.effects.forget(id);
    }

    /// Removes the checkpoint of a pipeline. Waits for the disk, so no shared lock may be held.
    pub(super) fn remove_checkpoint(&self, id: &PipelineId) {
        if let Err(why) = self.parts.checkpoints.remove(id) {
            tracing::warn!(
                pipeline = %id, why,
                "the old checkpoint is not off the disk yet; a crash now would resume it"
            );
        }
    }

    /// Lists a pipeline in place of the old one, which is dropped without a lock because that may
    /// wait for its thread.
    pub(super) fn list(&self, id: &PipelineId, deployed: Deployed) {
        let old = self.pipelines.lock().insert(id.clone(), deployed);
        drop(old);
    }

    /// Starts a prepared pipeline and lists it even if it does not start, because it is stored.
    /// Without a checkpoint it starts from zero; the old checkpoint must be removed before.
    pub(super) fn run(
        &self,
        spec: PipelineSpec,
        prepared: Prepared,
        checkpoint: Option<RestoredCheckpoint>,
    ) -> Result<PipelineStatus, Problem> {
        let id = spec.id.clone();
        let (deployed, answer) = match self.start(spec.clone(), prepared, checkpoint) {
            Ok(worker) => {
                let status = self.annotate(worker.status());
                (Deployed::Running(Arc::new(worker)), Ok(status))
            }
            Err(problem) => (Deployed::broken(spec, &problem), Err(problem)),
        };
        self.list(&id, deployed);
        self.begin_watching(&id);
        answer
    }

    /// Stops and removes a pipeline. One that the configuration file names stays listed as stopped,
    /// over restarts too.
    ///
    /// # Errors
    /// [`Problem`] when there is none or the store refuses.
    pub fn delete_pipeline(&self, id: &PipelineId) -> Result<(), Problem> {
        let _lock = self.change_locks.acquire(id)?;
        let change = self.changes.lock();
        self.handle(id)?;
        self.check_storable()?;
        let now = clock::wall();
        let intent = self.intent(id, UserIntent::Stop, now);
        let specs = self.parts.journal.specs();
        specs
            .delete::<PipelineSpec>(id, intent.as_ref())
            .map_err(storage)?;
        self.clear_pause_end(id);
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
                // Dropped without a lock, because that may wait for its thread.
                drop(old);
            }
        }
        Ok(())
    }

    /// The worker of a running pipeline.
    ///
    /// # Errors
    /// [`Problem`] when there is none or it can't run.
    pub fn worker(&self, id: &PipelineId) -> Result<Arc<Worker>, Problem> {
        self.handle(id)?.worker()
    }

    /// Builds a pipeline that resumes from the checkpoint of an earlier process.
    pub(super) fn build(&self, spec: &PipelineSpec) -> Result<Worker, Problem> {
        let prepared = self.prepare(spec)?;
        self.start(spec.clone(), prepared, self.checkpoint(spec))
    }

    /// The checkpoint of a pipeline that has not run in this process.
    pub(super) fn checkpoint(&self, spec: &PipelineSpec) -> Option<RestoredCheckpoint> {
        let loaded = self.parts.checkpoints.load(&spec.id, &spec.source);
        loaded.unwrap_or_else(|why| {
            tracing::warn!(pipeline = %spec.id, why, "can't use the checkpoint; counting from zero");
            None
        })
    }

    /// Rejects rules that name an unknown channel. Checked only at deployment: a channel that is
    /// removed from the configuration later stops no pipeline.
    ///
    /// # Errors
    /// [`Problem`] with the known channels.
    pub fn check_channels(&self, spec: &PipelineSpec) -> Result<(), Problem> {
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

    /// Refuses a workflow on a camera with masked classes that could take pixels elsewhere.
    pub(crate) fn check_class_mask(&self, spec: &PipelineSpec, plan: &Plan) -> Result<(), Problem> {
        let (Some(mask), Some(step)) =
            (self.class_mask(&spec.source), plan.compiled.picture_step())
        else {
            return Ok(());
        };
        let detail = format!(
            "step {step} takes a picture, and camera {} has a privacy mask of classes ({}): there \
             only models, trackers, lines, zones, conditions and drawings may take pictures",
            spec.source,
            mask.classes.join(", ")
        );
        Err(Problem::new(422, ProblemCode::InvalidWorkflow, detail).at("workflow", step))
    }

    pub(super) fn prepare(&self, spec: &PipelineSpec) -> Result<Prepared, Problem> {
        self.check_source_exists(spec)?;
        let plan = plan::plan(spec)?;
        self.check_class_mask(spec, &plan)?;
        let field = if spec.model.is_some() {
            "model"
        } else {
            "workflow"
        };
        let claim = Arc::new(Claim::new(weight(spec.priority)));
        let detectors = Detectors::open(spec, &plan, &|model| {
            let opened = self.parts.models.open_with(model, &claim);
            opened.map_err(|error| {
                Problem::new(422, ProblemCode::Model, error.to_string()).at(field, model)
            })
        })?;
        Ok(Prepared {
            plan,
            detectors,
            claim,
        })
    }

    pub(super) fn start(
        &self,
        spec: PipelineSpec,
        prepared: Prepared,
        checkpoint: Option<RestoredCheckpoint>,
    ) -> Result<Worker, Problem> {
        let host = DetectHost::new(prepared.detectors, fastrand::u64(..))
            .with_effects(self.parts.effects.sender(&spec.id))
            .recording(self.parts.history.writer(&spec.id, looks(&spec)));
        let mut run = Run::new(prepared.plan, host, &spec);
        if let Some(mask) = self.class_mask(&spec.source) {
            run = run.masking(Arc::clone(mask));
        }
        let definition = self.store_definition(&spec, &run);
        let recording = spec.record.then(|| self.parts.recordings.of(&spec.id));
        let services = Services {
            sources: Arc::clone(&self.sources) as Arc<dyn Subscribe>,
            recorder: self.parts.recorder.clone(),
            media: Arc::clone(&self.parts.media),
            metrics: Arc::clone(&self.parts.metrics),
            answers: Arc::clone(self.parts.journal.answers()),
            coverage: Arc::clone(&self.parts.coverage),
            boot: self.parts.boot.clone(),
            claim: prepared.claim,
            definition,
            stop_timeout: self.parts.stop_timeout,
        };
        let checkpointer = self.parts.checkpoints.checkpointer(&spec.id, &spec.source);
        Worker::spawn(spec, run, checkpoint, checkpointer, recording, services)
            .map_err(|e| Problem::internal(format!("can't start a thread for the pipeline: {e}")))
    }

    /// Stores what the pipeline is from now on, for the bundles of its events, and returns its
    /// hash. A store that refuses it stops no pipeline: the bundles say that it is missing.
    fn store_definition(&self, spec: &PipelineSpec, run: &Run) -> Option<String> {
        let text = definition::describe(spec, run.rule_names());
        let stored = self.parts.journal.definitions.add(&text);
        let refused = |error: &JournalError| {
            tracing::warn!(pipeline = %spec.id, %error, "its definition is not kept for bundles");
        };
        stored.inspect_err(refused).ok()
    }

    pub(super) fn handle(&self, id: &PipelineId) -> Result<Deployed, Problem> {
        let table = self.pipelines.lock();
        table.get(id).cloned().ok_or_else(|| {
            let known: Vec<String> = table.keys().map(ToString::to_string).collect();
            let mut problem = Problem::not_found(format!("there is no pipeline {:?}", id.as_str()))
                .at("id", id.as_str());
            problem.allowed = known;
            problem
        })
    }
}

/// Part of the answer to a deployment under a known name.
const REPLACED: &str = "the earlier deployment of this name has ended; counts begin at zero";

pub(super) struct Prepared {
    plan: Plan,
    detectors: Detectors,
    /// Claim of the pipeline to shared networks.
    claim: Arc<Claim>,
}

/// How often a pipeline looks at frames.
fn looks(spec: &PipelineSpec) -> Looks {
    let (every_s, on_motion) = match spec.detect {
        DetectMode::Always => (0.0, false),
        DetectMode::OnMotion { refresh_s } => (refresh_s, true),
        DetectMode::Periodic { every_s } => (every_s, false),
    };
    let least_s = spec.target_fps.map_or(0.0, |fps| 1.0 / fps);
    Looks {
        every_s: every_s.max(least_s),
        on_motion,
    }
}

/// Share of a pipeline at networks that others use too.
fn weight(priority: Priority) -> f64 {
    match priority {
        Priority::Low => 0.5,
        Priority::Normal => 1.0,
        Priority::High => 2.0,
    }
}
