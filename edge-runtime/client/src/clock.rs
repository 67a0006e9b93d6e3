//! The clocks of the loop: wall time with its quality.
//!
//! Only the loop reads them. Cores get `Instant` and [`Wall`] as arguments. What a clock is worth is the board's rule, the same
//! for the runtime and for `watchkeeper doctor`.

use std::path::Path;
use std::time::Duration;

use watchkeeper_board::clock::{ClockState, state};
use watchkeeper_contract::time::{TimeQuality, Wall};

/// The wall clock now.
#[must_use]
pub fn wall_now() -> Wall {
    let unix_ms = jiff::Timestamp::now().as_millisecond();
    Wall {
        unix_ms,
        quality: quality(Path::new("/"), unix_ms),
    }
}

/// How long ago that was, as far as both clocks are to be believed: what comes late may be of no use any more, and a clock that was never set makes nothing old.
#[must_use]
pub fn age(at: Wall, now: Wall) -> Duration {
    if [at.quality, now.quality].contains(&TimeQuality::Unsynced) {
        return Duration::ZERO;
    }
    let passed = now.unix_ms.saturating_sub(at.unix_ms);
    Duration::from_millis(u64::try_from(passed).unwrap_or(0))
}

/// What the clock of the box whose files begin at `root` is worth when it says `unix_ms`.
fn quality(root: &Path, unix_ms: i64) -> TimeQuality {
    match state(root, unix_ms.div_euclid(1000)) {
        ClockState::Synced => TimeQuality::Synced,
        ClockState::Unknown => TimeQuality::Estimated,
        ClockState::Wrong => TimeQuality::Unsynced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_has_an_age_only_where_its_clock_and_ours_were_set() {
        let at = |unix_ms, quality| Wall { unix_ms, quality };
        let (set, unset) = (TimeQuality::Estimated, TimeQuality::Unsynced);
        let hour = Duration::from_secs(3600);
        assert_eq!(age(at(1_000, set), at(3_601_000, set)), hour);
        assert_eq!(age(at(1_000, unset), at(3_601_000, set)), Duration::ZERO);
        assert_eq!(age(at(1_000, set), at(3_601_000, unset)), Duration::ZERO);
        assert_eq!(age(at(3_601_000, set), at(1_000, set)), Duration::ZERO);
    }

    #[test]
    fn a_date_built_into_the_system_is_no_time_also_where_a_marker_was_left() {
        // 2025-06-01: where systemd sets the clock of a box without a battery at its start.
        let built_in = 1_748_736_000_000;
        let root = tempfile::tempdir().expect("dir");
        assert_eq!(quality(root.path(), built_in), TimeQuality::Unsynced);
        let marker = root.path().join("run/systemd/timesync");
        std::fs::create_dir_all(&marker).expect("folder");
        std::fs::write(marker.join("synchronized"), "").expect("marker");
        assert_eq!(quality(root.path(), built_in), TimeQuality::Unsynced);
        // Whether the kernel vouches for it is this machine's business.
        let today = 1_798_761_600_000;
        assert_ne!(quality(root.path(), today), TimeQuality::Unsynced);
    }
}
