//! Whether this box's wall clock can be trusted.
//!
//! - The kernel knows whether any time source (systemd-timesyncd, chrony, ntpd, PTP) disciplines
//!   it.
//! - Where asking the kernel is forbidden, the marker file of systemd-timesyncd decides.

use std::ffi::c_long;
use std::path::Path;

use watchkeeper_contract::time::TimeQuality;

use crate::kernel;

/// Marker that systemd-timesyncd writes once the clock was synchronised
/// (systemd-timesyncd.service(8)).
const SYNC_MARKER: &str = "run/systemd/timesync/synchronized";

/// The earliest plausible date, 2026-01-01T00:00:00Z, in seconds since 1970.
const MIN_PLAUSIBLE_UNIX_S: i64 = 1_767_225_600;

/// Whether a time, in seconds after 1970, is not before this program was written.
pub fn is_plausible(unix_s: i64) -> bool {
    unix_s >= MIN_PLAUSIBLE_UNIX_S
}

/// Judges the clock of the box with root folder `root`, which shows `unix_s` seconds after 1970. A
/// date before this program was written is [`Unsynced`](TimeQuality::Unsynced), such as 1970 after
/// a cold boot without a battery.
pub fn quality(root: &Path, unix_s: i64) -> TimeQuality {
    judge(kernel::max_error_us(), root, unix_s)
}

/// Maximum error from which on the clock counts as undisciplined: the kernel's own limit
/// (`NTP_PHASE_LIMIT`, 16 s, in microseconds). Without a time source the error grows back to it at
/// 500 ppm, within nine hours. `timedatectl` uses the same limit for "System clock synchronized".
/// The flag `STA_UNSYNC` means something else: whether the kernel may set the hardware clock.
const UNDISCIPLINED_US: c_long = 16_000_000;

fn judge(max_error_us: Option<c_long>, root: &Path, unix_s: i64) -> TimeQuality {
    let is_synced = match max_error_us {
        Some(error) => error < UNDISCIPLINED_US,
        None => root.join(SYNC_MARKER).exists(),
    };
    if !is_plausible(unix_s) {
        TimeQuality::Unsynced
    } else if is_synced {
        TimeQuality::Synced
    } else {
        TimeQuality::Estimated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::board;

    #[test]
    fn date_before_release_is_unsynced_even_with_marker() {
        let root = board(&[(SYNC_MARKER, "")]);
        assert_eq!(judge(None, root.path(), 0), TimeQuality::Unsynced);
        assert_eq!(judge(Some(0), root.path(), 0), TimeQuality::Unsynced);
        // 2025-06-01: systemd's start value for the clock of a box without a battery.
        let built_in = judge(None, root.path(), 1_748_736_000);
        assert_eq!(built_in, TimeQuality::Unsynced);
        assert_eq!(
            judge(None, root.path(), MIN_PLAUSIBLE_UNIX_S),
            TimeQuality::Synced
        );
    }

    #[test]
    fn clock_without_kernel_answer_and_marker_is_estimated() {
        assert_eq!(
            judge(None, board(&[]).path(), MIN_PLAUSIBLE_UNIX_S),
            TimeQuality::Estimated
        );
    }

    #[test]
    fn clock_is_synced_while_kernel_error_is_below_limit() {
        let error = Some(UNDISCIPLINED_US - 1);
        assert_eq!(
            judge(error, board(&[]).path(), MIN_PLAUSIBLE_UNIX_S),
            TimeQuality::Synced
        );
        let (gone, marked) = (Some(UNDISCIPLINED_US), board(&[(SYNC_MARKER, "")]));
        assert_eq!(
            judge(gone, marked.path(), MIN_PLAUSIBLE_UNIX_S),
            TimeQuality::Estimated
        );
    }

    #[test]
    fn kernel_error_is_in_range() {
        // A sandbox may forbid the call.
        let error = kernel::max_error_us().unwrap_or_default();
        assert!((0..=UNDISCIPLINED_US).contains(&error), "{error}");
    }
}
