//! Notices of sources, on their way to the journal.
//!
//! - Sending never waits, also while the receiver is behind.
//! - At most [`MAX_PER_SOURCE`] notices of one source wait. One more replaces the newest: the last
//!   notice is never lost here, so each outage ends, but a short one may merge with the next.
//! - Of the sources that have had one name, only notices of the last one wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{Blindness, LossCause};
use watchkeeper_contract::time::Wall;

/// Max notices of one source that wait.
pub const MAX_PER_SOURCE: usize = 8;

/// A change of a source that the journal records.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceNotice {
    /// Frames are missing. Sent once per outage, and again for another cause.
    Lost {
        cause: LossCause,
        /// One sentence, without credentials.
        message: String,
        at: Wall,
    },
    /// Frames come again.
    Back { lasted: Duration, at: Wall },
    /// The last subscriber left, or a camera whose picture shows nothing was lost. So the end of
    /// the outage cannot be observed.
    Forgotten { at: Wall },
    /// Frames come but show nothing.
    Blind { kind: Blindness, at: Wall },
    /// The picture is useful again.
    Seeing { lasted: Duration, at: Wall },
    /// The processor decodes although hardware was expected.
    DecoderFallback {
        /// GStreamer element that decodes.
        element: String,
        /// One sentence with the remedy.
        why: String,
        at: Wall,
    },
}

impl SourceNotice {
    /// Returns the wall time of the change.
    pub fn at(&self) -> Wall {
        match self {
            Self::Lost { at, .. }
            | Self::Back { at, .. }
            | Self::Forgotten { at }
            | Self::Blind { at, .. }
            | Self::Seeing { at, .. }
            | Self::DecoderFallback { at, .. } => *at,
        }
    }
}

/// A notice with its sender and time.
#[derive(Debug, Clone, PartialEq)]
pub struct StampedNotice {
    pub source: SourceId,
    /// Number of the source among those of its name ([`super::source::Deps::run`]); grows.
    pub run: u64,
    /// Monotonic time of the notice, for durations.
    pub noticed_at: Instant,
    pub notice: SourceNotice,
}

type Queue = Arc<Mutex<VecDeque<StampedNotice>>>;

/// Sending half; clones share the queue.
#[derive(Debug, Clone)]
pub struct NoticeSender {
    queue: Queue,
    /// One wake-up is enough: the receiver then takes all notices.
    wake: SyncSender<()>,
    is_closed: Arc<AtomicBool>,
}

/// Receiving half of the queue.
#[derive(Debug)]
pub struct NoticeReceiver {
    queue: Queue,
    wakes: Receiver<()>,
    is_closed: Arc<AtomicBool>,
}

/// Creates a queue of notices.
#[must_use]
pub fn channel() -> (NoticeSender, NoticeReceiver) {
    let queue = Queue::default();
    let (wake, wakes) = mpsc::sync_channel(1);
    let sender = NoticeSender {
        queue: Arc::clone(&queue),
        wake,
        is_closed: Arc::default(),
    };
    let receiver = NoticeReceiver {
        queue,
        wakes,
        is_closed: Arc::clone(&sender.is_closed),
    };
    (sender, receiver)
}

impl NoticeSender {
    /// Sends a notice; never waits. Notices of earlier sources of that name are dropped.
    pub fn send(&self, noticed: StampedNotice) {
        let mut queue = self.queue.lock();
        let of_name = |other: &StampedNotice| other.source == noticed.source;
        if queue.iter().any(|w| of_name(w) && w.run > noticed.run) {
            return;
        }
        queue.retain(|w| !of_name(w) || w.run == noticed.run);
        if queue.iter().filter(|w| of_name(w)).count() < MAX_PER_SOURCE {
            queue.push_back(noticed);
        } else if let Some(newest) = queue.iter_mut().rev().find(|w| of_name(w)) {
            let (source, dropped) = (&noticed.source, &newest.notice);
            tracing::warn!(%source, ?dropped, "notices come too fast to journal");
            *newest = noticed;
        }
        drop(queue);
        self.wake();
    }

    /// Ends [`NoticeReceiver::recv`] once it has returned what was sent before.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        match self.wake.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                tracing::debug!("the receiver of notices is gone")
            }
        }
    }
}

impl NoticeReceiver {
    /// Waits for the next notice; `None` once all senders are gone, or one closed the queue.
    pub fn recv(&self) -> Option<StampedNotice> {
        loop {
            // Read first: what was sent before the close is taken.
            let is_closed = self.is_closed.load(Ordering::Acquire);
            if let Some(noticed) = self.take() {
                return Some(noticed);
            }
            if is_closed || self.wakes.recv().is_err() {
                // A notice may have been sent between `take` and the drop of the last sender.
                return self.take();
            }
        }
    }

    /// Returns the next notice, if one waits.
    #[must_use]
    pub fn take(&self) -> Option<StampedNotice> {
        self.queue.lock().pop_front()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    use watchkeeper_contract::time::TimeQuality;

    use super::*;

    const AT: Wall = Wall {
        unix_ms: 0,
        quality: TimeQuality::Unsynced,
    };

    fn noticed(source: &str, run: u64, notice: SourceNotice) -> StampedNotice {
        StampedNotice {
            source: SourceId::new(source).unwrap(),
            run,
            noticed_at: Instant::now(),
            notice,
        }
    }

    fn lost() -> SourceNotice {
        SourceNotice::Lost {
            cause: LossCause::Stalled,
            message: String::new(),
            at: AT,
        }
    }

    fn back() -> SourceNotice {
        SourceNotice::Back {
            lasted: Duration::ZERO,
            at: AT,
        }
    }

    fn all(inbox: &NoticeReceiver) -> Vec<StampedNotice> {
        std::iter::from_fn(|| inbox.take()).collect()
    }

    #[test]
    fn last_notice_of_each_source_is_kept() {
        let (sender, inbox) = channel();
        sender.send(noticed("yard", 1, lost()));
        for _ in 0..1000 {
            sender.send(noticed("gate", 1, lost()));
            sender.send(noticed("gate", 1, back()));
        }
        sender.send(noticed("door", 1, lost()));
        let sent = all(&inbox);
        let of = |name: &str| -> Vec<&SourceNotice> {
            let of = sent.iter().filter(|n| n.source.as_str() == name);
            of.map(|n| &n.notice).collect()
        };
        assert_eq!(of("gate").len(), MAX_PER_SOURCE);
        assert_eq!(of("gate").last(), Some(&&back()));
        assert_eq!((of("yard"), of("door")), (vec![&lost()], vec![&lost()]));
    }

    #[test]
    fn notices_are_received_in_order() {
        let (sender, inbox) = channel();
        let sent = [
            noticed("gate", 1, lost()),
            noticed("yard", 2, lost()),
            noticed("gate", 1, back()),
        ];
        sent.iter().for_each(|n| sender.send(n.clone()));
        assert_eq!(all(&inbox), sent);
    }

    #[test]
    fn notices_of_a_replaced_source_are_dropped() {
        let (sender, inbox) = channel();
        sender.send(noticed("gate", 1, lost()));
        sender.send(noticed("gate", 2, back()));
        sender.send(noticed("gate", 1, lost()));
        let runs: Vec<u64> = all(&inbox).iter().map(|n| n.run).collect();
        assert_eq!(runs, [2]);
    }

    #[test]
    fn receiver_is_woken_and_ends_with_the_last_sender() {
        let (sender, inbox) = channel();
        let taking = std::thread::spawn(move || {
            let mut taken = 0;
            while inbox.recv().is_some() {
                taken += 1;
            }
            taken
        });
        for name in ["gate", "yard", "door"] {
            sender.send(noticed(name, 1, lost()));
        }
        drop(sender);
        assert_eq!(taking.join().unwrap(), 3);
    }

    #[test]
    fn closed_queue_is_emptied_although_a_sender_is_left() {
        let (sender, inbox) = channel();
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(std::iter::from_fn(|| inbox.recv()).count()));
        sender.send(noticed("gate", 1, lost()));
        sender.send(noticed("yard", 1, lost()));
        // Most likely the receiver waits now.
        std::thread::sleep(Duration::from_millis(100));
        sender.close();
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(2));
        drop(sender);
    }
}
