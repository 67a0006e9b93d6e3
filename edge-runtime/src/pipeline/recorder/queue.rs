//! The queue before the recorder's thread: its lanes, what lies in it, and the progress.
//!
//! - Each lane has its own capacity. An event of a pipeline waits for a place, and with pictures
//!   until the queue has memory for them. One of the runtime is dropped (`Recorder`).
//! - The `new` of an event of the runtime reserves a place for its `end`. Without its `new`, an
//!   event gets no later record.
//! - The queue keeps the order of the places.
//!
//! Not here: what the thread does with an event.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::event::{Event, Phase};
use watchkeeper_contract::id::{EventId, PipelineId};
use watchkeeper_engine::workflow::{Packed, Pixels};

use super::unstored::{Pace, UnstoredMark};
use crate::clock;
use crate::journal::Stamp;
use crate::pipeline::pixels::FramePixels;

/// Capacity for events of pipelines; small, because each may hold a frame.
pub const MAX_PIPELINE_EVENTS: usize = 16;

/// Capacity for records of the runtime's own events, without pictures, and for reserved places.
pub const MAX_BOX_EVENTS: usize = 1024;

/// Maximum number of events of the runtime that are remembered until their end, of those with a
/// `new` and of those without. It is more than sources and pipelines. The oldest is forgotten
/// first.
const MAX_OPEN: usize = MAX_BOX_EVENTS / 2;

/// Limit of the bytes of all pictures in the queue. One event may exceed it.
const MAX_PICTURE_BYTES: u64 = 64 << 20;

/// Bytes of a pixel in RGB.
const RGB_BYTES: u64 = 3;

/// The pictures of an event, not yet converted.
#[derive(Clone)]
pub struct Pictures {
    /// The frame as it came.
    pub clean: Arc<FramePixels>,
    /// The frame with the drawing of the workflow.
    pub annotated: Option<Arc<dyn Pixels>>,
    /// Bytes of kept pictures; 0 of others.
    bytes: u64,
}

impl Pictures {
    /// Pictures of a frame, in its memory.
    pub fn new(clean: Arc<FramePixels>, annotated: Option<Arc<dyn Pixels>>) -> Self {
        Self {
            clean,
            annotated,
            bytes: 0,
        }
    }

    /// These pictures without the frame that they come from: a decoder has few frames, and stops
    /// while all of them are held. The copy is converted and drawn on demand. What can't be drawn
    /// again on a copy is drawn now.
    pub fn kept(&self) -> Self {
        let clean = Arc::new(self.clean.owned());
        let mut bytes = clean.bytes();
        let from: Arc<dyn Pixels> = Arc::clone(&self.clean) as _;
        let to: Arc<dyn Pixels> = Arc::clone(&clean) as _;
        let annotated = self.annotated.as_ref().map(|drawn| {
            drawn.redrawn(&from, &to).unwrap_or_else(|| {
                let [width, height] = drawn.size();
                bytes += u64::from(width) * u64::from(height) * RGB_BYTES;
                // The recorder catches and reports the same panic.
                let rgb = catch_unwind(AssertUnwindSafe(|| drawn.rgb()));
                rgb.map_or_else(|_| Arc::clone(drawn), |rgb| Arc::new(Packed(rgb)) as _)
            })
        });
        Self {
            clean,
            annotated,
            bytes,
        }
    }

    /// Bytes of kept pictures, without conversions; 0 of others.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The capacity that an event uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Pipelines,
    Box,
}

/// Whether a record of the runtime has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxPlace {
    Taken,
    Full,
    /// The `new` of its event found no place, and was counted.
    WithoutNew,
}

/// Records of the loss that an [`Item::Dropped`] becomes: its `new` and its `end`.
pub(super) const DROPPED_RECORDS: u64 = 2;

/// An entry of the queue.
pub(super) enum Item {
    Event {
        event: Box<Event>,
        pictures: Option<Pictures>,
        lane: Lane,
    },
    /// From this moment events found no place; [`Progress::dropped`] counts them. At most one is
    /// queued, in addition to the capacity of the lanes.
    Dropped(Stamp),
}

impl Item {
    /// The phase of an event of a pipeline.
    pub(super) fn pipeline_phase(&self) -> Option<Phase> {
        match self {
            Self::Event {
                event,
                lane: Lane::Pipelines,
                ..
            } => Some(event.phase),
            Self::Event { .. } | Self::Dropped(_) => None,
        }
    }
}

/// Progress of the thread.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Events sent, including those that wait for a place in the queue.
    pub(super) sent: u64,
    /// Events that the thread has finished. The queue keeps the order: once `done` reaches a value
    /// of `sent`, everything sent until then is finished.
    pub(super) done: u64,
    /// Events that were given up because the runtime stops. The mark about them stays.
    pub(super) given_up: u64,
    /// 1 until the records of the last run are stored. The next start makes them again.
    pub(super) left: u64,
    /// The mark is about events up to this value of [`Self::sent`].
    pub(super) marked_until: u64,
    /// Events of pipelines in the queue.
    pipeline_events: usize,
    /// Records of the runtime in the queue.
    box_events: usize,
    /// Events of the runtime whose `end` has a reserved place.
    open_box_events: BTreeSet<EventId>,
    /// Events of the runtime whose `new` found no place.
    without_new: BTreeSet<EventId>,
    /// Records of the runtime that found no place since the last loss record about them.
    pub(super) dropped: u64,
    /// Records that found no place, and whose loss record is not stored yet.
    pub(super) dropped_unstored: u64,
    /// Bytes of the pictures in the queue.
    picture_bytes: u64,
    /// Number of events that were lost without a loss record.
    pub(super) unrecorded: u64,
    /// Pipelines that lost events and have not been notified.
    pub(super) unreported: BTreeSet<PipelineId>,
    /// The thread has ended.
    pub(super) has_ended: bool,
}

impl Progress {
    fn queued(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::Pipelines => &mut self.pipeline_events,
            Lane::Box => &mut self.box_events,
        }
    }

    /// Whether an event of a pipeline with `bytes` of pictures has to wait.
    pub(super) fn is_full(&self, bytes: u64) -> bool {
        let all = self.picture_bytes + bytes;
        let is_too_large = bytes > 0 && self.picture_bytes > 0 && all > MAX_PICTURE_BYTES;
        is_too_large || self.pipeline_events >= MAX_PIPELINE_EVENTS
    }

    pub(super) fn enter(&mut self, lane: Lane, bytes: u64) {
        *self.queued(lane) += 1;
        self.picture_bytes += bytes;
    }

    /// Takes a place for a record of the runtime, or finds none.
    pub(super) fn enter_box(&mut self, id: EventId, phase: Phase) -> BoxPlace {
        if self.without_new.contains(&id) {
            if phase == Phase::End {
                self.without_new.remove(&id);
            }
            return BoxPlace::WithoutNew;
        }
        let is_reserved = phase == Phase::End && self.open_box_events.remove(&id);
        let needed = 1 + usize::from(phase == Phase::New);
        let taken = self.box_events + self.open_box_events.len();
        let is_taken = is_reserved || taken + needed <= MAX_BOX_EVENTS;
        if phase == Phase::New {
            let known = match is_taken {
                true => &mut self.open_box_events,
                false => &mut self.without_new,
            };
            known.insert(id);
            if known.len() > MAX_OPEN {
                known.pop_first();
            }
        }
        if !is_taken {
            return BoxPlace::Full;
        }
        self.enter(Lane::Box, 0);
        BoxPlace::Taken
    }

    pub(super) fn leave(&mut self, lane: Lane, bytes: u64) {
        *self.queued(lane) -= 1;
        self.picture_bytes -= bytes;
    }
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub(super) progress: Mutex<Progress>,
    pub(super) moved: Condvar,
}

impl QueueState {
    /// Number of events that are not finished.
    pub(super) fn waiting(&self) -> u64 {
        let progress = self.progress.lock();
        progress.sent.saturating_sub(progress.done)
    }

    /// Writes to `mark` how many events of this run are not stored, and returns that number.
    pub(super) fn mark_unstored(&self, mark: &Mutex<UnstoredMark>, why: &str, pace: Pace) -> u64 {
        // Held throughout: the thread may finish events meanwhile, and then clears the mark.
        let mut mark = mark.lock();
        let mut count = 0;
        self.change(|progress| {
            let waiting = progress.sent.saturating_sub(progress.done);
            let dropped = progress.dropped + progress.dropped_unstored;
            let all = waiting + progress.given_up + dropped;
            count = all.saturating_sub(progress.left);
            if count > 0 {
                progress.marked_until = progress.sent;
            }
        });
        if count > 0 {
            mark.hold(clock::wall(), count, why, pace);
        }
        count
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.moved.notify_all();
    }
}
