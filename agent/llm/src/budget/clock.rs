//! The clock of the budget: wall time that never goes back.
//!
//! - Its time does not fall: setting the box's clock back starts no new day.
//! - It grows with the monotonic clock when the wall clock lags behind, so that every day ends.
//! - Exception: when a time source corrects a wrong clock, the time is corrected too, and what was
//!   spent moves along ([`Moved::Corrected`]).
//! - A clock that is set forward looks like time that passed; the month's limit still holds.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::{TimeQuality, Wall};

/// A synchronised clock that lies further back than this corrects the time.
const CORRECTION: Duration = Duration::from_secs(24 * 3600);

/// How the time changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Time passed: a new date is a new day.
    Passed,
    /// A wrong time was corrected: the day continues under its new date.
    Corrected,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetClock {
    /// Milliseconds since 1970.
    at_ms: i64,
    /// Whether a dated wall clock was ever seen.
    is_dated: bool,
    /// Instant at which `at_ms` was true; unknown after a restart.
    #[serde(skip)]
    seen: Option<Instant>,
}

impl Default for BudgetClock {
    fn default() -> Self {
        Self::from_ms(0, false)
    }
}

impl BudgetClock {
    /// Returns a clock that stands at `at_ms`.
    pub const fn from_ms(at_ms: i64, is_dated: bool) -> Self {
        Self {
            at_ms,
            is_dated,
            seen: None,
        }
    }

    /// Returns milliseconds since 1970.
    pub const fn ms(&self) -> i64 {
        self.at_ms
    }

    /// Advances to the instant `now`, at which the wall clock reads `wall`.
    pub fn advance(&mut self, now: Instant, wall: Wall) -> Moved {
        let since = self.seen.map(|seen| now.saturating_duration_since(seen));
        let passed = self.at_ms.saturating_add(since.map_or(0, millis));
        self.seen = Some(now);
        let lag = Duration::from_millis(passed.saturating_sub(wall.unix_ms).max(0).unsigned_abs());
        let (at_ms, moved) = match wall.quality {
            TimeQuality::Unsynced => (passed, Moved::Passed),
            TimeQuality::Estimated | TimeQuality::Synced if !self.is_dated => {
                self.is_dated = true;
                (wall.unix_ms, Moved::Corrected)
            }
            TimeQuality::Synced if lag > CORRECTION => (wall.unix_ms, Moved::Corrected),
            TimeQuality::Estimated | TimeQuality::Synced => {
                (passed.max(wall.unix_ms), Moved::Passed)
            }
        };
        self.at_ms = at_ms.max(0);
        moved
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // 2026-11-22T00:00:00Z
    const START: i64 = 1_795_305_600_000;
    const HOUR: i64 = 3_600_000;

    fn wall(unix_ms: i64, quality: TimeQuality) -> Wall {
        Wall { unix_ms, quality }
    }

    fn at(start: Instant, ms: i64) -> Instant {
        start + Duration::from_millis(ms.unsigned_abs())
    }

    #[test]
    fn clock_set_back_continues_at_the_monotonic_pace() {
        let start = Instant::now();
        let mut clock = BudgetClock::default();
        clock.advance(start, wall(START, TimeQuality::Estimated));
        let back = wall(START - 48 * HOUR, TimeQuality::Estimated);
        assert_eq!(clock.advance(at(start, HOUR), back), Moved::Passed);
        assert_eq!(clock.ms(), START + HOUR);
    }

    #[test]
    fn wrong_future_is_corrected_by_a_synced_clock_only() {
        let start = Instant::now();
        let mut clock = BudgetClock::default();
        clock.advance(start, wall(START + 10_000 * HOUR, TimeQuality::Estimated));
        let truth = |quality| wall(START, quality);
        assert_eq!(
            clock.advance(start, truth(TimeQuality::Estimated)),
            Moved::Passed
        );
        assert_eq!(clock.ms(), START + 10_000 * HOUR);
        assert_eq!(
            clock.advance(start, truth(TimeQuality::Synced)),
            Moved::Corrected
        );
        assert_eq!(clock.ms(), START);
    }

    #[test]
    fn cold_boot_in_1970_starts_no_new_day_when_it_ends() {
        let start = Instant::now();
        let mut clock = BudgetClock::default();
        assert_eq!(
            clock.advance(start, wall(0, TimeQuality::Unsynced)),
            Moved::Passed
        );
        let found = wall(START, TimeQuality::Synced);
        assert_eq!(clock.advance(at(start, HOUR), found), Moved::Corrected);
        // After a restart without a wall clock the stored time advances.
        let mut restored = BudgetClock::from_ms(clock.ms(), true);
        restored.advance(start, wall(5, TimeQuality::Unsynced));
        restored.advance(at(start, HOUR), wall(6, TimeQuality::Unsynced));
        assert_eq!(restored.ms(), START + HOUR);
    }

    proptest! {
        #[test]
        fn clock_never_goes_back_without_a_time_source(
            steps in prop::collection::vec((0_i64..10 * HOUR, -100 * HOUR..100 * HOUR, any::<bool>()), 1..50),
        ) {
            let start = Instant::now();
            let mut clock = BudgetClock::default();
            clock.advance(start, wall(START, TimeQuality::Estimated));
            let (mut elapsed, mut before) = (0, clock.ms());
            for (passed, offset, is_dated) in steps {
                elapsed += passed;
                let quality = if is_dated { TimeQuality::Estimated } else { TimeQuality::Unsynced };
                clock.advance(at(start, elapsed), wall(START + offset, quality));
                prop_assert!(clock.ms() >= before + passed);
                before = clock.ms();
            }
        }
    }
}
