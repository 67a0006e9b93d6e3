//! Whether this box's wall clock can be trusted.

use std::path::Path;

use serde::Serialize;

/// How far the wall clock can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockState {
    /// A time source has disciplined it since the start.
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
    if unix_s < WRITTEN {
        ClockState::Wrong
    } else if root.join(MARKER).exists() {
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
        assert_eq!(state(root.path(), 0), ClockState::Wrong);
        assert_eq!(state(root.path(), WRITTEN), ClockState::Synced);
    }

    #[test]
    fn without_a_marker_nobody_vouches_for_the_clock() {
        assert_eq!(state(board(&[]).path(), WRITTEN), ClockState::Unknown);
    }
}
