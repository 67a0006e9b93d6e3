//! Pauses, resumes and restarts of pipelines.
//!
//! - A pause is stored before the pipeline obeys it, with its end time.
//! - Changes of one pipeline wait for each other; the loading of a model delays no other pipeline.
//! - A pipeline that ended restarts from zero; one that was held or never ran resumes its
//!   checkpoint.

use std::time::Duration;

use jiff::Timestamp;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState, PipelineStatus};
use watchkeeper_contract::problem::Problem;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::deployed::{Deployed, Idle};
use super::{Manager, storage};
use crate::clock;
use crate::journal::{LastIntent, UserIntent};
use crate::pipeline::checkpoint::RestoredCheckpoint;

/// Longest wait of a pause or resume for the pipeline, so that the answer shows its new state.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Request of a user, or of the end of a pause, to a pipeline.
#[derive(Debug, Clone, Copy)]
enum PauseChange {
    Pause {
        /// Absent: until it is resumed.
        until: Option<Timestamp>,
    },
    Resume,
}

impl Manager {
    /// Pauses a pipeline until `until`, or until it is resumed.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline, it can't run, or the time is past.
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
                "the pause would end at {until}, which is past (it is {} now); use a later time",
                clock::utc(now.unix_ms)
            );
            let problem = Problem::invalid_value(text);
            return Err(problem.at("until", until.to_string()));
        }
        let _lock = self.change_locks.acquire(id)?;
        self.set_paused(id, PauseChange::Pause { until })
    }

    /// Resumes pipelines whose pauses are over; called regularly.
    pub fn end_pauses(&self) {
        let quality = clock::wall().quality;
        for id in self.parts.pauses.due(clock::now(), quality) {
            // A change of it is in progress; the next call ends the pause.
            let Some(_lock) = self.change_locks.acquire_within(&id, Duration::ZERO) else {
                continue;
            };
            // Checked again: a user may have set another time meanwhile.
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
                self.clear_pause_end(&id);
                continue;
            }
            match self.resume_now(&id) {
                Ok(_) => tracing::info!(pipeline = %id, "the pause is over"),
                Err(problem) => {
                    tracing::warn!(pipeline = %id, %problem, "the pause is over, but the pipeline can't resume; retrying");
                }
            }
        }
    }

    /// Removes the end time of a pause.
    pub(super) fn clear_pause_end(&self, id: &PipelineId) {
        if let Err(error) = self.parts.pauses.set(id, None) {
            tracing::warn!(pipeline = %id, %error, "can't remove the end time of a pause");
        }
    }

    /// Resumes a pipeline. A stopped, failed or ended one restarts; one that was held or could not
    /// run resumes from its checkpoint.
    ///
    /// # Errors
    /// [`Problem`] when there is no such pipeline or it can't run.
    pub fn resume(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        let _lock = self.change_locks.acquire(id)?;
        self.resume_now(id)
    }

    /// Like [`Self::resume`], for a caller that holds the pipeline's lock.
    fn resume_now(&self, id: &PipelineId) -> Result<PipelineStatus, Problem> {
        let status = self.set_paused(id, PauseChange::Resume)?;
        self.clear_pause_end(id);
        Ok(status)
    }

    /// Pauses or resumes a pipeline; for a caller that holds its lock.
    fn set_paused(&self, id: &PipelineId, wanted: PauseChange) -> Result<PipelineStatus, Problem> {
        let paused = matches!(wanted, PauseChange::Pause { .. });
        let deployed = self.handle(id)?;
        let mut spec = deployed.spec().clone();
        spec.paused = paused;
        let worker = match deployed {
            Deployed::Running(worker) if paused || !worker.is_finished() => worker,
            Deployed::Idle { .. } if paused => deployed.worker()?,
            // It never ran in this process, or failed at once, so its checkpoint is still its own.
            Deployed::Idle {
                why: Idle::Held(_) | Idle::Broken(_) | Idle::Unchecked(_),
                ..
            } => {
                let checkpoint = self.checkpoint(&spec);
                return self.restart(spec, checkpoint);
            }
            Deployed::Running(_) | Deployed::Idle { .. } => return self.restart(spec, None),
        };
        let change = self.changes.lock();
        if let PauseChange::Pause { until } = wanted {
            self.parts.pauses.set(id, until).map_err(storage)?;
        }
        self.store_paused(&spec)?;
        if paused {
            worker.pause();
        } else {
            worker.resume();
        }
        drop(change);
        worker.settle(SETTLE_TIMEOUT);
        if paused {
            return Ok(self.annotate(worker.status()));
        }
        if worker.is_finished() {
            // It ended meanwhile.
            return self.restart(spec, None);
        }
        self.begin_watching(id);
        Ok(self.annotate(worker.status()))
    }

    /// Runs a pipeline in place of the one of its name that ended or never ran.
    fn restart(
        &self,
        spec: PipelineSpec,
        checkpoint: Option<RestoredCheckpoint>,
    ) -> Result<PipelineStatus, Problem> {
        // Loading a model may take minutes; only changes of this pipeline wait for it.
        let prepared = self.prepare(&spec)?;
        let change = self.changes.lock();
        // Checked again: the source may be gone.
        self.check_source_exists(&spec)?;
        self.store_paused(&spec)?;
        self.release(&spec.id);
        drop(change);
        if checkpoint.is_none() {
            // The last events of the ended one may not be durable yet.
            self.end(&spec.id);
        }
        self.run(spec, prepared, checkpoint)
    }

    /// Restarts a failed pipeline after a change of something that it needs. Starts a pipeline
    /// whose model was not checked yet or whose hold was released. If it fails, it is listed with
    /// the reason.
    pub(super) fn restart_if_failed(&self, id: &PipelineId) {
        let Ok(_lock) = self.change_locks.acquire(id) else {
            tracing::warn!(pipeline = %id, "not restarted: it is being changed");
            return;
        };
        let Ok(deployed) = self.handle(id) else {
            return;
        };
        let is_failed = match &deployed {
            Deployed::Running(worker) => {
                if worker.is_finished() {
                    // While it shuts down, its final state is not known.
                    worker.stop();
                }
                matches!(worker.state(), PipelineState::Failed { .. })
            }
            Deployed::Idle { why, .. } => {
                let is_released = self.parts.guard.held(id).is_none();
                matches!(why, Idle::Broken(_) | Idle::Unchecked(_))
                    || (is_released && matches!(why, Idle::Held(_)))
            }
        };
        if !is_failed {
            return;
        }
        let mut spec = deployed.spec().clone();
        if let Deployed::Running(worker) = &deployed {
            spec.paused = worker.is_paused();
        }
        let restarted = match self.prepare(&spec) {
            Ok(prepared) => {
                // Not a user's request, so the pipeline resumes from a checkpoint if there is one.
                let checkpoint = self.checkpoint(&spec);
                if checkpoint.is_none() {
                    self.remove_checkpoint(id);
                }
                self.run(spec, prepared, checkpoint).map(drop)
            }
            Err(problem) => {
                self.list(id, Deployed::broken(spec, &problem));
                Err(problem)
            }
        };
        if let Err(problem) = restarted {
            tracing::warn!(pipeline = %id, %problem, "the pipeline still can't run");
        }
    }

    /// Stores a change of `paused`: as an intent if the file names the pipeline, else in its
    /// specification.
    fn store_paused(&self, spec: &PipelineSpec) -> Result<(), Problem> {
        let intent = if spec.paused {
            UserIntent::Pause
        } else {
            UserIntent::Run
        };
        let specs = self.parts.journal.specs();
        match self.intent(&spec.id, intent, clock::wall()) {
            Some(intent) => specs.put_intent::<PipelineSpec>(&intent),
            None => specs.put(spec, None),
        }
        .map_err(storage)
    }

    /// A user's intent about a pipeline that the file names; `None` for others.
    pub(super) fn intent(
        &self,
        id: &PipelineId,
        intent: UserIntent,
        at: Wall,
    ) -> Option<LastIntent<PipelineId>> {
        self.sections.lock().intent(id, intent, at.unix_ms)
    }
}
