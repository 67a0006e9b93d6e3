//! What is wrong with a board, or could be better, from one reading.
//!
//! - A finding names what was found and the remedy. Nothing is found about what can't be known.
//!
//! | limit | value | source |
//! |---|---|---|
//! | close to throttling | 5 K | a step of load warms an Orin Nano by about that much |
//! | hot, without a stated limit | 80 °C | soft limit of a Raspberry Pi |
//! | hot with a stopped fan | 20 K below the limit | fan tables of Jetson Linux run it there |
//! | life time used | 80 % | `PRE_EOL_INFO` warns there too |

use watchkeeper_contract::board::{BoardFinding, FindingLevel};

use crate::identity::Identity;
use crate::reading::{Drive, Fan, Reading, Reserve, Sensed, SwapKind};

/// Kelvin below the throttling temperature from which on a board counts as hot.
const HOT_HEADROOM: f64 = 5.0;

/// Degrees Celsius from which on a board is hot that does not state when it throttles.
const HOT_CELSIUS: f64 = 80.0;

/// Kelvin below the throttling temperature from which on a fan should turn.
const FAN_HEADROOM: f64 = 20.0;

/// Percent of the life time of a drive from which on it should be replaced.
pub const WORN_PERCENT: f64 = 80.0;

const COOLING: &str = "improve the cooling of the box, or reduce frame rates and models";

const SUPPLY: &str = "use the power supply that the board's maker recommends, and a short cable";

/// Lists what is wrong with the board, the worst first.
pub fn check(identity: &Identity, reading: &Reading) -> Vec<BoardFinding> {
    let mut findings: Vec<BoardFinding> = Vec::new();
    findings.extend(heat(reading));
    findings.extend(fans(reading));
    findings.extend(electricity(reading));
    findings.extend(silent_sensors(reading));
    findings.extend(reading.drives.iter().filter_map(worn));
    findings.extend(swap(reading));
    findings.extend(power_mode(reading));
    findings.extend(watchdog(identity, reading));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

fn finding(level: FindingLevel, what: String, remedy: impl Into<String>) -> BoardFinding {
    BoardFinding {
        level,
        what,
        remedy: remedy.into(),
    }
}

fn heat(reading: &Reading) -> Option<BoardFinding> {
    let hottest = reading.hottest();
    let place = hottest.map(|(zone, value)| format!("{value} ({})", zone.name));
    if reading.throttling.thermal == Some(true) {
        let place = place
            .map(|place| format!(" at {place}"))
            .unwrap_or_default();
        let what = format!("temperature: heat slows the board down{place}");
        return Some(finding(FindingLevel::Problem, what, COOLING));
    }
    let is_hot = match reading.headroom() {
        Some(kelvin) => kelvin <= HOT_HEADROOM,
        None => hottest?.1.0 >= HOT_CELSIUS,
    };
    let what = format!("temperature: {}, close to the limit", place?);
    is_hot.then(|| finding(FindingLevel::Advice, what, COOLING))
}

/// Fans that all stand still on a warm board; boards with several may stop some of them.
fn fans(reading: &Reading) -> Option<BoardFinding> {
    let is_warm = match reading.headroom() {
        Some(kelvin) => kelvin <= FAN_HEADROOM,
        None => reading.hottest()?.1.0 >= HOT_CELSIUS,
    };
    let are_stopped = !reading.fans.is_empty()
        && reading
            .fans
            .iter()
            .all(|fan| Fan::is_stopped(fan) == Some(true));
    (is_warm && are_stopped).then(|| {
        let what = "fan: stopped, although the board is hot".to_owned();
        finding(
            FindingLevel::Problem,
            what,
            "check the fan and its cable; replace it",
        )
    })
}

fn electricity(reading: &Reading) -> Vec<BoardFinding> {
    let throttling = &reading.throttling;
    let mut findings = Vec::new();
    if throttling.under_voltage == Some(true) {
        let what = "power: the supply voltage is too low".to_owned();
        findings.push(finding(FindingLevel::Problem, what, SUPPLY));
    } else if throttling.had_under_voltage == Some(true) {
        let what = "power: the supply voltage was too low since the board started".to_owned();
        findings.push(finding(FindingLevel::Advice, what, SUPPLY));
    }
    if throttling.over_current == Some(true) {
        let what = "power: a current limit slows the board down".to_owned();
        let remedy = "choose a lower power mode, or a stronger power supply";
        findings.push(finding(FindingLevel::Advice, what, remedy));
    }
    findings
}

fn silent_sensors(reading: &Reading) -> impl Iterator<Item = BoardFinding> {
    reading
        .temperatures
        .iter()
        .filter_map(|zone| match zone.sensed {
            Sensed::Silent { since } => {
                let silent_s = reading.at.saturating_sub(since).as_secs();
                let what = format!(
                    "temperature: sensor {} is silent for {silent_s} s",
                    zone.name
                );
                let remedy = "restart the box; if it stays silent, the board may be damaged";
                Some(finding(FindingLevel::Advice, what, remedy))
            }
            Sensed::Value(_) | Sensed::Absent => None,
        })
}

/// States a share of a drive's life time, in percent.
pub fn share_of_life(percent: f64) -> String {
    match percent > 100.0 {
        true => "more than its rated life time".to_owned(),
        false => format!("up to {percent:.0} % of its life time"),
    }
}

fn worn(drive: &Drive) -> Option<BoardFinding> {
    let used = drive.life_used.map(|used| used.0);
    let is_urgent = drive.reserve == Some(Reserve::Urgent);
    let level = match used {
        _ if is_urgent => FindingLevel::Problem,
        Some(used) if used > 100.0 => FindingLevel::Problem,
        Some(used) if used >= WORN_PERCENT => FindingLevel::Advice,
        _ if drive.reserve == Some(Reserve::Warning) => FindingLevel::Advice,
        _ => return None,
    };
    let what = match used {
        Some(used) => format!("storage: {} has used {}", drive.name, share_of_life(used)),
        None => format!("storage: {} has few reserve blocks left", drive.name),
    };
    let remedy = "back up the state folder and replace the drive; move recordings to another drive";
    Some(finding(level, what, remedy))
}

fn swap(reading: &Reading) -> Option<BoardFinding> {
    let mut swaps = reading.swaps.iter();
    let swap = swaps.find(|swap| swap.kind == SwapKind::SdCard)?;
    let what = format!(
        "swap: {} is on an SD card, which swapping wears out",
        swap.name
    );
    let remedy = "use compressed memory: sudo apt install systemd-zram-generator";
    Some(finding(FindingLevel::Advice, what, remedy))
}

fn power_mode(reading: &Reading) -> Option<BoardFinding> {
    let mode = reading.power.mode.as_ref()?;
    let (name, faster) = (mode.name.as_ref()?, mode.faster.as_ref()?);
    let what = format!("power mode: {name}; {} is faster", faster.name);
    let remedy = format!(
        "if cooling and power supply suffice: sudo nvpmodel -m {}",
        faster.id
    );
    Some(finding(FindingLevel::Advice, what, remedy))
}

fn watchdog(identity: &Identity, reading: &Reading) -> Option<BoardFinding> {
    let (what, remedy) = match reading.watchdogs.first() {
        None if identity.is_virtual => return None,
        None => (
            "watchdog: the kernel shows none",
            "load the driver of the board's watchdog",
        ),
        Some(_) if reading.watchdogs.iter().any(|w| w.is_active != Some(false)) => return None,
        Some(_) => (
            "watchdog: not used; a hung system does not restart",
            "set RuntimeWatchdogSec=30 in /etc/systemd/system.conf, then restart",
        ),
    };
    Some(finding(FindingLevel::Advice, what.to_owned(), remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Board as _, Throttling};
    use crate::sysfs::SysfsBoard;
    use crate::testing::tree;
    use std::time::Duration;

    /// Level and beginning of each finding about the board of a tree.
    fn found(name: &str) -> Vec<String> {
        let root = tree(name);
        let mut board = SysfsBoard::open(root.path());
        let reading = board.sample(Duration::ZERO).clone();
        let findings = check(board.identity(), &reading);
        let texts = findings.iter().map(|f| format!("{:?} {}", f.level, f.what));
        texts.collect()
    }

    #[test]
    fn healthy_boards_have_at_most_advice() {
        assert_eq!(found("raspberry-pi-5"), Vec::<String>::new());
        assert_eq!(found("virtual-machine"), Vec::<String>::new());
        assert_eq!(
            found("orin-nano"),
            ["Advice power mode: 25W; MAXN_SUPER is faster"]
        );
        assert_eq!(
            found("x86-nuc"),
            ["Advice watchdog: not used; a hung system does not restart"]
        );
        assert_eq!(
            found("generic-arm64"),
            ["Advice watchdog: the kernel shows none"]
        );
    }

    #[test]
    fn hot_board_with_a_stopped_fan_has_two_problems() {
        assert_eq!(
            found("orin-nx"),
            [
                "Problem temperature: heat slows the board down at 100 °C (tj-thermal)",
                "Problem fan: stopped, although the board is hot",
                "Advice watchdog: not used; a hung system does not restart",
            ]
        );
    }

    #[test]
    fn stopped_fan_of_a_cool_board_is_fine() {
        assert_eq!(
            found("agx-orin"),
            [
                "Advice storage: mmcblk0 has used up to 100 % of its life time",
                "Advice power mode: MODE_30W; MAXN is faster",
            ]
        );
    }

    #[test]
    fn raspberry_pi_with_a_weak_supply_is_advised() {
        assert_eq!(
            found("raspberry-pi-4"),
            [
                "Problem temperature: heat slows the board down at 83 °C (cpu-thermal)",
                "Advice power: the supply voltage was too low since the board started",
                "Advice swap: /var/swap is on an SD card, which swapping wears out",
                "Advice watchdog: not used; a hung system does not restart",
            ]
        );
    }

    #[test]
    fn unknown_readings_give_no_findings() {
        let identity = Identity {
            is_virtual: true,
            ..Identity::default()
        };
        assert_eq!(check(&identity, &Reading::default()), []);
    }

    #[test]
    fn low_voltage_is_a_problem_while_it_lasts() {
        let reading = Reading {
            throttling: Throttling {
                under_voltage: Some(true),
                had_under_voltage: Some(true),
                ..Throttling::default()
            },
            ..Reading::default()
        };
        let levels = electricity(&reading)
            .iter()
            .map(|f| f.level)
            .collect::<Vec<_>>();
        assert_eq!(levels, [FindingLevel::Problem]);
    }
}
