//! Counts what the open feed lost, for the status.

use std::time::{Duration, Instant};

use super::Worker;
use crate::capture::feed::{CountedLosses, Feed as _};

/// Interval of reading the losses of a feed.
const INTERVAL: Duration = Duration::from_secs(1);

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
