//! The queue before the recorder's thread: its lanes, what lies in it, and the progress.
//!
//! - Each lane has a capacity of its own. A sender waits for a place in its lane (`Recorder`).
//! - The queue keeps the order of the places.
//!
//! Not here: what the thread does with an event.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_engine::workflow::{Packed, Pixels};

/// Capacity for events of pipelines; small, because each may hold a frame.
pub const MAX_PIPELINE_EVENTS: usize = 16;

/// Capacity for events of the runtime: an outage or two of every possible source, without pictures.
pub const MAX_BOX_EVENTS: usize = 1024;

/// The pictures of an event, not yet converted.
#[derive(Clone)]
pub struct Pictures {
    /// The frame as it came.
    pub clean: Arc<dyn Pixels>,
    /// The frame with the drawing of the workflow.
    pub annotated: Option<Arc<dyn Pixels>>,
}

impl Pictures {
    /// These pictures in RGB, drawn, and without the frame that they come from: a decoder has few
    /// frames, and stops while all of them are held.
    #[must_use]
    pub fn packed(&self) -> Self {
        let pack = |pixels: &Arc<dyn Pixels>| -> Arc<dyn Pixels> { Arc::new(Packed(pixels.rgb())) };
        // The recorder catches and reports the same panic.
        let packed = catch_unwind(AssertUnwindSafe(|| Self {
            clean: pack(&self.clean),
            annotated: self.annotated.as_ref().map(pack),
        }));
        packed.unwrap_or_else(|_| self.clone())
    }
}

impl std::fmt::Debug for Pictures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pictures")
            .field("size", &self.clean.size())
            .field("annotated", &self.annotated.is_some())
            .finish()
    }
}

/// The capacity that an event uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Pipelines,
    Box,
}

impl Lane {
    pub(super) fn capacity(self) -> usize {
        match self {
            Self::Pipelines => MAX_PIPELINE_EVENTS,
            Self::Box => MAX_BOX_EVENTS,
        }
    }
}

/// An event in the queue.
pub(super) struct Item {
    pub(super) event: Box<Event>,
    pub(super) pictures: Option<Pictures>,
    pub(super) lane: Lane,
}

/// Progress of the thread.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Events sent, including those that wait for a place in the queue.
    pub(super) sent: u64,
    /// Events that the thread has finished. The queue keeps the order: once `done` reaches a value
    /// of `sent`, everything sent until then is finished.
    pub(super) done: u64,
    /// Events of pipelines in the queue.
    pipeline_events: usize,
    /// Events of the runtime in the queue.
    box_events: usize,
    /// Events were lost without a loss record.
    pub(super) has_lost: bool,
    /// Pipelines that lost events and have not been notified.
    pub(super) unreported: BTreeSet<PipelineId>,
    /// The thread has ended.
    pub(super) has_ended: bool,
}

impl Progress {
    pub(super) fn queued(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Pipelines => &mut self.pipeline_events,
            Lane::Box => &mut self.box_events,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub(super) progress: Mutex<Progress>,
    pub(super) moved: Condvar,
}

impl QueueState {
    /// Events sent so far, and those of them that are not finished.
    pub(super) fn sent_and_waiting(&self) -> (u64, u64) {
        let progress = self.progress.lock();
        (progress.sent, progress.sent.saturating_sub(progress.done))
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.moved.notify_all();
    }
}
