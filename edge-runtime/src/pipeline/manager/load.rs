//! Applies the heat policy to the pipelines, and reports its steps.
//!
//! - Not here: the policy (`crate::load`), the open event and the grants (`load_state`).

use std::time::Duration;

use watchkeeper_board::reading::Reading;
use watchkeeper_contract::event::EventBody;

use super::Manager;
use crate::load::Level;
use crate::pipeline::box_event::{BoxRecord, box_event};

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
    pub fn load_level(&self) -> (Level, Option<String>) {
        let load = self.load.lock();
        (load.policy.level(), load.policy.describe())
    }

    /// Ends the event of shedding at shutdown.
    pub(super) fn end_load_event(&self) {
        let ended = self.load.lock().shedding.take();
        if let Some(shedding) = ended {
            let message = "load level 0: shedding ends with the runtime".to_owned();
            self.report_load(shedding.end_with(message));
        }
    }

    fn report_load(&self, record: BoxRecord) {
        if let EventBody::LoadShed { message, .. } = &record.body {
            tracing::warn!("{message}");
        }
        let event = box_event(record, &self.parts.boot);
        self.parts.recorder.report(event);
    }
}
