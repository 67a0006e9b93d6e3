//! Wall time with its quality, by the same rule of `watchkeeper-board` as the runtime and `doctor`.
//!
//! Only shells read the clock; sans-IO cores get `Instant` and [`Wall`] as arguments.

use std::path::Path;
use std::time::Duration;

use watchkeeper_board::clock::{ClockState, state};
use watchkeeper_contract::time::{TimeQuality, Wall};

/// Reads the wall clock.
pub fn wall_now() -> Wall {
    let unix_ms = jiff::Timestamp::now().as_millisecond();
    Wall {
        unix_ms,
        quality: quality(Path::new("/"), unix_ms),
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

/// Judges the clock that shows `unix_ms`; `root` is the root of the file system.
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
    fn date_built_into_the_system_is_unsynced_despite_a_marker() {
        // 2025-06-01: systemd's start value for the clock of a box without a battery.
        let built_in = 1_748_736_000_000;
        let root = tempfile::tempdir().expect("dir");
        assert_eq!(quality(root.path(), built_in), TimeQuality::Unsynced);
        let marker = root.path().join("run/systemd/timesync");
        std::fs::create_dir_all(&marker).expect("folder");
        std::fs::write(marker.join("synchronized"), "").expect("marker");
        assert_eq!(quality(root.path(), built_in), TimeQuality::Unsynced);
        // Synced or estimated: that depends on the kernel of this machine.
        let today = 1_798_761_600_000;
        assert_ne!(quality(root.path(), today), TimeQuality::Unsynced);
    }
}
