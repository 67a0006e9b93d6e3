//! Readings of a board at one moment, and the trait that every board implements.
//!
//! - `None` and an empty list mean that the board has no such sensor, or hides it.
//! - A sensor that was found and stopped answering is [`Sensed::Silent`], with the time.
//! - [`Reading::at`] is the caller's monotonic clock; nothing here reads a clock.
//! - Not here: how values are read from files (`sysfs`).

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
pub use watchkeeper_contract::board::{
    BoardDriveKind as DriveKind, BoardSwapKind as SwapKind, BoardThrottling as Throttling,
};

use crate::identity::Identity;
use crate::units::{Bytes, Celsius, Kilohertz, Milliamps, Millivolts, Milliwatts, Percent, Rpm};

/// A board whose sensors can be read.
pub trait Board {
    /// What the board is; it does not change while the program runs.
    fn identity(&self) -> &Identity;

    /// Reads all sensors at `now`, the time since an origin that the caller chooses. The times of
    /// later calls do not go back.
    fn sample(&mut self, now: Duration) -> &Reading;
}

/// The value of a sensor that the board has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensed<T> {
    Value(T),
    /// The sensor is switched off, or has not answered since the board was opened.
    Absent,
    /// The sensor stopped answering, or its value is not plausible.
    Silent {
        /// Time of the first sample without an answer.
        since: Duration,
    },
}

impl<T: Copy> Sensed<T> {
    pub fn value(&self) -> Option<T> {
        match self {
            Self::Value(value) => Some(*value),
            Self::Absent | Self::Silent { .. } => None,
        }
    }

    /// Stores the answer of a sample at `now`; keeps the first time of a silence.
    pub fn update(&mut self, answer: Option<T>, now: Duration) {
        match (answer, &self) {
            (Some(value), _) => *self = Self::Value(value),
            (None, Self::Value(_)) => *self = Self::Silent { since: now },
            (None, Self::Absent | Self::Silent { .. }) => {}
        }
    }
}

/// All sensors of a board at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Reading {
    /// Time of the sample since the caller's origin.
    pub at: Duration,
    /// Thermal zones by name.
    pub temperatures: Vec<Temperature>,
    pub throttling: Throttling,
    pub power: Power,
    pub fans: Vec<Fan>,
    pub load: Load,
    pub memory: Option<Memory>,
    pub swaps: Vec<Swap>,
    pub pressure: Pressure,
    pub drives: Vec<Drive>,
    pub watchdogs: Vec<Watchdog>,
    pub leds: Vec<Led>,
}

impl Reading {
    /// The hottest zone that answers. `None` if no zone does: none exists, or all of them are
    /// switched off or silent.
    pub fn hottest(&self) -> Option<(&Temperature, Celsius)> {
        let answering = |zone| Temperature::value(zone).map(|value| (zone, value));
        let zones = self.temperatures.iter().filter_map(answering);
        zones.max_by(|(_, a), (_, b)| a.0.total_cmp(&b.0))
    }

    /// The least distance of a zone to its throttling temperature, in kelvin; negative above it.
    /// `None` if no zone that answers states such a temperature.
    pub fn headroom(&self) -> Option<f64> {
        let zones = self.temperatures.iter();
        let distances = zones.filter_map(|zone| Some(zone.throttles_at?.0 - zone.value()?.0));
        distances.min_by(f64::total_cmp)
    }
}

/// Limit of a sensor for which the kernel states no passive trip point. Boards with ARM processors
/// state theirs; x86 processors throttle at 95 to 105 °C.
const DEFAULT_LIMIT: Celsius = Celsius(95.0);

/// The temperature from which on a board throttles, or at which it shuts down if that is less than
/// the default.
pub fn limit(throttles_at: Option<Celsius>, critical_at: Option<Celsius>) -> Celsius {
    let critical = critical_at.map_or(DEFAULT_LIMIT.0, |critical| critical.0);
    throttles_at.unwrap_or(Celsius(critical.min(DEFAULT_LIMIT.0)))
}

/// A thermal zone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Temperature {
    /// Name by the kernel, such as `cpu-thermal`.
    pub name: Arc<str>,
    pub sensed: Sensed<Celsius>,
    /// Lowest passive trip point: the kernel slows the board down from here on.
    pub throttles_at: Option<Celsius>,
    /// Lowest critical trip point: the kernel shuts the board down here.
    pub critical_at: Option<Celsius>,
}

impl Temperature {
    pub fn limit(&self) -> Celsius {
        limit(self.throttles_at, self.critical_at)
    }

    pub fn value(&self) -> Option<Celsius> {
        self.sensed.value()
    }
}

/// Electrical power and its mode.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Power {
    /// Power of the whole board; `None` if no rail measures it.
    pub total: Option<Milliwatts>,
    /// Rails of the board's power monitors, by name.
    pub rails: Vec<Rail>,
    /// Power mode that is set, such as `15W` of a Jetson.
    pub mode: Option<PowerMode>,
}

/// A rail of a power monitor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rail {
    /// Name by the board, such as `VDD_IN`.
    pub name: Arc<str>,
    pub sensed: Sensed<RailValue>,
}

/// Voltage and current of a rail at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RailValue {
    pub voltage: Millivolts,
    pub current: Milliamps,
}

impl RailValue {
    pub fn power(&self) -> Milliwatts {
        Milliwatts::of(self.voltage, self.current)
    }
}

/// Power mode of a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PowerMode {
    /// Number of the mode, as `nvpmodel -m` takes it.
    pub id: u32,
    /// Name of the mode; `None` if the board does not list it.
    pub name: Option<Arc<str>>,
    /// The fastest mode of the board, where it is another one.
    pub faster: Option<FasterMode>,
}

/// A mode that lets the board work faster than the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FasterMode {
    pub id: u32,
    pub name: Arc<str>,
}

/// A fan of the board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fan {
    /// Name by the kernel, such as `pwmfan`.
    pub name: Arc<str>,
    /// Share of the full voltage; `None` if it is not set by pulses.
    pub duty: Option<Percent>,
    /// Measured speed; `None` without a tachometer.
    pub speed: Option<Rpm>,
}

impl Fan {
    /// Whether the fan stands still: by its tachometer, else by its duty. `None` if both miss.
    pub fn is_stopped(&self) -> Option<bool> {
        let by_speed = self.speed.map(|speed| speed.0 == 0);
        by_speed.or_else(|| self.duty.map(|duty| duty.0 <= 0.0))
    }
}

/// Work of the processors since the previous sample.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Load {
    /// All processor cores together; `None` at the first sample.
    pub cpu: Option<Percent>,
    /// Cores that are switched on.
    pub cores: Option<u32>,
    /// Clock of the fastest core.
    pub cpu_clock: Option<Kilohertz>,
    /// Highest clock that the hardware allows a core.
    pub cpu_max_clock: Option<Kilohertz>,
    pub gpu: Option<Percent>,
    pub gpu_clock: Option<Kilohertz>,
    /// Hardware video decoder.
    pub decoder: Option<Percent>,
}

/// Main memory of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Memory {
    pub total: Bytes,
    /// Bytes that programs can still get without swapping.
    pub available: Bytes,
}

/// An area that memory is swapped to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Swap {
    /// Device or file, such as `/dev/zram0`.
    pub name: Arc<str>,
    pub total: Bytes,
    pub used: Bytes,
    pub kind: SwapKind,
}

/// Share of the last ten seconds in which some task waited (`/proc/pressure`).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Pressure {
    pub cpu: Option<Percent>,
    pub memory: Option<Percent>,
    pub io: Option<Percent>,
}

/// A storage device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drive {
    /// Name by the kernel, such as `mmcblk0`.
    pub name: Arc<str>,
    pub model: Option<Arc<str>>,
    pub kind: DriveKind,
    pub size: Option<Bytes>,
    /// Life time used at most, the worse of both kinds of memory, in steps of 10 %; 110 % is more
    /// than its rated life time.
    pub life_used: Option<Percent>,
    /// State of the reserved blocks of an eMMC.
    pub reserve: Option<Reserve>,
    pub temperature: Option<Celsius>,
}

/// State of the reserved blocks of an eMMC (JESD84-B51, `PRE_EOL_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reserve {
    Normal,
    /// 80 % of the reserved blocks are used.
    Warning,
    /// 90 % of the reserved blocks are used.
    Urgent,
}

/// A hardware watchdog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Watchdog {
    /// Name by its driver, such as `Tegra WDT`.
    pub name: Arc<str>,
    /// Whether it runs, so that a hung system restarts.
    pub is_active: Option<bool>,
    pub timeout: Option<Duration>,
}

/// A light of the board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Led {
    pub name: Arc<str>,
    pub is_on: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str, value: Option<f64>, throttles_at: Option<f64>) -> Temperature {
        let silent = Sensed::Silent {
            since: Duration::ZERO,
        };
        Temperature {
            name: name.into(),
            sensed: value.map_or(silent, |value| Sensed::Value(Celsius(value))),
            throttles_at: throttles_at.map(Celsius),
            critical_at: None,
        }
    }

    #[test]
    fn hottest_and_headroom_leave_silent_zones_out() {
        let reading = Reading {
            temperatures: vec![
                zone("cpu", Some(60.0), Some(99.0)),
                zone("gpu", Some(55.0), Some(80.0)),
                zone("soc", None, Some(70.0)),
            ],
            ..Reading::default()
        };
        let hottest = reading.hottest().map(|(zone, _)| zone.name.as_ref());
        assert_eq!(hottest, Some("cpu"));
        assert_eq!(reading.headroom(), Some(25.0));
        assert_eq!(Reading::default().headroom(), None);
    }

    #[test]
    fn silence_keeps_its_first_time() {
        let mut sensed = Sensed::Value(Celsius(50.0));
        let second = Duration::from_secs(1);
        sensed.update(None, second);
        sensed.update(None, second * 2);
        assert_eq!(sensed, Sensed::Silent { since: second });
        sensed.update(Some(Celsius(51.0)), second * 3);
        assert_eq!(sensed.value(), Some(Celsius(51.0)));
    }
}
