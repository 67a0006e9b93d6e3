//! The queue of one clip's thread: its frames and its events.
//!
//! - Frames leave in order. Pictures take at most [`MAX_BYTES`], a stream more
//!   ([`super::STREAM_QUEUE_BYTES`]).
//! - A sender waits for space only if it asks to, and only for a limited time; otherwise the frame
//!   is dropped and counted.
//! - Where a part of a stream was dropped, all up to the next key frame are.
//! - Adding an event never blocks. At most [`MAX_EVENTS`] are accepted.
//! - All waiting senders return once the thread takes no more frames.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::event::Event;

use super::pre_roll::{self, ClipFrame};
use crate::journal::RetentionRank;

/// Maximum bytes of queued frames: the longest pre-roll, and some seconds of new frames. An encoder
/// that keeps up never gets more.
pub(super) const MAX_BYTES: usize = pre_roll::MAX_BYTES + (4 << 20);

/// Maximum queued frames of a recording, which is played at the speed of the encoder anyway.
const MAX_RECORDING_FRAMES: usize = 64;

/// Maximum number of events of one clip; later events begin another clip.
pub(super) const MAX_EVENTS: usize = 128;

/// An event and the source time at which it began.
pub(super) type QueuedEvent = (Event, Duration);

#[derive(Debug)]
pub(super) struct FrameQueue {
    state: Mutex<QueueState>,
    moved: Condvar,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    frames: VecDeque<Arc<ClipFrame>>,
    bytes: usize,
    left_out: u32,
    /// A frame was dropped that those up to the next key frame need.
    awaits_key: bool,
    events: Vec<QueuedEvent>,
    /// The thread takes no more frames.
    is_refused: bool,
    /// No more frames or events will be added.
    is_closed: bool,
}

impl QueueState {
    fn has_space(&self, frame: &ClipFrame, max_bytes: usize) -> bool {
        self.frames.is_empty() || self.bytes + frame.bytes() <= max_bytes
    }

    fn refuse(&mut self) {
        self.is_refused = true;
        self.frames.clear();
        self.bytes = 0;
    }
}

impl FrameQueue {
    /// A queue that starts with these frames.
    pub(super) fn new(first: Vec<Arc<ClipFrame>>, max_bytes: usize) -> Self {
        let state = QueueState {
            bytes: first.iter().map(|frame| frame.bytes()).sum(),
            frames: first.into(),
            ..QueueState::default()
        };
        Self {
            state: Mutex::new(state),
            moved: Condvar::new(),
            max_bytes,
        }
    }

    /// Queues a frame; drops it if the queue is full. With a `timeout`, given for a recording,
    /// waits that long first. After a timeout the queue refuses all frames, because the encoder
    /// hangs.
    pub(super) fn push(&self, frame: &Arc<ClipFrame>, timeout: Option<Duration>) {
        let mut state = self.state.lock();
        if let Some(timeout) = timeout {
            let is_full = |state: &mut QueueState| {
                let is_many = state.frames.len() >= MAX_RECORDING_FRAMES;
                !state.is_refused && (is_many || !state.has_space(frame, self.max_bytes))
            };
            // A slow encoder makes progress; only one that takes nothing for so long hangs.
            let mut before = usize::MAX;
            while is_full(&mut state) && state.frames.len() < before {
                before = state.frames.len();
                let stands =
                    |state: &mut QueueState| state.frames.len() >= before && is_full(state);
                self.moved.wait_while_for(&mut state, stands, timeout);
            }
            if is_full(&mut state) {
                let queue = u32::try_from(state.frames.len()).unwrap_or(u32::MAX);
                state.left_out = state.left_out.saturating_add(queue).saturating_add(1);
                state.refuse();
            }
        }
        if state.is_refused {
            return;
        }
        let is_useless = state.awaits_key && frame.needs_earlier();
        if is_useless || !state.has_space(frame, self.max_bytes) {
            state.left_out = state.left_out.saturating_add(1);
            state.awaits_key |= frame.is_packet();
            return;
        }
        state.awaits_key = false;
        state.bytes += frame.bytes();
        state.frames.push_back(Arc::clone(frame));
        drop(state);
        self.moved.notify_all();
    }

    /// Counts frames that the source lost, or kept too short a time.
    pub(super) fn count_missing(&self, missing: u64) {
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        state.left_out = state.left_out.saturating_add(missing);
    }

    /// Whether another event can join the clip.
    pub(super) fn takes_events(&self) -> bool {
        let state = self.state.lock();
        !state.is_refused && state.events.len() < MAX_EVENTS
    }

    /// Whether the thread takes no more frames.
    pub(super) fn is_refused(&self) -> bool {
        self.state.lock().is_refused
    }

    /// Adds an event to the clip.
    pub(super) fn add_event(&self, events: QueuedEvent) {
        self.state.lock().events.push(events);
    }

    /// Closes the queue: no more frames or events will be added.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.moved.notify_all();
    }

    /// Waits for the next frame; `None` when the queue is closed and empty.
    pub(super) fn next(&self) -> Option<Arc<ClipFrame>> {
        let mut state = self.state.lock();
        let is_quiet = |state: &mut QueueState| state.frames.is_empty() && !state.is_closed;
        self.moved.wait_while(&mut state, is_quiet);
        let frame = state.frames.pop_front()?;
        state.bytes -= frame.bytes();
        drop(state);
        self.moved.notify_all();
        Some(frame)
    }

    /// Refuses all further frames and drops the queued ones.
    pub(super) fn refuse(&self) {
        self.state.lock().refuse();
        self.moved.notify_all();
    }

    /// The highest rank of the events: how long retention keeps the clip.
    pub(super) fn rank(&self) -> RetentionRank {
        let state = self.state.lock();
        let ranks = state.events.iter().map(|(event, _)| event.severity.into());
        ranks.max().unwrap_or(RetentionRank::Normal)
    }

    /// Takes the events, and the number of dropped frames.
    pub(super) fn take_events(&self) -> (Vec<QueuedEvent>, u32) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.events), state.left_out)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_contract::time::{TimeQuality, Wall};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn frame(n: u64, bytes: usize) -> Arc<ClipFrame> {
        Arc::new(ClipFrame {
            at: Duration::from_millis(n * 100),
            wall: Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            },
            content: super::super::pre_roll::Content::Jpeg(vec![0; bytes]),
        })
    }

    #[test]
    fn recording_waits_for_space_and_drops_nothing() {
        let queue = Arc::new(FrameQueue::new(vec![frame(0, 10)], 100_000));
        let taken = Arc::clone(&queue);
        let pushing = std::thread::spawn(move || {
            for n in 1..1000 {
                queue.push(&frame(n, 10), Some(LONG));
                assert!(queue.state.lock().frames.len() <= MAX_RECORDING_FRAMES);
            }
            queue.close();
        });
        let came: Vec<Duration> = std::iter::from_fn(|| taken.next().map(|s| s.at)).collect();
        pushing.join().unwrap();
        assert!(came.is_sorted());
        assert_eq!((came.len(), taken.take_events().1), (1000, 0));
    }

    #[test]
    fn hanging_encoder_is_waited_for_once() {
        let queue = FrameQueue::new(vec![frame(0, 10), frame(1, 10)], 25);
        queue.push(&frame(2, 10), Some(Duration::ZERO));
        assert_eq!(queue.take_events().1, 3, "the queued frames and this one");
        // With a timeout of one minute.
        queue.push(&frame(3, 100), Some(LONG));
        queue.close();
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn blocked_push_returns_when_queue_refuses() {
        let queue = Arc::new(FrameQueue::new(vec![frame(0, 10)], 15));
        let waits = Arc::clone(&queue);
        let pushing = std::thread::spawn(move || waits.push(&frame(1, 10), Some(LONG)));
        queue.refuse();
        pushing.join().unwrap();
        assert_eq!(queue.take_events().1, 0, "no frame counts as dropped");
    }

    proptest! {
        #[test]
        fn camera_frames_are_bounded_ordered_and_counted(
            first in prop::collection::vec(1_usize..300, 0..20),
            steps in prop::collection::vec(prop::option::of(1_usize..300), 0..200),
        ) {
            let most = 1000;
            let held: usize = first.iter().sum();
            let first: Vec<_> = (0_u64..).zip(first).map(|(n, bytes)| frame(n, bytes)).collect();
            let mut handed = first.len();
            let queue = FrameQueue::new(first, most);
            let mut came = Vec::new();
            for step in steps {
                match step {
                    Some(bytes) => {
                        queue.push(&frame(handed as u64, bytes), None);
                        handed += 1;
                    }
                    None if queue.state.lock().frames.is_empty() => {}
                    None => came.extend(queue.next().map(|s| s.at)),
                }
                let state = queue.state.lock();
                let bytes: usize = state.frames.iter().map(|s| s.bytes()).sum();
                prop_assert_eq!(bytes, state.bytes);
                prop_assert!(bytes <= most.max(held));
            }
            queue.close();
            came.extend(std::iter::from_fn(|| queue.next().map(|s| s.at)));
            prop_assert!(came.windows(2).all(|pair| pair[0] < pair[1]));
            let (_, left_out) = queue.take_events();
            prop_assert_eq!(came.len() + left_out as usize, handed);
        }
    }
}
