//! Pipelines that the guard against crash loops holds ([`crate::guard`]): asked at the start, told what runs, and let go by a person.
//!
//! Invariant: every hold is an event that begins when the pipeline is held and ends when it is let go.

use std::collections::BTreeMap;
use std::sync::Arc;

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PipelineSpec, PipelineState};
use watchkeeper_contract::rule::Severity;

use super::{Deployed, Manager};
use crate::guard::{Held, fingerprint};
use crate::pipeline::outage::{BoxRecord, box_event};
use crate::pipeline::worker::{Worker, new_id};

impl Manager {
    /// Lets the guard look at what is going to run, and tells what it holds or lets go.
    pub(super) fn judge(&self, wanted: &BTreeMap<PipelineId, PipelineSpec>) {
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
        self.parts.recorder.tell(event);
    }
}
