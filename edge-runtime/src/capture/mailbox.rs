//! Frames from one source to its subscribers.
//!
//! - At most [`QUEUE_SIZE`] frames wait for one subscriber.
//! - [`Policy::Newest`]: the source never waits; overwritten frames are counted.
//! - [`Policy::Lossless`]: no frame is lost; the source waits for its slowest subscriber, until the
//!   queue is empty.
//! - Dropping a [`FrameReceiver`] ends that wait, as does [`Unsubscriber::unsubscribe`] when the
//!   holder of the receiver hangs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::source::{Blindness, LossCause};
use watchkeeper_vision::frame::Frame;

use super::packets::{PacketReader, PacketRing};
use super::rate::Meter;

/// Max frames that wait for one subscriber of a recording; a live source has a slot of one.
pub const QUEUE_SIZE: usize = 2;

/// Behaviour towards a subscriber that is slower than the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// A newer frame overwrites the one that waits.
    Newest,
    /// The source waits for the subscriber.
    Lossless,
}

/// Result of [`FrameReceiver::recv`].
#[derive(Debug, Clone)]
pub enum Recv {
    Frame(Frame),
    /// No frame in time; the source's status has the reason.
    Timeout,
    /// The recording was played to its end and every frame was taken.
    Ended,
    /// No further attempt will be made.
    Failed {
        cause: LossCause,
        /// One sentence, without credentials.
        message: String,
    },
    /// The source was removed.
    Closed,
}

/// Final state of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Ended,
    Failed { cause: LossCause, message: String },
}

#[derive(Debug)]
struct Slot {
    queue: VecDeque<Frame>,
    /// Frames delivered to it, overwritten ones too.
    offered: u64,
    arrived: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct State {
    slots: BTreeMap<u64, Slot>,
    next: u64,
    /// Count of departures of the last subscriber; shows a quick leave and return.
    departures: u64,
    outcome: Option<Outcome>,
    /// Presentation time of the latest frame in which a subscriber followed an object.
    objects_at: Option<Duration>,
    /// How the pictures show nothing useful, and since when.
    blind: Option<(Blindness, Instant)>,
    /// The thread is gone: the outcome holds for later subscribers too.
    is_dead: bool,
    closed: bool,
    /// Whether the latest frame overwrote frames that were not taken in time.
    drops_late: bool,
    /// Frames delivered to any subscriber.
    delivered: Meter,
}

/// Mailbox between one source and its subscribers.
#[derive(Debug, Default)]
pub(super) struct Hub {
    /// The encoded stream of the source; absent if a mask covers a part of it.
    pub(super) packets: Option<Arc<PacketRing>>,
    state: Mutex<State>,
    /// Wakes the source: a subscriber came, left or took a frame, or the source is to close.
    changed: Condvar,
}

/// Demand for frames, as the source sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) wanted: bool,
    pub(super) departures: u64,
    pub(super) closed: bool,
}

impl Hub {
    /// A mailbox of a source whose encoded stream is kept in `packets`.
    pub(super) fn new(packets: Option<Arc<PacketRing>>) -> Self {
        Self {
            packets,
            ..Self::default()
        }
    }

    pub(super) fn subscribe(self: &Arc<Self>) -> FrameReceiver {
        let arrived = Arc::new(Condvar::new());
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.slots.insert(
            id,
            Slot {
                queue: VecDeque::with_capacity(QUEUE_SIZE),
                offered: 0,
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

    fn remove(&self, id: u64) {
        let mut state = self.state.lock();
        let Some(slot) = state.slots.remove(&id) else {
            return;
        };
        slot.arrived.notify_one();
        if state.slots.is_empty() {
            state.departures += 1;
            if !state.is_dead {
                state.outcome = None;
            }
        }
        self.changed.notify_all();
    }

    /// Returns the presentation time of the latest frame in which a subscriber followed an object.
    pub(super) fn objects_at(&self) -> Option<Duration> {
        self.state.lock().objects_at
    }

    /// Sets how the pictures from now on show nothing useful.
    pub(super) fn set_blind(&self, blind: Option<(Blindness, Instant)>) {
        self.state.lock().blind = blind;
    }

    pub(super) fn demand(&self) -> Demand {
        demand(&self.state.lock())
    }

    /// Waits until the demand differs from `seen`, or until `until`.
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

    /// Delivers a frame to every subscriber and returns the number of overwritten frames.
    ///
    /// `departures` is the departure count for which the source was opened. If it has changed,
    /// no one gets the frame: later subscribers get a new start.
    pub(super) fn deliver(&self, frame: &Frame, policy: Policy, departures: u64) -> u64 {
        let mut state = self.state.lock();
        state.drops_late = policy == Policy::Newest;
        if policy == Policy::Lossless {
            while !state.closed
                && state.departures == departures
                && state.slots.values().any(|s| s.queue.len() >= QUEUE_SIZE)
            {
                self.changed.wait(&mut state);
            }
        }
        if state.departures != departures {
            return 0;
        }
        state.delivered.count(Instant::now());
        let mut overwritten = 0;
        for slot in state.slots.values_mut() {
            if policy == Policy::Newest {
                overwritten += slot.queue.len() as u64;
                slot.queue.clear();
            }
            slot.queue.push_back(frame.clone());
            slot.offered += 1;
            slot.arrived.notify_one();
        }
        overwritten
    }

    /// Ends the source for the subscribers since `departures`; they learn it after their waiting
    /// frames.
    ///
    /// If `departures` has changed, the call has no effect: later subscribers get a new start.
    pub(super) fn finish(&self, outcome: Outcome, departures: u64) {
        let mut state = self.state.lock();
        if state.departures != departures {
            return;
        }
        state.outcome = Some(outcome);
        wake(&state);
    }

    /// Ends the source for current and all later subscribers: its thread is gone.
    pub(super) fn give_up(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        state.outcome = Some(outcome);
        state.is_dead = true;
        wake(&state);
    }

    /// Closes the source for good.
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
        departures: state.departures,
        closed: state.closed,
    }
}

fn wake(state: &State) {
    for slot in state.slots.values() {
        slot.arrived.notify_one();
    }
}

/// A subscription to a source. Dropping it unsubscribes.
#[derive(Debug)]
pub struct FrameReceiver {
    hub: Arc<Hub>,
    id: u64,
    arrived: Arc<Condvar>,
}

impl FrameReceiver {
    /// Returns a handle that ends this subscription from another thread.
    pub fn unsubscriber(&self) -> Unsubscriber {
        Unsubscriber {
            hub: Arc::clone(&self.hub),
            id: self.id,
        }
    }

    /// Returns a reader of the source's encoded stream that keeps the last `span` of it.
    ///
    /// # Errors
    /// A sentence, where a privacy mask covers something of the source.
    pub fn read_packets(&self, span: Duration) -> Result<PacketReader, String> {
        let ring = self.hub.packets.as_ref();
        let reader = ring.map(|ring| PacketReader::new(Arc::clone(ring), span));
        reader.ok_or_else(|| "a privacy mask covers a part of the camera".to_owned())
    }

    /// Reports that an object was followed in the frame of this presentation time: the source is
    /// not blind.
    pub fn report_objects(&self, pts: Duration) {
        let mut state = self.hub.state.lock();
        state.objects_at = state.objects_at.max(Some(pts));
    }

    /// Returns how the pictures show nothing useful, and since when.
    pub fn blindness(&self) -> Option<(Blindness, Instant)> {
        self.hub.state.lock().blind
    }

    /// Returns whether the source drops frames that are not taken in time, as a camera does.
    pub fn drops_late(&self) -> bool {
        self.hub.state.lock().drops_late
    }

    /// Returns the number of frames delivered to this subscription, overwritten ones too.
    pub fn offered(&self) -> u64 {
        let state = self.hub.state.lock();
        state.slots.get(&self.id).map_or(0, |slot| slot.offered)
    }

    /// Returns the frames a second that the source delivers.
    pub fn delivered_fps(&self) -> f64 {
        self.hub.state.lock().delivered.fps(Instant::now())
    }

    /// Returns the next frame, or why there is none; waits at most `timeout`.
    pub fn recv(&self, timeout: Duration) -> Recv {
        let until = Instant::now() + timeout;
        let mut state = self.hub.state.lock();
        loop {
            let Some(slot) = state.slots.get_mut(&self.id) else {
                return Recv::Closed;
            };
            if let Some(frame) = slot.queue.pop_front() {
                // Not for each frame: a decoder that wakes less often finds more in the caches.
                if slot.queue.is_empty() {
                    self.hub.changed.notify_all();
                }
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
        self.hub.remove(self.id);
    }
}

/// Ends or observes a subscription from another thread than the one that takes its frames.
/// Repeating the end has no effect.
#[derive(Debug)]
pub struct Unsubscriber {
    hub: Arc<Hub>,
    id: u64,
}

impl Unsubscriber {
    /// Returns the frames a second that the source delivers; `None` once the subscription has
    /// ended.
    pub fn delivered_fps(&self) -> Option<f64> {
        let state = self.hub.state.lock();
        let is_subscribed = state.slots.contains_key(&self.id);
        is_subscribed.then(|| state.delivered.fps(Instant::now()))
    }

    /// Ends the subscription: the source no longer waits for it, and it receives nothing.
    pub fn unsubscribe(self) {
        self.hub.remove(self.id);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A camera whose pictures a test supplies.

    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::pipeline::worker::Subscribe;
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_vision::frame::{FrameId, Picture};

    /// A live source that delivers one picture at a time.
    #[derive(Debug, Default)]
    pub(crate) struct Camera {
        hub: Arc<Hub>,
        shown: AtomicU64,
    }

    impl Camera {
        pub(crate) fn is_watched(&self) -> bool {
            self.hub.demand().wanted
        }

        pub(crate) fn show(&self, picture: &image::RgbImage, pts: Duration) {
            let Ok(source) = SourceId::new("cam") else {
                return;
            };
            let seq = self.shown.fetch_add(1, Ordering::Relaxed) + 1;
            let id = FrameId { source, seq };
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
            let departures = self.hub.demand().departures;
            self.hub.deliver(&frame, Policy::Newest, departures);
        }
    }

    impl Subscribe for Arc<Camera> {
        fn subscribe(&self, _: &SourceId) -> Option<FrameReceiver> {
            Some(self.hub.subscribe())
        }
    }
}

#[cfg(test)]
mod tests;
