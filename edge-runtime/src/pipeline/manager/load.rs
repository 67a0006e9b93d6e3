//! Applies the heat policy to the pipelines, and reports its steps.
//!
//! - One event spans the time in which load is shed; each step is a record of it.
//! - A pipeline's usual rate is what it looked at before load was shed. One that began later is
//!   limited by what it wants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use watchkeeper_board::reading::Reading;
use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::{EventId, PipelineId};

use super::Manager;
use super::deployed::Deployed;
use crate::load::{HeatPolicy, Level, MIN_FPS, Step};
use crate::pipeline::box_event::{BoxRecord, box_event};
use crate::pipeline::worker::Worker;

/// What the manager remembers of heat.
#[derive(Debug, Default)]
pub(super) struct LoadState {
    policy: HeatPolicy,
    /// The event of the time in which load is shed, its beginning, and its last message.
    shedding: Option<Shedding>,
    /// Looks a second of each pipeline before load was shed.
    usual_fps: BTreeMap<PipelineId, f64>,
}

#[derive(Debug)]
struct Shedding {
    event: EventId,
    since: Instant,
    message: String,
}

impl Manager {
    /// Takes the latest reading of the board and its age, and sheds load or gives it back. Called
    /// every [`SAMPLE_INTERVAL`](crate::load::policy::SAMPLE_INTERVAL).
    pub fn regulate_load(&self, reading: &Reading, age: Duration) {
        let workers = self.running_workers();
        let mut load = self.load.lock();
        let step = load.policy.handle(reading.at + age, reading);
        load.apply(&workers);
        let record = step.map(|step| load.record(&step));
        let level = load.policy.level();
        drop(load);
        self.parts.metrics.set_load_level(level);
        if let Some(record) = record {
            self.report_load(record);
        }
    }

    /// The level of shedding, and one sentence about it while load is shed.
    #[must_use]
    pub fn load_level(&self) -> (Level, Option<String>) {
        let load = self.load.lock();
        let message = load.shedding.as_ref().map(|shedding| &shedding.message);
        (load.policy.level(), message.cloned())
    }

    /// Ends the event of shedding at shutdown.
    pub(super) fn end_load_event(&self) {
        let ended = self.load.lock().shedding.take();
        if let Some(shedding) = ended {
            let message = "load level 0: shedding ends with the runtime".to_owned();
            let shedding = Shedding {
                message,
                ..shedding
            };
            self.report_load(shedding.end(Level::NONE));
        }
    }

    fn running_workers(&self) -> Vec<Arc<Worker>> {
        let table = self.pipelines.lock();
        let running = table.values().filter_map(|deployed| match deployed {
            Deployed::Running(worker) => Some(Arc::clone(worker)),
            Deployed::Idle { .. } => None,
        });
        running.collect()
    }

    fn report_load(&self, record: BoxRecord) {
        if let EventBody::LoadShed { message, .. } = &record.body {
            tracing::warn!("{message}");
        }
        let event = box_event(record, &self.parts.boot_id, self.parts.started);
        self.parts.recorder.report(event);
    }
}

impl LoadState {
    /// Grants each pipeline what the level leaves to it.
    fn apply(&mut self, workers: &[Arc<Worker>]) {
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

    /// The record of a step.
    fn record(&mut self, step: &Step) -> BoxRecord {
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
        BoxRecord {
            id: shedding.event,
            phase,
            body: body(step.to, message, None),
        }
    }
}

impl Shedding {
    fn end(self, level: Level) -> BoxRecord {
        BoxRecord {
            id: self.event,
            phase: Phase::End,
            body: body(level, self.message, Some(self.since.elapsed())),
        }
    }
}

fn body(level: Level, message: String, lasted: Option<Duration>) -> EventBody {
    EventBody::LoadShed {
        level: level.number(),
        message,
        lasted_s: lasted.map(|lasted| lasted.as_secs_f64()),
    }
}
