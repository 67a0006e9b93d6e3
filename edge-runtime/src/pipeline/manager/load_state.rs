//! What the manager remembers of heat: the policy, the event of shedding, and usual rates.
//!
//! - One event spans the time in which load is shed; each step is a record of it.
//! - A pipeline's usual rate is what it looked at before load was shed. One that began later is
//!   limited by what it wants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, PipelineId};

use crate::load::{HeatPolicy, Level, MIN_FPS, Step};
use crate::pipeline::box_event::{BoxRecord, round_to_ms};
use crate::pipeline::worker::Worker;

/// The manager's state of load shedding.
#[derive(Debug, Default)]
pub(super) struct LoadState {
    pub(super) policy: HeatPolicy,
    /// The event of the time in which load is shed, its beginning, and its last message.
    pub(super) shedding: Option<Shedding>,
    /// Looks a second of each pipeline before load was shed.
    usual_fps: BTreeMap<PipelineId, f64>,
}

#[derive(Debug)]
pub(super) struct Shedding {
    event: EventId,
    since: Instant,
    pub(super) message: String,
}

impl LoadState {
    /// Grants each pipeline what the level leaves to it.
    pub(super) fn apply(&mut self, workers: &[Arc<Worker>]) {
        let level = self.policy.level();
        let is_running = |id: &PipelineId| workers.iter().any(|worker| worker.spec().id == *id);
        self.usual_fps.retain(|id, _| is_running(id));
        for worker in workers {
            let spec = worker.spec();
            let looked = worker.looked_fps();
            if level == Level::NONE && looked >= MIN_FPS {
                self.usual_fps.insert(spec.id.clone(), looked);
            }
            let usual = self.usual_fps.get(&spec.id).copied();
            let usual = usual.unwrap_or_else(|| worker.wanted_fps());
            worker.set_grant(level.grant(spec.priority, usual));
        }
    }

    pub(super) fn record(&mut self, step: &Step) -> BoxRecord {
        let message = step.message();
        if step.to == Level::NONE
            && let Some(shedding) = self.shedding.take()
        {
            return Shedding {
                message,
                ..shedding
            }
            .end(step.to);
        }
        let phase = if self.shedding.is_some() {
            Phase::Update
        } else {
            Phase::New
        };
        let shedding = self.shedding.get_or_insert_with(|| Shedding {
            event: EventId::generate(),
            since: Instant::now(),
            message: String::new(),
        });
        shedding.message.clone_from(&message);
        BoxRecord::new(shedding.event, phase, body(step.to, message, None))
    }
}

impl Shedding {
    /// The record that ends the event, with its own message.
    pub(super) fn end_with(self, message: String) -> BoxRecord {
        Self { message, ..self }.end(Level::NONE)
    }

    pub(super) fn end(self, level: Level) -> BoxRecord {
        let body = body(level, self.message, Some(self.since.elapsed()));
        BoxRecord::new(self.event, Phase::End, body)
    }
}

fn body(level: Level, message: String, lasted: Option<Duration>) -> EventBody {
    EventBody::LoadShed {
        level: level.number(),
        message,
        lasted_s: lasted.map(round_to_ms),
    }
}
