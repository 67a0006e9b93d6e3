//! Wall time with its quality, by the same rule of `watchkeeper-board` as the runtime and `doctor`.
//!
//! Only shells read the clock; sans-IO cores get `Instant` and [`Wall`] as arguments.

use std::path::Path;
use std::time::Duration;

use watchkeeper_board::clock::quality;
use watchkeeper_contract::time::{TimeQuality, Wall};

/// Reads the wall clock.
pub fn wall_now() -> Wall {
    let unix_ms = jiff::Timestamp::now().as_millisecond();
    Wall {
        unix_ms,
        quality: quality(Path::new("/"), unix_ms.div_euclid(1000)),
    }
}

/// Returns the age of `at`; zero if either clock was never set.
pub fn age(at: Wall, now: Wall) -> Duration {
    if [at.quality, now.quality].contains(&TimeQuality::Unsynced) {
        return Duration::ZERO;
    }
    let passed = now.unix_ms.saturating_sub(at.unix_ms);
    Duration::from_millis(u64::try_from(passed).unwrap_or(0))
}

/// Whether `at` is known to be over `max` ago. An estimate may be behind by the whole time for
/// which the box was off. Once a time source has set the clock, it may look days old.
pub fn is_older(at: Wall, now: Wall, max: Duration) -> bool {
    let is_jump = (at.quality, now.quality) == (TimeQuality::Estimated, TimeQuality::Synced);
    !is_jump && age(at, now) > max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_zero_unless_both_clocks_were_set() {
        let at = |unix_ms, quality| Wall { unix_ms, quality };
        let (set, unset) = (TimeQuality::Estimated, TimeQuality::Unsynced);
        let hour = Duration::from_secs(3600);
        assert_eq!(age(at(1_000, set), at(3_601_000, set)), hour);
        assert_eq!(age(at(1_000, unset), at(3_601_000, set)), Duration::ZERO);
        assert_eq!(age(at(1_000, set), at(3_601_000, unset)), Duration::ZERO);
        assert_eq!(age(at(3_601_000, set), at(1_000, set)), Duration::ZERO);
    }

    #[test]
    fn time_before_the_clock_was_set_is_not_known_to_be_old() {
        let at = |unix_ms, quality| Wall { unix_ms, quality };
        let (estimated, synced) = (TimeQuality::Estimated, TimeQuality::Synced);
        let (day, minute) = (at(86_400_000, synced), Duration::from_secs(60));
        assert!(is_older(at(1_000, synced), day, minute));
        assert!(!is_older(at(1_000, estimated), day, minute));
        assert!(is_older(
            at(1_000, estimated),
            at(86_400_000, estimated),
            minute
        ));
    }
}
