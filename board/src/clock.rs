//! Whether this box's wall clock can be trusted.
//!
//! - The kernel knows whether any time source (systemd-timesyncd, chrony, ntpd, PTP) disciplines
//!   it.
//! - Where asking the kernel is forbidden, the marker file of systemd-timesyncd decides.

use std::ffi::c_long;
use std::path::Path;

use serde::Serialize;

use crate::kernel;

/// How far the wall clock can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockState {
    /// A time source disciplines the clock.
    Synced,
    /// No time source is known, but the date is plausible.
    Unknown,
    /// The date is before this program was written, such as 1970 after a cold boot without a
    /// battery.
    Wrong,
}

/// Marker that systemd-timesyncd writes once the clock was synchronised
/// (systemd-timesyncd.service(8)).
const SYNC_MARKER: &str = "run/systemd/timesync/synchronized";

/// The earliest plausible date, 2026-01-01T00:00:00Z, in seconds since 1970.
const MIN_PLAUSIBLE_UNIX_S: i64 = 1_767_225_600;

/// Judges the clock of the box with root folder `root`, which shows `unix_s` seconds after 1970.
pub fn state(root: &Path, unix_s: i64) -> ClockState {
    judge(kernel::max_error_us(), root, unix_s)
}

/// Maximum error from which on the clock counts as undisciplined: the kernel's own limit
/// (`NTP_PHASE_LIMIT`, 16 s, in microseconds). Without a time source the error grows back to it at
/// 500 ppm, within nine hours. `timedatectl` uses the same limit for "System clock synchronized".
/// The flag `STA_UNSYNC` means something else: whether the kernel may set the hardware clock.
const UNDISCIPLINED_US: c_long = 16_000_000;

fn judge(max_error_us: Option<c_long>, root: &Path, unix_s: i64) -> ClockState {
    let is_synced = match max_error_us {
        Some(error) => error < UNDISCIPLINED_US,
        None => root.join(SYNC_MARKER).exists(),
    };
    if unix_s < MIN_PLAUSIBLE_UNIX_S {
        ClockState::Wrong
    } else if is_synced {
        ClockState::Synced
    } else {
        ClockState::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::board;

    #[test]
    fn date_before_release_is_wrong_even_with_marker() {
        let root = board(&[(SYNC_MARKER, "")]);
        assert_eq!(judge(None, root.path(), 0), ClockState::Wrong);
        assert_eq!(judge(Some(0), root.path(), 0), ClockState::Wrong);
        assert_eq!(
            judge(None, root.path(), MIN_PLAUSIBLE_UNIX_S),
            ClockState::Synced
        );
    }

    #[test]
    fn clock_without_kernel_answer_and_marker_is_unknown() {
        assert_eq!(
            judge(None, board(&[]).path(), MIN_PLAUSIBLE_UNIX_S),
            ClockState::Unknown
        );
    }

    #[test]
    fn clock_is_synced_while_kernel_error_is_below_limit() {
        let error = Some(UNDISCIPLINED_US - 1);
        assert_eq!(
            judge(error, board(&[]).path(), MIN_PLAUSIBLE_UNIX_S),
            ClockState::Synced
        );
        let (gone, marked) = (Some(UNDISCIPLINED_US), board(&[(SYNC_MARKER, "")]));
        assert_eq!(
            judge(gone, marked.path(), MIN_PLAUSIBLE_UNIX_S),
            ClockState::Unknown
        );
    }

    #[test]
    fn kernel_error_is_in_range() {
        // A sandbox may forbid the call.
        let error = kernel::max_error_us().unwrap_or_default();
        assert!((0..=UNDISCIPLINED_US).contains(&error), "{error}");
    }
}
