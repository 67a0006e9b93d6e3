//! Counts what the open feed lost, for the status.

use std::time::{Duration, Instant};

use super::Worker;
use crate::capture::feed::Losses;

/// Interval of reading the losses of a feed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Losses of the open feed that the status has.
#[derive(Debug, Default)]
pub(super) struct CountedLosses {
    counted: Losses,
    /// When the feed was asked last.
    read: Option<Instant>,
}

impl CountedLosses {
    /// Losses since the last call. A count that falls adds nothing until it is reached again.
    fn advance(&mut self, now: Losses) -> Losses {
        let grown = |before: &mut u64, now: u64| {
            let grown = now.saturating_sub(*before);
            *before += grown;
            grown
        };
        Losses {
            packets: grown(&mut self.counted.packets, now.packets),
            undecoded: grown(&mut self.counted.undecoded, now.undecoded),
            replaced: grown(&mut self.counted.replaced, now.replaced),
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
        let counters = &mut board.counters;
        counters.lost_packets += new.packets;
        counters.undecoded += new.undecoded;
        counters.frames += new.replaced;
        counters.dropped += new.replaced;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_once_although_they_fall() {
        let mut losses = CountedLosses::default();
        let at = |packets, undecoded, replaced| Losses {
            packets,
            undecoded,
            replaced,
        };
        assert_eq!(losses.advance(at(3, 5, 0)), at(3, 5, 0));
        assert_eq!(losses.advance(at(4, 4, 2)), at(1, 0, 2));
        assert_eq!(losses.advance(at(4, 7, 2)), at(0, 2, 0));
    }
}
