//! What sources tell the rest of the runtime, on its way to whoever journals it.
//!
//! Owns what was told and not taken yet. Invariants: telling never waits, whoever takes may be held up by a full disk for as long as it likes;
//! at most [`PER_SOURCE`] notices of one source wait, and what does not fit takes the place of the newest: the last word of a source is
//! never lost, so whatever is begun by a notice ends by one, but an outage that was short may become part of the next one; of the
//! sources that have had one name only the last one's words wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{Blindness, LossCause};
use watchkeeper_contract::time::Wall;

/// Notices of one source that may wait.
pub const PER_SOURCE: usize = 8;

/// Something the journal should know about a source.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceNotice {
    /// Frames stopped coming, or never came. Said once an outage, and again when it will not heal.
    Lost {
        cause: LossCause,
        /// One sentence, free of credentials.
        message: String,
        at: Wall,
    },
    /// Frames come again.
    Back {
        /// How long they were missing.
        lasted: Duration,
        /// When they came back.
        at: Wall,
    },
    /// Nobody wants its frames any more, so what was told of it is over as far as anybody can say.
    Forgotten { at: Wall },
    /// Frames come but show nothing.
    Blind {
        /// In which way.
        kind: Blindness,
        /// When it was noticed.
        at: Wall,
    },
    /// The picture is useful again.
    Seeing {
        /// How long it was not.
        lasted: Duration,
        /// When it was noticed.
        at: Wall,
    },
}

impl SourceNotice {
    /// When it happened, for people.
    #[must_use]
    pub fn at(&self) -> Wall {
        match self {
            Self::Lost { at, .. }
            | Self::Back { at, .. }
            | Self::Forgotten { at }
            | Self::Blind { at, .. }
            | Self::Seeing { at, .. } => *at,
        }
    }
}

/// A notice, and who gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Noticed {
    pub source: SourceId,
    /// Which of the sources that have had this name ([`super::source::Deps::run`]); a later one has a greater number.
    pub run: u64,
    /// When it was told, for lengths of time.
    pub noticed_at: Instant,
    pub notice: SourceNotice,
}

type Waiting = Arc<Mutex<VecDeque<Noticed>>>;

/// The end at which sources tell. Clones tell the same one.
#[derive(Debug, Clone)]
pub struct NoticeSender {
    waiting: Waiting,
    /// One word is enough to wake who takes: all that waits is taken then.
    wake: SyncSender<()>,
}

/// The end at which notices are taken.
#[derive(Debug)]
pub struct NoticeReceiver {
    waiting: Waiting,
    woken: Receiver<()>,
}

/// The two ends.
#[must_use]
pub fn channel() -> (NoticeSender, NoticeReceiver) {
    let waiting = Waiting::default();
    let (wake, woken) = mpsc::sync_channel(1);
    let teller = NoticeSender {
        waiting: Arc::clone(&waiting),
        wake,
    };
    (teller, NoticeReceiver { waiting, woken })
}

impl NoticeSender {
    /// Tells; never waits. Words of a source that had the name before are nobody's and make room.
    pub fn tell(&self, noticed: Noticed) {
        let mut waiting = self.waiting.lock();
        let of_name = |other: &Noticed| other.source == noticed.source;
        if waiting.iter().any(|w| of_name(w) && w.run > noticed.run) {
            return;
        }
        waiting.retain(|w| !of_name(w) || w.run == noticed.run);
        if waiting.iter().filter(|w| of_name(w)).count() < PER_SOURCE {
            waiting.push_back(noticed);
        } else if let Some(newest) = waiting.iter_mut().rev().find(|w| of_name(w)) {
            tracing::warn!(source = %noticed.source, passed_over = ?newest.notice, "told faster than it can be journaled");
            *newest = noticed;
        }
        drop(waiting);
        match self.wake.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => tracing::debug!("nobody takes notices any more"),
        }
    }
}

impl NoticeReceiver {
    /// The next notice; waits for one. Nothing when nobody is left who could tell.
    #[must_use]
    pub fn recv(&self) -> Option<Noticed> {
        loop {
            if let Some(noticed) = self.take() {
                return Some(noticed);
            }
            if self.woken.recv().is_err() {
                // Told between the look and the leaving of the last teller.
                return self.take();
            }
        }
    }

    /// The next notice; waits up to `patience`.
    #[must_use]
    pub fn recv_timeout(&self, patience: Duration) -> Option<Noticed> {
        let until = Instant::now() + patience;
        loop {
            if let Some(noticed) = self.take() {
                return Some(noticed);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.woken.recv_timeout(left) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return self.take();
                }
            }
        }
    }

    /// The next notice, if one waits.
    #[must_use]
    pub fn take(&self) -> Option<Noticed> {
        self.waiting.lock().pop_front()
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

    fn noticed(source: &str, run: u64, notice: SourceNotice) -> Noticed {
        Noticed {
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

    fn all(inbox: &NoticeReceiver) -> Vec<Noticed> {
        std::iter::from_fn(|| inbox.take()).collect()
    }

    #[test]
    fn the_last_word_of_every_source_is_there_however_long_nobody_takes() {
        let (teller, inbox) = channel();
        teller.tell(noticed("yard", 1, lost()));
        for _ in 0..1000 {
            teller.tell(noticed("gate", 1, lost()));
            teller.tell(noticed("gate", 1, back()));
        }
        teller.tell(noticed("door", 1, lost()));
        let told = all(&inbox);
        let of = |name: &str| -> Vec<&SourceNotice> {
            let of = told.iter().filter(|n| n.source.as_str() == name);
            of.map(|n| &n.notice).collect()
        };
        assert_eq!(of("gate").len(), PER_SOURCE);
        assert_eq!(of("gate").last(), Some(&&back()));
        assert_eq!((of("yard"), of("door")), (vec![&lost()], vec![&lost()]));
    }

    #[test]
    fn what_fits_is_taken_in_the_order_in_which_it_was_told() {
        let (teller, inbox) = channel();
        let told = [
            noticed("gate", 1, lost()),
            noticed("yard", 2, lost()),
            noticed("gate", 1, back()),
        ];
        told.iter().for_each(|n| teller.tell(n.clone()));
        assert_eq!(all(&inbox), told);
    }

    #[test]
    fn words_of_a_source_that_was_replaced_wait_no_longer_and_come_too_late() {
        let (teller, inbox) = channel();
        teller.tell(noticed("gate", 1, lost()));
        teller.tell(noticed("gate", 2, back()));
        teller.tell(noticed("gate", 1, lost()));
        let runs: Vec<u64> = all(&inbox).iter().map(|n| n.run).collect();
        assert_eq!(runs, [2]);
    }

    #[test]
    fn whoever_takes_is_woken_and_learns_that_nobody_is_left() {
        let (teller, inbox) = channel();
        let taking = std::thread::spawn(move || {
            let mut taken = 0;
            while inbox.recv().is_some() {
                taken += 1;
            }
            taken
        });
        for name in ["gate", "yard", "door"] {
            teller.tell(noticed(name, 1, lost()));
        }
        drop(teller);
        assert_eq!(taking.join().unwrap(), 3);
    }
}
