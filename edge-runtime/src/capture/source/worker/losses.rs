//! Counts what the open feed lost, for the status.

use std::time::{Duration, Instant};

use super::Worker;
use crate::capture::feed::{Feed as _, Losses};

/// Interval of reading the losses of a feed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Losses of the open feed that the status has.
#[derive(Debug, Default)]
pub(super) struct CountedLosses {
    counted: Losses,
    read: Option<Instant>,
}

impl CountedLosses {
    /// Losses since the last call; they may fall where a late picture was given after all.
    fn advance(&mut self, now: Losses) -> Losses {
        let Losses { packets, undecoded } = self.counted;
        self.counted = Losses {
            packets: packets.max(now.packets),
            undecoded: undecoded.max(now.undecoded),
        };
        Losses {
            packets: self.counted.packets - packets,
            undecoded: self.counted.undecoded - undecoded,
        }
    }
}

impl Worker {
    /// Adds what the feed lost since the last call to the counters, at most every [`INTERVAL`].
    pub(super) fn count_losses(&mut self) {
        let is_recent = self.losses.read.is_some_and(|at| at.elapsed() < INTERVAL);
        if !is_recent {
            self.losses.read = Some(Instant::now());
            self.add_losses();
        }
    }

    /// Adds what the feed lost in its last moments; the next feed counts from zero.
    pub(super) fn finish_losses(&mut self) {
        self.add_losses();
        self.losses = CountedLosses::default();
    }

    fn add_losses(&mut self) {
        let Some(feed) = &self.feed else { return };
        let new = self.losses.advance(feed.losses());
        let mut board = self.shared.board.lock();
        board.counters.lost_packets += new.packets;
        board.counters.undecoded += new.undecoded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_once_although_they_fall() {
        let mut losses = CountedLosses::default();
        let at = |packets, undecoded| Losses { packets, undecoded };
        assert_eq!(losses.advance(at(3, 5)), at(3, 5));
        assert_eq!(losses.advance(at(4, 4)), at(1, 0));
        assert_eq!(losses.advance(at(4, 7)), at(0, 2));
    }
}
