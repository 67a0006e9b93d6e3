//! Counts what the open feed lost, for the status.

use std::time::{Duration, Instant};

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
    /// Whether the feed is to be asked now, at most every [`INTERVAL`].
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.read.is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_due {
            self.read = Some(Instant::now());
        }
        is_due
    }

    /// Losses since the last call. A count that falls adds nothing until it is reached again.
    pub(super) fn advance(&mut self, now: Losses) -> Losses {
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
