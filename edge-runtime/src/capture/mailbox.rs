//! Frames from one source to its subscribers.
//!
//! Owns the two delivery policies and their counters. Invariants: no subscriber ever holds more than [`QUEUE`] waiting
//! frames; with [`Policy::Newest`] the source never waits and every overwritten frame is counted; with
//! [`Policy::Lossless`] no frame is lost and the source waits for the slowest subscriber, but only as long as that one
//! is subscribed: dropping a [`FrameReceiver`] always sets the source free, and so does [`Leave::now`] where whoever holds it hangs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::source::LossCause;
use watchkeeper_vision::frame::Frame;

/// Most frames that wait for one subscriber of a recording; a live source has a slot of one.
pub const QUEUE: usize = 2;

/// What happens when a subscriber is slower than the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The waiting frame is overwritten by the newer one and counted.
    Newest,
    /// The source waits.
    Lossless,
}

/// Answer of [`FrameReceiver::recv`].
#[derive(Debug, Clone)]
pub enum Recv {
    /// The next frame.
    Frame(Frame),
    /// None came in time; the source may be connecting or lost, its status says.
    Timeout,
    /// The recording was played through and every frame was taken.
    Ended,
    /// The source gave up.
    Failed {
        cause: LossCause,
        /// One sentence, free of credentials.
        message: String,
    },
    /// The source was removed.
    Closed,
}

/// How a source came to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Ended,
    Failed { cause: LossCause, message: String },
}

#[derive(Debug)]
struct Slot {
    queue: VecDeque<Frame>,
    arrived: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct State {
    slots: BTreeMap<u64, Slot>,
    next: u64,
    /// Grows whenever the last subscriber leaves, so that a quick leave-and-return is not overlooked.
    left: u64,
    outcome: Option<Outcome>,
    /// Its thread is gone: the outcome is that of every later subscriber too.
    dead: bool,
    closed: bool,
}

/// The meeting point of one source and its subscribers.
#[derive(Debug, Default)]
pub(super) struct Hub {
    state: Mutex<State>,
    /// Wakes the source: a subscriber came, left or took a frame, or the source is to close.
    changed: Condvar,
}

/// Who wants frames, as the source sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) wanted: bool,
    pub(super) left: u64,
    pub(super) closed: bool,
}

impl Hub {
    pub(super) fn subscribe(self: &Arc<Self>) -> FrameReceiver {
        let arrived = Arc::new(Condvar::new());
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.slots.insert(
            id,
            Slot {
                queue: VecDeque::with_capacity(QUEUE),
                arrived: arrived.clone(),
            },
        );
        self.changed.notify_all();
        drop(state);
        FrameReceiver {
            hub: self.clone(),
            id,
            arrived,
        }
    }

    fn leave(&self, id: u64) {
        let mut state = self.state.lock();
        let Some(slot) = state.slots.remove(&id) else {
            return;
        };
        slot.arrived.notify_one();
        if state.slots.is_empty() {
            state.left += 1;
            if !state.dead {
                state.outcome = None;
            }
        }
        self.changed.notify_all();
    }

    pub(super) fn demand(&self) -> Demand {
        demand(&self.state.lock())
    }

    /// Waits until the demand differs from `seen` or the time has come.
    pub(super) fn wait(&self, seen: Demand, until: Option<Instant>) {
        let mut state = self.state.lock();
        while demand(&state) == seen {
            match until {
                Some(until) => {
                    if self.changed.wait_until(&mut state, until).timed_out() {
                        return;
                    }
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Hands a frame to every subscriber; returns how many waiting frames were overwritten. The source was opened for the subscribers of
    /// `left` departures: where all of those have left since, nobody gets it, because who came after them gets a new beginning.
    pub(super) fn deliver(&self, frame: &Frame, policy: Policy, left: u64) -> u64 {
        let mut state = self.state.lock();
        if policy == Policy::Lossless {
            while !state.closed
                && state.left == left
                && state.slots.values().any(|s| s.queue.len() >= QUEUE)
            {
                self.changed.wait(&mut state);
            }
        }
        if state.left != left {
            return 0;
        }
        let mut overwritten = 0;
        for slot in state.slots.values_mut() {
            if policy == Policy::Newest {
                overwritten += slot.queue.len() as u64;
                slot.queue.clear();
            }
            slot.queue.push_back(frame.clone());
            slot.arrived.notify_one();
        }
        overwritten
    }

    /// The source came to rest, opened for the subscribers of `left` departures; they learn it once they have taken what
    /// waits. Where all of those have left since, it is nobody's end: who came after them gets a new beginning.
    pub(super) fn finish(&self, outcome: Outcome, left: u64) {
        let mut state = self.state.lock();
        if state.left != left {
            return;
        }
        state.outcome = Some(outcome);
        wake(&state);
    }

    /// Nobody is left who could deliver anything: this is what everybody learns from now on, also who subscribes later.
    pub(super) fn give_up(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        state.outcome = Some(outcome);
        state.dead = true;
        wake(&state);
    }

    /// The source goes away for good.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        wake(&state);
        self.changed.notify_all();
    }
}

fn demand(state: &State) -> Demand {
    Demand {
        wanted: !state.slots.is_empty(),
        left: state.left,
        closed: state.closed,
    }
}

fn wake(state: &State) {
    for slot in state.slots.values() {
        slot.arrived.notify_one();
    }
}

/// One subscription to a source. Dropping it unsubscribes.
#[derive(Debug)]
pub struct FrameReceiver {
    hub: Arc<Hub>,
    id: u64,
    arrived: Arc<Condvar>,
}

impl FrameReceiver {
    /// What ends this subscription while somebody else holds it.
    #[must_use]
    pub fn leaving(&self) -> Leave {
        Leave {
            hub: Arc::clone(&self.hub),
            id: self.id,
        }
    }

    /// The next frame, or why there is none; waits up to `timeout`.
    pub fn recv(&self, timeout: Duration) -> Recv {
        let until = Instant::now() + timeout;
        let mut state = self.hub.state.lock();
        loop {
            let Some(slot) = state.slots.get_mut(&self.id) else {
                return Recv::Closed;
            };
            if let Some(frame) = slot.queue.pop_front() {
                self.hub.changed.notify_all();
                return Recv::Frame(frame);
            }
            if state.closed {
                return Recv::Closed;
            }
            match &state.outcome {
                Some(Outcome::Ended) => return Recv::Ended,
                Some(Outcome::Failed { cause, message }) => {
                    return Recv::Failed {
                        cause: *cause,
                        message: message.clone(),
                    };
                }
                None => {}
            }
            if self.arrived.wait_until(&mut state, until).timed_out() {
                return Recv::Timeout;
            }
        }
    }
}

impl Drop for FrameReceiver {
    fn drop(&mut self) {
        self.hub.leave(self.id);
    }
}

/// Ends a subscription from another thread than the one that takes its frames. Using it up more than once changes nothing.
#[derive(Debug)]
pub struct Leave {
    hub: Arc<Hub>,
    id: u64,
}

impl Leave {
    /// From now on the source waits for this subscriber no more, and it gets nothing.
    pub fn now(self) {
        self.hub.leave(self.id);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A camera that shows what a test wants it to.

    use super::*;
    use crate::pipeline::worker::Subscribe;
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_vision::frame::{FrameId, Picture};

    /// Live pictures, one at a time.
    #[derive(Debug, Default)]
    pub(crate) struct Camera(Arc<Hub>);

    impl Camera {
        pub(crate) fn is_watched(&self) -> bool {
            self.0.demand().wanted
        }

        pub(crate) fn show(&self, picture: &image::RgbImage, pts: Duration) {
            let Ok(source) = SourceId::new("cam") else {
                return;
            };
            let id = FrameId { source, seq: 1 };
            let wall = Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            };
            let frame = Frame {
                pts,
                recorded: false,
                ..Frame::still(
                    id,
                    Instant::now(),
                    wall,
                    Picture::rgb(picture.width(), picture.height(), picture.as_raw().clone()),
                )
            };
            self.0.deliver(&frame, Policy::Newest, self.0.demand().left);
        }
    }

    impl Subscribe for Arc<Camera> {
        fn subscribe(&self, _: &SourceId) -> Option<FrameReceiver> {
            Some(self.0.subscribe())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::feed::testing::frame;

    const SOON: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn who_was_made_to_leave_holds_nobody_up_and_leaves_once() {
        let hub = Arc::new(Hub::default());
        let (stuck, other) = (hub.subscribe(), hub.subscribe());
        let leave = stuck.leaving();
        for seq in 1..=QUEUE as u64 {
            hub.deliver(&frame(seq), Policy::Lossless, 0);
            assert!(matches!(other.recv(SOON), Recv::Frame(_)));
        }
        std::thread::scope(|scope| {
            // Waits for the one that takes nothing, until that one is made to leave.
            scope.spawn(|| hub.deliver(&frame(9), Policy::Lossless, 0));
            leave.now();
        });
        assert_eq!(seq(other.recv(SOON)), Some(9));
        assert!(matches!(stuck.recv(LONG), Recv::Closed));
        drop(stuck);
        assert_eq!(hub.demand().left, 0, "somebody watches still");
        drop(other);
        assert_eq!(hub.demand().left, 1);
    }

    fn seq(recv: Recv) -> Option<u64> {
        match recv {
            Recv::Frame(frame) => Some(frame.id.seq),
            _ => None,
        }
    }

    #[test]
    fn a_live_frame_that_nobody_took_is_overwritten_and_counted() {
        let hub = Arc::new(Hub::default());
        let (slow, quick) = (hub.subscribe(), hub.subscribe());
        assert_eq!(hub.deliver(&frame(1), Policy::Newest, 0), 0);
        assert_eq!(seq(quick.recv(SOON)), Some(1));
        assert_eq!(hub.deliver(&frame(2), Policy::Newest, 0), 1);
        assert_eq!(seq(slow.recv(SOON)), Some(2));
        assert_eq!(seq(quick.recv(SOON)), Some(2));
        assert!(matches!(slow.recv(SOON), Recv::Timeout));
    }

    #[test]
    fn a_recording_waits_for_its_slowest_subscriber_and_loses_nothing() {
        let hub = Arc::new(Hub::default());
        let receivers = [hub.subscribe(), hub.subscribe()];
        let source = std::thread::spawn({
            let hub = hub.clone();
            move || {
                for n in 1..=50 {
                    hub.deliver(&frame(n), Policy::Lossless, 0);
                }
                hub.finish(Outcome::Ended, 0);
            }
        });
        let readers = receivers.map(|receiver| {
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                while let Some(n) = seq(receiver.recv(LONG)) {
                    seen.push(n);
                }
                (seen, matches!(receiver.recv(SOON), Recv::Ended))
            })
        });
        for reader in readers {
            let (seen, ended) = reader.join().expect("reader lives");
            assert_eq!(seen, (1..=50).collect::<Vec<_>>());
            assert!(ended);
        }
        source.join().expect("source lives");
    }

    #[test]
    fn dropping_a_receiver_that_takes_nothing_sets_the_source_free() {
        let hub = Arc::new(Hub::default());
        let stuck = hub.subscribe();
        let source = std::thread::spawn({
            let hub = hub.clone();
            move || {
                for n in 1..=10 {
                    hub.deliver(&frame(n), Policy::Lossless, 0);
                }
            }
        });
        drop(stuck);
        source.join().expect("source is free");
    }

    #[test]
    fn closing_sets_a_waiting_source_and_a_waiting_subscriber_free() {
        let hub = Arc::new(Hub::default());
        let receiver = hub.subscribe();
        let source = std::thread::spawn({
            let hub = hub.clone();
            move || {
                for n in 1..=10 {
                    hub.deliver(&frame(n), Policy::Lossless, 0);
                }
            }
        });
        hub.close();
        source.join().expect("source is free");
        while seq(receiver.recv(LONG)).is_some() {}
        assert!(matches!(receiver.recv(LONG), Recv::Closed));
    }

    #[test]
    fn a_new_subscription_after_everybody_left_starts_without_the_old_outcome() {
        let hub = Arc::new(Hub::default());
        let first = hub.subscribe();
        let before = hub.demand();
        hub.finish(Outcome::Ended, before.left);
        assert!(matches!(first.recv(SOON), Recv::Ended));
        drop(first);
        let second = hub.subscribe();
        assert!(matches!(second.recv(SOON), Recv::Timeout));
        assert_ne!(hub.demand(), before);
    }

    #[test]
    fn an_end_that_is_told_after_the_last_one_left_is_not_the_next_ones() {
        let hub = Arc::new(Hub::default());
        let first = hub.subscribe();
        let opened_for = hub.demand().left;
        drop(first);
        hub.finish(Outcome::Ended, opened_for);
        let second = hub.subscribe();
        hub.finish(Outcome::Ended, opened_for);
        assert!(matches!(second.recv(SOON), Recv::Timeout));
        hub.finish(Outcome::Ended, hub.demand().left);
        assert!(matches!(second.recv(SOON), Recv::Ended));
    }

    #[test]
    fn a_frame_that_was_on_its_way_when_the_last_one_left_is_not_the_next_ones() {
        for policy in [Policy::Newest, Policy::Lossless] {
            let hub = Arc::new(Hub::default());
            let first = hub.subscribe();
            let opened_for = hub.demand().left;
            drop(first);
            let second = hub.subscribe();
            hub.deliver(&frame(7), policy, opened_for);
            assert!(matches!(second.recv(SOON), Recv::Timeout), "{policy:?}");
            hub.deliver(&frame(8), policy, hub.demand().left);
            assert_eq!(seq(second.recv(LONG)), Some(8));
        }
    }

    #[test]
    fn whoever_subscribes_to_a_source_whose_thread_is_gone_learns_why() {
        let hub = Arc::new(Hub::default());
        let first = hub.subscribe();
        hub.give_up(Outcome::Failed {
            cause: LossCause::Other,
            message: "gone".to_owned(),
        });
        assert!(matches!(first.recv(LONG), Recv::Failed { .. }));
        drop(first);
        assert!(matches!(hub.subscribe().recv(LONG), Recv::Failed { .. }));
    }
}
