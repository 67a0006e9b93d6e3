//! The queue before the recorder's thread: its lanes, what lies in it, and the progress.
//!
//! - Each lane has its own capacity. An event of a pipeline waits for a place; one of the runtime
//!   is dropped (`Recorder`).
//! - An event with pictures waits until the queue has room for them. While the disk refuses, it
//!   gives them up instead.
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
use watchkeeper_contract::time::TimeQuality;
use watchkeeper_engine::workflow::{Packed, Pixels};

use super::unstored::{Pace, UnstoredMark};
use crate::clock;
use crate::journal::Stamp;
use crate::pipeline::pixels::FramePixels;

/// Capacity for events of pipelines.
pub const MAX_PIPELINE_EVENTS: usize = 1024;

/// Most of them with pictures; small, because each may hold a frame of the decoder.
const MAX_WITH_PICTURES: usize = 16;

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

/// Records of the loss that an [`Item`] about lost events or pictures becomes: its `new` and its
/// `end`.
pub(super) const LOSS_RECORDS: u64 = 2;

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
    /// From this moment events lost their pictures; [`Progress::without_pictures`] counts them. At
    /// most one is queued, in addition too.
    WithoutPictures(Stamp),
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
            Self::Event { .. } | Self::Dropped(_) | Self::WithoutPictures(_) => None,
        }
    }
}

/// Progress of the thread.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Events that have or had a place in the queue.
    pub(super) sent: u64,
    /// Events of pipelines that came, in the order in which each got its ticket.
    arrived: u64,
    /// Tickets of events that wait for a place. Each is sent, and gets its place in the order, when
    /// it has one.
    blocked: BTreeSet<u64>,
    /// Events that the thread has finished. The queue keeps the order: once `done` reaches a value
    /// of `sent`, everything sent until then is finished.
    pub(super) done: u64,
    /// Events that were given up because the runtime stops. The mark about them stays.
    pub(super) given_up: u64,
    /// 1 until the records of the last run are stored. The next start makes them again.
    pub(super) left: u64,
    /// The mark is about events up to this value of [`Self::sent`].
    pub(super) marked_until: u64,
    /// The mark is about blocked events up to this ticket.
    marked_arrived: u64,
    /// Events of pipelines in the queue.
    pipeline_events: usize,
    /// Those of them with pictures.
    with_pictures: usize,
    /// The earliest time of the events that came since none was unfinished, in milliseconds since
    /// 1970; the minimum where it is unknown. What the last run left has no time.
    earliest_ms: Option<i64>,
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
    /// Events that lost their pictures since the last loss record about them.
    pub(super) without_pictures: u64,
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

    /// Whether an event of a pipeline has to wait, whatever pictures it has.
    pub(super) fn is_full(&self) -> bool {
        self.pipeline_events >= MAX_PIPELINE_EVENTS
    }

    /// Whether an event with `bytes` of pictures has to wait because of them.
    pub(super) fn lacks_room_for(&self, bytes: u64) -> bool {
        let all = self.picture_bytes + bytes;
        let is_too_large = bytes > 0 && self.picture_bytes > 0 && all > MAX_PICTURE_BYTES;
        is_too_large || self.with_pictures >= MAX_WITH_PICTURES
    }

    /// Takes a place for an event and the `bytes` of its pictures.
    pub(super) fn enter(&mut self, lane: Lane, bytes: Option<u64>) {
        *self.queued(lane) += 1;
        self.with_pictures += usize::from(bytes.is_some());
        self.picture_bytes += bytes.unwrap_or_default();
    }

    /// Counts an event of a pipeline that waits for a place, until [`Self::admit`] with the ticket
    /// that it returns.
    pub(super) fn block(&mut self, event: &Event) -> u64 {
        self.note_time(event);
        self.arrived += 1;
        self.blocked.insert(self.arrived);
        self.arrived
    }

    /// Gives a place to an event that waited. A mark that counts it is about its place from now on.
    pub(super) fn admit(&mut self, ticket: u64, bytes: Option<u64>) {
        self.blocked.remove(&ticket);
        self.enter(Lane::Pipelines, bytes);
        self.sent += 1;
        if ticket <= self.marked_arrived {
            self.marked_until = self.sent;
        }
    }

    /// Counts a record of the runtime that has a place.
    pub(super) fn send_box(&mut self, event: &Event) {
        self.note_time(event);
        self.sent += 1;
    }

    fn note_time(&mut self, event: &Event) {
        let at_ms = match event.at.quality {
            TimeQuality::Unsynced => i64::MIN,
            TimeQuality::Estimated | TimeQuality::Synced => event.at.unix_ms,
        };
        let known = self.earliest_ms.filter(|_| self.unfinished() > 0);
        self.earliest_ms = Some(known.map_or(at_ms, |known| known.min(at_ms)));
    }

    /// From when on events may be unfinished, in milliseconds since 1970; `None` if that is unknown
    /// or none is.
    pub(super) fn unfinished_since_ms(&self) -> Option<i64> {
        let is_known = self.left == 0 && self.given_up == 0 && self.unrecorded == 0;
        self.earliest_ms
            .filter(|ms| is_known && self.unfinished() > 0 && *ms != i64::MIN)
    }

    /// The ticket of the newest event of a pipeline.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether an event with a ticket up to this one waits for a place.
    pub(super) fn has_blocked(&self, ticket: u64) -> bool {
        self.blocked.first().is_some_and(|first| *first <= ticket)
    }

    /// Number of events that are not finished.
    pub(super) fn unfinished(&self) -> u64 {
        (self.sent + self.blocked.len() as u64).saturating_sub(self.done)
    }

    /// Sets that the mark is about all events that came so far.
    pub(super) fn mark(&mut self) {
        (self.marked_until, self.marked_arrived) = (self.sent, self.arrived);
    }

    /// Whether all events that the mark is about are stored.
    pub(super) fn is_mark_settled(&self) -> bool {
        let is_admitted = !self.has_blocked(self.marked_arrived);
        self.given_up == 0 && is_admitted && self.done >= self.marked_until
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
        self.enter(Lane::Box, None);
        BoxPlace::Taken
    }

    pub(super) fn leave(&mut self, lane: Lane, bytes: Option<u64>) {
        *self.queued(lane) -= 1;
        self.with_pictures -= usize::from(bytes.is_some());
        self.picture_bytes -= bytes.unwrap_or_default();
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
        self.progress.lock().unfinished()
    }

    /// Writes to `mark` how many events of this run are not stored, and returns that number.
    pub(super) fn mark_unstored(&self, mark: &Mutex<UnstoredMark>, why: &str, pace: Pace) -> u64 {
        // Held throughout: the thread may finish events meanwhile, and then clears the mark.
        let mut mark = mark.lock();
        let mut count = 0;
        self.change(|progress| {
            let dropped = progress.dropped + progress.dropped_unstored;
            let all = progress.unfinished() + progress.given_up + dropped;
            count = all.saturating_sub(progress.left);
            if count > 0 {
                progress.mark();
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
