//! Findings about the machine: the board, cameras, clock and temperature.
//!
//! - `watchkeeper-board` reads the hardware.

use std::path::Path;

use watchkeeper_board::{clock, identity, profile, thermal};

use super::finding::Finding;

/// Degrees Celsius at which boards throttle; NVIDIA states 85 to 99 for Orin's zones.
const THROTTLE_CELSIUS: f64 = 85.0;

pub(super) fn board(root: &Path) -> Finding {
    let kind = match profile::detect(root) {
        profile::Profile::Jetson => "Jetson",
        profile::Profile::Generic => "generic",
    };
    match identity::read(root).model {
        Some(model) => Finding::ok(format!("board: {model} ({kind})")),
        None => Finding::ok(format!(
            "board: not recognised, settings of a {kind} machine"
        )),
    }
}

pub(super) fn cameras(root: &Path) -> Vec<Finding> {
    use rustix::fs::{Access, access};
    profile::video_devices(root)
        .into_iter()
        .map(
            |path| match access(&path, Access::READ_OK | Access::WRITE_OK) {
                Ok(()) => Finding::ok(format!("camera {}: accessible", path.display())),
                Err(_) => Finding::problem(
                    format!("camera {}: permission denied", path.display()),
                    "sudo usermod -aG video $(id -un)    (then log in again)",
                ),
            },
        )
        .collect()
}

pub(super) fn wall_clock(root: &Path) -> Finding {
    let remedy = "sudo timedatectl set-ntp true";
    match clock::state(root, jiff::Timestamp::now().as_second()) {
        clock::ClockState::Synced => Finding::ok("clock: synchronised"),
        clock::ClockState::Unknown => Finding::advice(
            "clock: not synchronised (no NTP); event times may be off",
            remedy,
        ),
        clock::ClockState::Wrong => Finding::problem(
            "clock: wrong, the date is before this program was written",
            remedy,
        ),
    }
}

pub(super) fn heat(root: &Path) -> Finding {
    match thermal::hottest(root) {
        Some(zone) if zone.temperature.0 >= THROTTLE_CELSIUS => Finding::problem(
            format!(
                "temperature: {:.0} °C ({}); the board throttles",
                zone.temperature.0, zone.name
            ),
            "improve the cooling of the box",
        ),
        Some(zone) => Finding::ok(format!(
            "temperature: {:.0} °C ({})",
            zone.temperature.0, zone.name
        )),
        None => Finding::unknown("temperature: the board has no sensor that can be read"),
    }
}
