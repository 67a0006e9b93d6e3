//! Whether this box's wall clock can be trusted.
//!
//! The kernel knows, whoever keeps the time (systemd-timesyncd, chrony, ntpd, PTP), and forgets it when nobody does any more. Where it may not be
//! asked, a file of systemd-timesyncd speaks for it.

use std::ffi::c_long;
use std::path::Path;

use serde::Serialize;

use crate::kernel;

/// How far the wall clock can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockState {
    /// A time source disciplines it.
    Synced,
    /// Nobody says so, but the date is possible.
    Unknown,
    /// The date is before this program was written, such as 1970 after a cold boot without a battery.
    Wrong,
}

/// File that appears once the clock was synchronised, written by systemd-timesyncd (systemd-timesyncd.service(8)).
const MARKER: &str = "run/systemd/timesync/synchronized";

/// 2026-01-01T00:00:00Z in seconds since 1970.
const WRITTEN: i64 = 1_767_225_600;

/// Judges the clock of the box whose files begin at `root` and that says it is `unix_s` seconds after 1970.
#[must_use]
pub fn state(root: &Path, unix_s: i64) -> ClockState {
    judge(kernel::max_error_us(), root, unix_s)
}

/// An error from which on nobody disciplines the clock: the kernel's own limit (`NTP_PHASE_LIMIT`, 16 s, in microseconds). It begins there and comes
/// back to it 500 ppm at a time, nine hours after the last word of a time source. The same limit is behind `timedatectl`'s "System clock
/// synchronized"; the flag `STA_UNSYNC` says something else, whether the kernel may set the hardware's clock.
const UNDISCIPLINED_US: c_long = 16_000_000;

fn judge(max_error_us: Option<c_long>, root: &Path, unix_s: i64) -> ClockState {
    let is_synced = match max_error_us {
        Some(error) => error < UNDISCIPLINED_US,
        None => root.join(MARKER).exists(),
    };
    if unix_s < WRITTEN {
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
    use crate::profile::tests::board;

    #[test]
    fn a_date_before_this_program_is_wrong_whatever_the_marker_says() {
        let root = board(&[(MARKER, "")]);
        assert_eq!(judge(None, root.path(), 0), ClockState::Wrong);
        assert_eq!(judge(Some(0), root.path(), 0), ClockState::Wrong);
        assert_eq!(judge(None, root.path(), WRITTEN), ClockState::Synced);
    }

    #[test]
    fn without_the_kernel_and_a_marker_nobody_vouches_for_the_clock() {
        assert_eq!(judge(None, board(&[]).path(), WRITTEN), ClockState::Unknown);
    }

    #[test]
    fn the_kernel_vouches_for_every_time_source_and_only_for_as_long_as_there_is_one() {
        let error = Some(UNDISCIPLINED_US - 1);
        assert_eq!(judge(error, board(&[]).path(), WRITTEN), ClockState::Synced);
        let (gone, marked) = (Some(UNDISCIPLINED_US), board(&[(MARKER, "")]));
        assert_eq!(judge(gone, marked.path(), WRITTEN), ClockState::Unknown);
    }

    #[test]
    fn what_the_kernel_says_is_possible() {
        // A sandbox may forbid to ask.
        let error = kernel::max_error_us().unwrap_or_default();
        assert!((0..=UNDISCIPLINED_US).contains(&error), "{error}");
    }
}
