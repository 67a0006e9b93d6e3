//! Processor time that events take outside the threads of their pipelines.
//!
//! - Counts since the start of this process, over all pipelines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use watchkeeper_contract::health::EventTimes;

use crate::clock::ProcessorSum;

#[derive(Debug, Default)]
pub(super) struct EventMeter {
    events: AtomicU64,
    recorder_time: ProcessorSum,
    clips: AtomicU64,
    pub(super) clips_time: Arc<ProcessorSum>,
}

impl EventMeter {
    /// Adds the time of records of pipelines, of which `new` begin an event.
    pub(super) fn add_records(&self, new: usize, spent: Duration) {
        self.recorder_time.add(spent);
        self.events.fetch_add(new as u64, Ordering::Relaxed);
    }

    /// Counts events whose clip has ended.
    pub(super) fn count_clips(&self, events: u64) {
        self.clips.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn times(&self) -> EventTimes {
        EventTimes {
            events: self.events.load(Ordering::Relaxed),
            recorder_s: self.recorder_time.get().as_secs_f64(),
            clips: self.clips.load(Ordering::Relaxed),
            clips_s: self.clips_time.get().as_secs_f64(),
        }
    }
}
