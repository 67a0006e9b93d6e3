//! Findings about the machine: the board and its sensors, cameras and clock.
//!
//! - `watchkeeper-board` reads the hardware and judges its readings.

use std::path::Path;
use std::time::Duration;

use watchkeeper_board::check::check;
use watchkeeper_board::model::Family;
use watchkeeper_board::reading::Board as _;
use watchkeeper_board::sysfs::SysfsBoard;
use watchkeeper_board::{clock, video};
use watchkeeper_contract::board::{BoardFinding, FindingLevel};
use watchkeeper_contract::time::TimeQuality;

use super::finding::Finding;

/// Identifies the board, reads its sensors once, and judges them.
pub(super) fn board(root: &Path) -> Vec<Finding> {
    let mut board = SysfsBoard::open(root);
    let reading = board.sample(Duration::ZERO).clone();
    let identity = board.identity();
    let family = match identity.family {
        Family::Jetson => "Jetson",
        Family::RaspberryPi => "Raspberry Pi",
        Family::Generic => "generic",
    };
    let known = identity.board.map(|board| board.name.to_owned());
    let mut findings = vec![match known.or_else(|| identity.model.clone()) {
        Some(name) => Finding::ok(format!("board: {name} ({family})")),
        None => Finding::ok(format!(
            "board: not recognised, settings of a {family} machine"
        )),
    }];
    let judged = check(identity, &reading);
    let is_heat = |finding: &BoardFinding| finding.what.starts_with("temperature");
    match reading.hottest() {
        Some(_) if judged.iter().any(is_heat) => {}
        Some((zone, value)) => {
            findings.push(Finding::ok(format!("temperature: {value} ({})", zone.name)));
        }
        None if identity.is_virtual => {
            findings.push(Finding::ok("temperature: a virtual machine has no sensors"));
        }
        None => findings.push(Finding::unknown(
            "temperature: the board has no sensor that can be read",
        )),
    }
    findings.extend(judged.into_iter().map(Finding::from));
    findings
}

impl From<BoardFinding> for Finding {
    fn from(finding: BoardFinding) -> Self {
        match finding.level {
            FindingLevel::Advice => Self::advice(finding.what, finding.remedy),
            FindingLevel::Problem => Self::problem(finding.what, finding.remedy),
        }
    }
}

pub(super) fn cameras(root: &Path) -> Vec<Finding> {
    use rustix::fs::{Access, access};
    video::devices(root)
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
    match clock::quality(root, jiff::Timestamp::now().as_second()) {
        TimeQuality::Synced => Finding::ok("clock: synchronised"),
        TimeQuality::Estimated => Finding::advice(
            "clock: not synchronised (no NTP); event times may be off",
            remedy,
        ),
        TimeQuality::Unsynced => Finding::problem(
            "clock: wrong, the date is before this program was written",
            remedy,
        ),
    }
}
