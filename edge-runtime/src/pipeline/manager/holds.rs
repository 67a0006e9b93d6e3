//! Pipelines that the guard against crash loops holds ([`crate::guard`]): asked at the start, told what runs, and let go by a person; and those that have
//! failed by themselves ([`restarts`](super::restarts)).
//!
//! Invariant: every hold is an event that begins when the pipeline is held and ends when it is let go; what has failed is begun anew here and never what is held.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, PipelineId, SourceId};
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState};
use watchkeeper_contract::rule::Severity;

use super::deployed::Idle;
use super::restarts::{Health, Observed, Word};
use super::{Deployed, Manager};
use crate::capture::source::SourceHandle;
use crate::guard::{Held, fingerprint};
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::worker::Worker;

/// How a pipeline is, for [`Manager::restart_failed`]. `is_blind`: a fault of ours ended its source.
fn health_of(deployed: &Deployed, is_blind: bool) -> Health {
    match deployed {
        Deployed::Running(worker) => {
            let blind = || "a fault of ours ended its source".to_owned();
            let lost = (is_blind && worker.has_lost_source()).then(blind);
            match worker.internal_error().or(lost) {
                Some(why) => Health::Failed {
                    why,
                    again: !worker.in_recording() && !worker.is_paused(),
                },
                None if worker.wants_frames() => Health::Well,
                // Paused, at its end, or its source has failed, which is an outage.
                None => Health::Resting,
            }
        }
        Deployed::Idle {
            why: Idle::Broken(why),
            spec,
            ..
        } => Health::Failed {
            why: why.clone(),
            again: !spec.paused,
        },
        Deployed::Idle {
            why: Idle::Held(_) | Idle::Stopped(_) | Idle::Over(_),
            ..
        } => Health::Resting,
    }
}

impl Manager {
    /// Lets the guard look at what is going to run, and tells what it holds or lets go.
    pub(super) fn judge(&self, wanted: &BTreeMap<PipelineId, PipelineSpec>) {
        let prints = wanted
            .values()
            .map(|s| (s.id.clone(), self.print(s)))
            .collect();
        let (newly, released) = self.parts.guard.judge(&prints, &mut EventId::generate);
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
                Deployed::Running(worker) => Some(Arc::clone(worker)),
                Deployed::Idle { .. } => None,
            });
            // One that came to its regular end has not killed anybody; one that failed has shown nothing.
            let lives = |w: &Arc<Worker>| w.wants_frames() || w.state() == PipelineState::Ended;
            workers.filter(lives).collect()
        };
        let prints = running
            .iter()
            .map(|w| (w.spec().id.clone(), self.print(w.spec())))
            .collect();
        self.parts.guard.beat(&prints);
    }

    /// Lifts a hold, if there is one.
    pub(super) fn release(&self, id: &PipelineId) {
        if let Some(held) = self.parts.guard.release(id) {
            self.tell_held(id, &held, Phase::End);
        }
    }

    /// Tells of pipelines that have failed, or run again, and begins anew those whose time has come; to be called now and then. A model may take minutes to load.
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
        self.tell_failed(actions.words);
        for id in actions.due {
            tracing::warn!(pipeline = %id, "it has failed and is begun anew");
            if let Ok(deployed) = self.handle(&id) {
                self.reopen_broken(&deployed.spec().source);
            }
            self.revive(&id);
        }
    }

    pub(super) fn has_broken_down(&self, source: &SourceId) -> bool {
        let table = self.sources.table.read();
        table.get(source).is_some_and(SourceHandle::has_broken_down)
    }

    /// Puts another source in the place of one that a fault of ours has ended.
    fn reopen_broken(&self, source: &SourceId) {
        let change = self.changes.lock();
        let whole = {
            let table = self.sources.table.read();
            let broken = table.get(source).filter(|s| s.has_broken_down());
            broken.map(|source| source.whole().clone())
        };
        let old = whole.and_then(|whole| self.open_source(whole));
        drop(change);
        // Its thread is waited for.
        drop(old);
    }

    /// Ends what is told of pipelines that have failed, as nobody looks after them any more.
    pub(super) fn end_failures(&self) {
        let words = self.restarts.lock().end();
        self.tell_failed(words);
    }

    fn tell_failed(&self, words: Vec<Word>) {
        for Word {
            pipeline,
            source,
            record,
        } in words
        {
            if let (EventBody::PipelineFailed { message, .. }, Phase::New | Phase::Update) =
                (&record.body, record.phase)
            {
                tracing::error!(%pipeline, "{message}");
            }
            let mut event = box_event(record, &self.parts.boot_id, self.parts.started);
            event.pipeline = Some(pipeline);
            event.source = Some(source);
            event.severity = Severity::Critical;
            self.parts.recorder.report(event);
        }
    }

    fn tell_held(&self, id: &PipelineId, held: &Held, phase: Phase) {
        let record = BoxRecord {
            id: held.event,
            phase,
            body: EventBody::PipelineHeld {
                message: held.why.clone(),
            },
        };
        let mut event = box_event(record, &self.parts.boot_id, self.parts.started);
        event.pipeline = Some(id.clone());
        event.severity = Severity::Critical;
        self.parts.recorder.report(event);
    }
}
