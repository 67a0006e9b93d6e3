//! The clocks of the loop: wall time with its quality.
//!
//! Only the loop reads them. Cores get `Instant` and [`Wall`] as arguments.

use std::path::Path;

use watchkeeper_contract::time::{TimeQuality, Wall};

/// Written by systemd-timesyncd while the clock is disciplined.
const SYNCHRONIZED: &str = "/run/systemd/timesync/synchronized";

/// 2024-01-01T00:00:00Z in milliseconds: this program did not exist before, so an earlier clock was never set.
const OLDEST_PLAUSIBLE_MS: i64 = 1_704_067_200_000;

/// The wall clock now.
#[must_use]
pub fn wall_now() -> Wall {
    let unix_ms = jiff::Timestamp::now().as_millisecond();
    Wall {
        unix_ms,
        quality: quality(unix_ms, Path::new(SYNCHRONIZED).exists()),
    }
}

fn quality(unix_ms: i64, synchronized: bool) -> TimeQuality {
    if synchronized {
        TimeQuality::Synced
    } else if unix_ms < OLDEST_PLAUSIBLE_MS {
        TimeQuality::Unsynced
    } else {
        TimeQuality::Estimated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_this_program_existed_is_not_trusted() {
        assert_eq!(quality(0, false), TimeQuality::Unsynced);
        assert_eq!(quality(OLDEST_PLAUSIBLE_MS, false), TimeQuality::Estimated);
        assert_eq!(quality(OLDEST_PLAUSIBLE_MS, true), TimeQuality::Synced);
    }
}
