//! What waits for the thread of one clip: its pictures, and the events that it is of.
//!
//! Invariants: pictures leave in the order in which they came, those that the clip begins with first; they are at most [`MOST_BYTES`] together, and whoever
//! hands over one too many waits only where that is said, and not for ever; a picture that is left out is counted; whoever tells of an event never waits, and
//! at most [`MOST_EVENTS`] are told of; nobody waits here once the thread takes no more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::event::Event;

use super::pre_roll::{self, Shot};

/// Most bytes of pictures that wait for one clip: the longest beginning, and some seconds of what the camera shows meanwhile. An encoder that takes
/// pictures no slower than they come is never handed more.
pub(super) const MOST_BYTES: usize = pre_roll::MOST_BYTES + (4 << 20);

/// Pictures of a recording that may wait: it is played as fast as it is taken, so more of them would only be in memory.
pub(super) const MOST_OF_A_RECORDING: usize = 64;

/// Events that one clip is of; those that come after begin another one.
pub(super) const MOST_EVENTS: usize = 128;

/// An event, and the source time at which it began.
pub(super) type Told = (Event, Duration);

/// See above.
#[derive(Debug)]
pub(super) struct FrameQueue {
    parts: Mutex<Parts>,
    moved: Condvar,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Parts {
    shots: VecDeque<Arc<Shot>>,
    bytes: usize,
    left_out: u32,
    told: Vec<Told>,
    /// The thread takes no more pictures.
    is_refused: bool,
    /// No more pictures and events come.
    is_closed: bool,
}

impl Parts {
    fn has_room(&self, shot: &Shot, most_bytes: usize) -> bool {
        self.shots.is_empty() || self.bytes + shot.jpeg.len() <= most_bytes
    }

    fn refuse(&mut self) {
        self.is_refused = true;
        self.shots.clear();
        self.bytes = 0;
    }
}

impl FrameQueue {
    /// These pictures wait from the beginning.
    pub(super) fn new(first: Vec<Arc<Shot>>, most_bytes: usize) -> Self {
        let parts = Parts {
            bytes: first.iter().map(|shot| shot.jpeg.len()).sum(),
            shots: first.into(),
            ..Parts::default()
        };
        Self {
            parts: Mutex::new(parts),
            moved: Condvar::new(),
            most_bytes,
        }
    }

    /// A picture more. Where there is no room it is left out; `patience` says how long to wait before that, and is given for a recording. One that is waited
    /// for in vain is the last: the encoder hangs, and the next would be waited for as long.
    pub(super) fn push(&self, shot: &Arc<Shot>, patience: Option<Duration>) {
        let mut parts = self.parts.lock();
        if let Some(patience) = patience {
            let is_full = |parts: &mut Parts| {
                let is_many = parts.shots.len() >= MOST_OF_A_RECORDING;
                !parts.is_refused && (is_many || !parts.has_room(shot, self.most_bytes))
            };
            // An encoder that is slow goes on; only one that takes nothing for so long hangs.
            let mut before = usize::MAX;
            while is_full(&mut parts) && parts.shots.len() < before {
                before = parts.shots.len();
                let stands = |parts: &mut Parts| parts.shots.len() >= before && is_full(parts);
                self.moved.wait_while_for(&mut parts, stands, patience);
            }
            if is_full(&mut parts) {
                let waiting = u32::try_from(parts.shots.len()).unwrap_or(u32::MAX);
                parts.left_out = parts.left_out.saturating_add(waiting).saturating_add(1);
                parts.refuse();
            }
        }
        if parts.is_refused {
            return;
        }
        if !parts.has_room(shot, self.most_bytes) {
            parts.left_out = parts.left_out.saturating_add(1);
            return;
        }
        parts.bytes += shot.jpeg.len();
        parts.shots.push_back(Arc::clone(shot));
        drop(parts);
        self.moved.notify_all();
    }

    /// Whether the clip may be of one event more.
    pub(super) fn takes_events(&self) -> bool {
        let parts = self.parts.lock();
        !parts.is_refused && parts.told.len() < MOST_EVENTS
    }

    /// Whether the thread takes no more pictures.
    pub(super) fn is_refused(&self) -> bool {
        self.parts.lock().is_refused
    }

    /// The clip is of this event too.
    pub(super) fn tell(&self, told: Told) {
        self.parts.lock().told.push(told);
    }

    /// No more pictures and events come.
    pub(super) fn close(&self) {
        self.parts.lock().is_closed = true;
        self.moved.notify_all();
    }

    /// The next picture, once there is one; none when all came.
    pub(super) fn next(&self) -> Option<Arc<Shot>> {
        let mut parts = self.parts.lock();
        let is_quiet = |parts: &mut Parts| parts.shots.is_empty() && !parts.is_closed;
        self.moved.wait_while(&mut parts, is_quiet);
        let shot = parts.shots.pop_front()?;
        parts.bytes -= shot.jpeg.len();
        drop(parts);
        self.moved.notify_all();
        Some(shot)
    }

    /// No more pictures are taken; those that wait are let go.
    pub(super) fn refuse(&self) {
        self.parts.lock().refuse();
        self.moved.notify_all();
    }

    /// The events that were told of, which are taken out, and how many pictures were left out.
    pub(super) fn take_told(&self) -> (Vec<Told>, u32) {
        let mut parts = self.parts.lock();
        (std::mem::take(&mut parts.told), parts.left_out)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use proptest::prelude::*;
    use watchkeeper_contract::time::{TimeQuality, Wall};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shot(n: u64, bytes: usize) -> Arc<Shot> {
        Arc::new(Shot {
            at: Duration::from_millis(n * 100),
            wall: Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            },
            jpeg: vec![0; bytes],
        })
    }

    #[test]
    fn a_recording_waits_for_a_place_and_nothing_of_it_is_left_out() {
        let waiting = Arc::new(FrameQueue::new(vec![shot(0, 10)], 100_000));
        let taken = Arc::clone(&waiting);
        let pushing = std::thread::spawn(move || {
            for n in 1..1000 {
                waiting.push(&shot(n, 10), Some(LONG));
                assert!(waiting.parts.lock().shots.len() <= MOST_OF_A_RECORDING);
            }
            waiting.close();
        });
        let came: Vec<Duration> = std::iter::from_fn(|| taken.next().map(|s| s.at)).collect();
        pushing.join().unwrap();
        assert!(came.is_sorted());
        assert_eq!((came.len(), taken.take_told().1), (1000, 0));
    }

    #[test]
    fn an_encoder_that_hangs_is_waited_for_once() {
        let waiting = FrameQueue::new(vec![shot(0, 10), shot(1, 10)], 25);
        waiting.push(&shot(2, 10), Some(Duration::ZERO));
        assert_eq!(waiting.take_told().1, 3, "those that waited, and this one");
        // It would wait for a minute.
        waiting.push(&shot(3, 100), Some(LONG));
        waiting.close();
        assert_eq!(waiting.next(), None);
    }

    #[test]
    fn whoever_waits_for_a_place_goes_on_when_no_more_is_taken() {
        let waiting = Arc::new(FrameQueue::new(vec![shot(0, 10)], 15));
        let waits = Arc::clone(&waiting);
        let pushing = std::thread::spawn(move || waits.push(&shot(1, 10), Some(LONG)));
        waiting.refuse();
        pushing.join().unwrap();
        assert_eq!(waiting.take_told().1, 0, "nobody was too slow");
    }

    proptest! {
        #[test]
        fn what_a_camera_shows_is_bounded_in_order_and_complete_or_counted(
            first in prop::collection::vec(1_usize..300, 0..20),
            steps in prop::collection::vec(prop::option::of(1_usize..300), 0..200),
        ) {
            let most = 1000;
            let held: usize = first.iter().sum();
            let first: Vec<_> = (0_u64..).zip(first).map(|(n, bytes)| shot(n, bytes)).collect();
            let mut handed = first.len();
            let waiting = FrameQueue::new(first, most);
            let mut came = Vec::new();
            for step in steps {
                match step {
                    Some(bytes) => {
                        waiting.push(&shot(handed as u64, bytes), None);
                        handed += 1;
                    }
                    None if waiting.parts.lock().shots.is_empty() => {}
                    None => came.extend(waiting.next().map(|s| s.at)),
                }
                let parts = waiting.parts.lock();
                let bytes: usize = parts.shots.iter().map(|s| s.jpeg.len()).sum();
                prop_assert_eq!(bytes, parts.bytes);
                prop_assert!(bytes <= most.max(held));
            }
            waiting.close();
            came.extend(std::iter::from_fn(|| waiting.next().map(|s| s.at)));
            prop_assert!(came.windows(2).all(|pair| pair[0] < pair[1]));
            let (_, left_out) = waiting.take_told();
            prop_assert_eq!(came.len() + left_out as usize, handed);
        }
    }
}
