//! The board of the box: what it is, what its sensors read, and what to do about it.
//!
//! - A sensor that the board does not have is absent; [`BoardReport::unknown`] says why.
//! - Units stand in the names of the members.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of `GET /v1/board`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardReport {
    pub identity: BoardIdentity,
    /// Seconds since the sensors were read.
    pub age_s: f64,
    /// Thermal zones by name.
    pub temperatures: Vec<BoardTemperature>,
    pub throttling: BoardThrottling,
    pub power: BoardPower,
    pub fans: Vec<BoardFan>,
    pub load: BoardLoad,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<BoardMemory>,
    pub swaps: Vec<BoardSwap>,
    pub pressure: BoardPressure,
    pub drives: Vec<BoardDrive>,
    pub watchdogs: Vec<BoardWatchdog>,
    pub leds: Vec<BoardLed>,
    /// Problems of the board, and advice.
    pub findings: Vec<BoardFinding>,
    /// Values that are unknown on this board.
    pub unknown: Vec<BoardUnknown>,
    /// Samples of the last minute, the oldest first.
    pub minute: Vec<BoardPoint>,
    /// The last 60 whole minutes, the oldest first.
    pub hour: Vec<BoardPoint>,
}

/// What the board is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoardIdentity {
    pub family: BoardFamily,
    /// Name of the board in the table of known boards, such as `Jetson Orin Nano 8GB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Part number of the module, such as `p3767-0005`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Model by its maker, from the device tree or DMI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Processor, or system on chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Release of Jetson Linux, such as `36.4.3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l4t: Option<String>,
    /// First number of the JetPack with that release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetpack: Option<u32>,
    /// Whether the machine runs below a hypervisor.
    pub is_virtual: bool,
}

/// Families of boards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoardFamily {
    Jetson,
    RaspberryPi,
    /// Any other machine.
    #[default]
    Generic,
}

/// A thermal zone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardTemperature {
    pub name: String,
    /// Temperature in degrees Celsius; absent while the sensor does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    /// Seconds since the sensor stopped answering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<f64>,
    /// Temperature at which the kernel slows the board down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttles_at_celsius: Option<f64>,
    /// Temperature at which the kernel shuts the board down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_at_celsius: Option<f64>,
}

/// Causes that slow the board down; a member is absent if that can't be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct BoardThrottling {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thermal: Option<bool>,
    /// Whether a current was above its limit since the previous sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_current: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_voltage: Option<bool>,
    /// Whether the supply voltage was too low at any time since the board started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub had_under_voltage: Option<bool>,
}

impl BoardThrottling {
    /// Whether any cause is active; `None` if none of them can be known.
    #[must_use]
    pub fn is_active(&self) -> Option<bool> {
        let causes = [self.thermal, self.over_current, self.under_voltage];
        causes.into_iter().flatten().reduce(|a, b| a || b)
    }
}

/// Electrical power and its mode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BoardPower {
    /// Power of the whole board in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    pub rails: Vec<BoardRail>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<BoardPowerMode>,
}

/// A rail of a power monitor; without numbers while it does not answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardRail {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volts: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amps: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
}

/// Power mode of a Jetson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoardPowerMode {
    /// Number that `nvpmodel -m` takes.
    pub id: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of the fastest mode, where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest_id: Option<u32>,
    /// Name of that mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest_name: Option<String>,
}

/// A fan of the board.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardFan {
    pub name: String,
    /// Share of the full voltage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duty_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpm: Option<u32>,
}

/// Work of the processors between the last two samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BoardLoad {
    /// All cores together, `0.0..=100.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Cores that are switched on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Clock of the fastest core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<u32>,
    /// Highest clock that the hardware allows a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_max_mhz: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_mhz: Option<u32>,
    /// Hardware video decoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoder_percent: Option<f64>,
}

/// Main memory of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoardMemory {
    pub total_bytes: u64,
    /// Bytes that programs can still get without swapping.
    pub available_bytes: u64,
}

/// An area that memory is swapped to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoardSwap {
    pub name: String,
    pub total_bytes: u64,
    pub used_bytes: u64,
    pub kind: BoardSwapKind,
}

/// Storage of a swap area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoardSwapKind {
    /// Main memory, compressed.
    Zram,
    SdCard,
    Emmc,
    Disk,
    /// A file on a device that is not known.
    File,
}

/// Share of the last ten seconds in which some task waited.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BoardPressure {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_percent: Option<f64>,
}

/// A storage device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardDrive {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub kind: BoardDriveKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Life time used at most, in steps of 10 %; 110 is more than its rated life time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life_used_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
}

/// Kind of a storage device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BoardDriveKind {
    SdCard,
    Emmc,
    Nvme,
    Disk,
}

/// A hardware watchdog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardWatchdog {
    pub name: String,
    /// Whether it restarts a hung system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// A light of the board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoardLed {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_on: Option<bool>,
}

/// Something about the board that a person should change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoardFinding {
    pub level: FindingLevel,
    /// The finding, in one sentence.
    pub what: String,
    /// Command or action that helps.
    pub remedy: String,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    /// The box works, and could work better.
    Advice,
    /// The box works less than it should, or will soon.
    Problem,
}

/// A reading that this board can't give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BoardUnknown {
    pub what: String,
    pub why: String,
}

/// Readings at one moment, or of one minute: the highest temperature, and means of the others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoardPoint {
    /// Seconds since the sample, or since the end of the minute.
    pub age_s: f64,
    /// Temperature of the hottest zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<f64>,
    /// Whether the board was slowed down at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::BoardThrottling;

    #[test]
    fn throttling_is_unknown_only_without_any_answer() {
        let mut throttling = BoardThrottling::default();
        assert_eq!(throttling.is_active(), None);
        throttling.thermal = Some(false);
        assert_eq!(throttling.is_active(), Some(false));
        throttling.under_voltage = Some(true);
        assert_eq!(throttling.is_active(), Some(true));
    }
}
