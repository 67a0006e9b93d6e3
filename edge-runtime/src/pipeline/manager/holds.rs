//! Pipelines that the crash-loop guard holds back, and restarts of failed pipelines.
//!
//! - Every hold is an event, from the hold to its release.
//! - Failed pipelines are restarted here ([`restarts`](super::restarts)); held ones when the guard
//!   says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState};
use watchkeeper_contract::rule::Severity;

use super::Manager;
use super::deployed::{Deployed, Idle};
use super::restarts::{Health, Observed, RestartEvent};
use crate::capture::source::SourceHandle;
use crate::guard::{Held, fingerprint};
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::worker::Worker;

/// The health of a pipeline; `is_blind` when an internal error ended its source.
fn health_of(deployed: &Deployed, is_blind: bool) -> Health {
    match deployed {
        Deployed::Running(worker) => {
            let blind = || "an internal error ended its source".to_owned();
            let lost = (is_blind && worker.has_lost_source()).then(blind);
            match worker.internal_error().or(lost) {
                Some(why) => Health::Failed {
                    why,
                    may_restart: !worker.in_recording() && !worker.is_paused(),
                },
                None if worker.wants_frames() => Health::Running,
                // Paused, ended, or its source failed, which is reported as an outage.
                None => Health::Resting,
            }
        }
        Deployed::Idle {
            why: Idle::Broken(why),
            spec,
            ..
        } => Health::Failed {
            why: why.clone(),
            may_restart: !spec.paused,
        },
        Deployed::Idle {
            why: Idle::Unchecked(_) | Idle::Held(_) | Idle::Stopped(_) | Idle::Finished(_),
            ..
        } => Health::Resting,
    }
}

impl Manager {
    /// Asks the guard about the pipelines to start, and reports new and released holds. Unless
    /// `wanted` `is_complete`, no hold is released because its pipeline is absent.
    pub(super) fn check_holds(
        &self,
        wanted: &BTreeMap<PipelineId, PipelineSpec>,
        is_complete: bool,
    ) {
        let prints = wanted
            .values()
            .map(|s| (s.id.clone(), self.fingerprint_of(s)))
            .collect();
        let guard = &self.parts.guard;
        let (newly, released) = guard.judge(&prints, is_complete, &mut EventId::generate);
        for id in newly {
            if let Some(held) = self.parts.guard.held(&id) {
                tracing::error!(pipeline = %id, "{}", held.why);
                self.report_hold(&id, &held, Phase::New);
            }
        }
        for (id, held) in released {
            self.report_hold(&id, &held, Phase::End);
        }
    }

    /// Fingerprint of a pipeline with its source; a pause does not change it.
    fn fingerprint_of(&self, spec: &PipelineSpec) -> String {
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

    /// Reports the running pipelines to the guard; called regularly.
    pub fn beat(&self) {
        // A regular end shows that the pipeline does not crash the process; a failure, nothing.
        let is_alive = |w: &Arc<Worker>| w.wants_frames() || w.state() == PipelineState::Ended;
        let running = self.running_workers().into_iter().filter(is_alive);
        let prints = running
            .map(|w| (w.spec().id.clone(), self.fingerprint_of(w.spec())))
            .collect();
        self.parts.guard.beat(&prints);
    }

    /// Releases a hold, if there is one.
    pub(super) fn release(&self, id: &PipelineId) {
        if let Some(held) = self.parts.guard.release(id) {
            self.report_hold(id, &held, Phase::End);
        }
    }

    /// Releases and starts the held pipelines that are due to be tried again; called regularly. May
    /// take minutes to load a model.
    pub fn retry_held(&self) {
        for id in self.parts.guard.due_retries() {
            tracing::warn!(pipeline = %id, "trying the held pipeline again");
            self.release(&id);
            self.restart_if_failed(&id);
        }
    }

    /// Reports pipelines that failed or recovered, and restarts those that are due; called
    /// regularly. May take minutes to load a model.
    pub fn restart_failed(&self) {
        self.restart_failed_at(Instant::now());
    }

    pub(super) fn restart_failed_at(&self, now: Instant) {
        let all: Vec<(PipelineId, Deployed)> = {
            let table = self.pipelines.lock();
            let entries = table.iter();
            entries.map(|(id, d)| (id.clone(), d.clone())).collect()
        };
        let all = all.into_iter().map(|(id, deployed)| {
            let source = deployed.spec().source.clone();
            let health = health_of(&deployed, self.has_broken_down(&source));
            (id, Observed { source, health })
        });
        let all = all.collect();
        let actions = {
            self.restarts
                .lock()
                .observe(now, all, &mut EventId::generate)
        };
        self.report_restarts(actions.events);
        for id in actions.due {
            tracing::warn!(pipeline = %id, "restarting the failed pipeline");
            if let Ok(deployed) = self.handle(&id) {
                self.reopen_broken(&deployed.spec().source);
            }
            self.restart_if_failed(&id);
        }
    }

    pub(super) fn has_broken_down(&self, source: &SourceId) -> bool {
        let table = self.sources.table.read();
        table.get(source).is_some_and(SourceHandle::has_broken_down)
    }

    /// Reopens a source that an internal error ended.
    fn reopen_broken(&self, source: &SourceId) {
        let change = self.changes.lock();
        let whole = {
            let table = self.sources.table.read();
            let broken = table.get(source).filter(|s| s.has_broken_down());
            broken.map(|source| source.full_spec().clone())
        };
        let old = whole.map(|whole| self.open_source(whole));
        drop(change);
        // Waits for its thread.
        drop(old);
    }

    /// Ends the events of failed pipelines at shutdown.
    pub(super) fn end_restart_events(&self) {
        let events = self.restarts.lock().end();
        self.report_restarts(events);
    }

    fn report_restarts(&self, events: Vec<RestartEvent>) {
        for RestartEvent {
            pipeline,
            source,
            record,
        } in events
        {
            if let (EventBody::PipelineFailed { message, .. }, Phase::New | Phase::Update) =
                (&record.body, record.phase)
            {
                tracing::error!(%pipeline, "{message}");
            }
            let mut event = box_event(record, &self.parts.boot);
            event.pipeline = Some(pipeline);
            event.source = Some(source);
            event.severity = Severity::Critical;
            self.parts.recorder.report(event);
        }
    }

    fn report_hold(&self, id: &PipelineId, held: &Held, phase: Phase) {
        let body = EventBody::PipelineHeld {
            message: held.why.clone(),
        };
        let record = BoxRecord::new(held.event, phase, body);
        let mut event = box_event(record, &self.parts.boot);
        event.pipeline = Some(id.clone());
        event.severity = Severity::Critical;
        self.parts.recorder.report(event);
    }
}
