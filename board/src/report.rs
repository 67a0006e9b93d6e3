//! Converts readings to the types of the API.
//!
//! - Units become numbers whose member names state the unit; moments become ages.
//! - What the board does not have stays absent; [`unknown`] says why.
//! - Not here: judgements ([`check`]).

use std::time::Duration;

use watchkeeper_contract::board::{
    BoardDrive, BoardFan, BoardIdentity, BoardLed, BoardLoad, BoardMemory, BoardPoint, BoardPower,
    BoardPowerMode, BoardPressure, BoardRail, BoardReport, BoardSwap, BoardTemperature,
    BoardWatchdog,
};

use crate::history::{History, Point};
use crate::identity::Identity;
use crate::reading::{Drive, Fan, Load, Power, Rail, Reading, Sensed, Swap, Temperature, Watchdog};
use crate::units::{Kilohertz, Percent};
use crate::{check, unknown};

/// Builds the report about a board at `now`, on the clock of its readings.
pub fn report(
    identity: &Identity,
    reading: &Reading,
    history: &History,
    now: Duration,
) -> BoardReport {
    let pressure = &reading.pressure;
    let age_s = |at: Duration| now.saturating_sub(at).as_secs_f64();
    BoardReport {
        identity: identity_of(identity),
        age_s: age_s(reading.at),
        temperatures: reading
            .temperatures
            .iter()
            .map(|zone| temperature(zone, now))
            .collect(),
        throttling: reading.throttling,
        power: power(&reading.power),
        fans: reading.fans.iter().map(fan).collect(),
        load: load(&reading.load),
        memory: reading.memory.map(|memory| BoardMemory {
            total_bytes: memory.total.0,
            available_bytes: memory.available.0,
        }),
        swaps: reading.swaps.iter().map(swap).collect(),
        pressure: BoardPressure {
            cpu_percent: pressure.cpu.map(number),
            memory_percent: pressure.memory.map(number),
            io_percent: pressure.io.map(number),
        },
        drives: reading.drives.iter().map(drive).collect(),
        watchdogs: reading.watchdogs.iter().map(watchdog).collect(),
        leds: reading
            .leds
            .iter()
            .map(|led| BoardLed {
                name: led.name.to_string(),
                is_on: led.is_on,
            })
            .collect(),
        findings: check::check(identity, reading),
        unknown: unknown::list(identity, reading),
        minute: history.samples().map(|each| point(each, now)).collect(),
        hour: history.minutes().map(|each| point(each, now)).collect(),
    }
}

/// Builds the report about a board whose sensors were not read yet, `age` after the start: without
/// findings, since nothing is known.
pub fn unread(identity: &Identity, age: Duration) -> BoardReport {
    let (reading, history) = (Reading::default(), History::default());
    BoardReport {
        findings: Vec::new(),
        unknown: vec![unknown::unread()],
        ..report(identity, &reading, &history, age)
    }
}

fn number(share: Percent) -> f64 {
    share.0
}

fn megahertz(clock: Kilohertz) -> u32 {
    clock.0 / 1000
}

fn identity_of(identity: &Identity) -> BoardIdentity {
    let board = identity.board;
    BoardIdentity {
        family: identity.family,
        name: board.map(|board| board.name.to_owned()),
        part: board.map(|board| board.part.to_owned()),
        model: identity.model.clone(),
        processor: identity.processor.clone(),
        serial: identity.serial.clone(),
        l4t: identity.l4t.map(|l4t| l4t.to_string()),
        jetpack: identity.l4t.and_then(|l4t| l4t.jetpack()),
        is_virtual: identity.is_virtual,
    }
}

fn temperature(zone: &Temperature, now: Duration) -> BoardTemperature {
    BoardTemperature {
        name: zone.name.to_string(),
        celsius: zone.value().map(|value| value.0),
        silent_s: match zone.sensed {
            Sensed::Silent { since } => Some(now.saturating_sub(since).as_secs_f64()),
            Sensed::Value(_) | Sensed::Absent => None,
        },
        throttles_at_celsius: zone.throttles_at.map(|limit| limit.0),
        critical_at_celsius: zone.critical_at.map(|limit| limit.0),
    }
}

fn power(power: &Power) -> BoardPower {
    BoardPower {
        watts: power.total.map(|total| total.watts()),
        rails: power.rails.iter().map(rail).collect(),
        mode: power.mode.as_ref().map(|mode| BoardPowerMode {
            id: mode.id,
            name: mode.name.as_ref().map(ToString::to_string),
            fastest_id: mode.faster.as_ref().map(|faster| faster.id),
            fastest_name: mode.faster.as_ref().map(|faster| faster.name.to_string()),
        }),
    }
}

fn rail(rail: &Rail) -> BoardRail {
    let value = rail.sensed.value();
    BoardRail {
        name: rail.name.to_string(),
        volts: value.map(|value| value.voltage.0 / 1000.0),
        amps: value.map(|value| value.current.0 / 1000.0),
        watts: value.map(|value| value.power().watts()),
    }
}

fn fan(fan: &Fan) -> BoardFan {
    BoardFan {
        name: fan.name.to_string(),
        duty_percent: fan.duty.map(number),
        rpm: fan.speed.map(|speed| speed.0),
    }
}

fn load(load: &Load) -> BoardLoad {
    BoardLoad {
        cpu_percent: load.cpu.map(number),
        cores: load.cores,
        cpu_mhz: load.cpu_clock.map(megahertz),
        cpu_max_mhz: load.cpu_max_clock.map(megahertz),
        gpu_percent: load.gpu.map(number),
        gpu_mhz: load.gpu_clock.map(megahertz),
        decoder_percent: load.decoder.map(number),
    }
}

fn swap(swap: &Swap) -> BoardSwap {
    BoardSwap {
        name: swap.name.to_string(),
        total_bytes: swap.total.0,
        used_bytes: swap.used.0,
        kind: swap.kind,
    }
}

fn drive(drive: &Drive) -> BoardDrive {
    BoardDrive {
        name: drive.name.to_string(),
        model: drive.model.as_ref().map(ToString::to_string),
        kind: drive.kind,
        size_bytes: drive.size.map(|size| size.0),
        life_used_percent: drive.life_used.map(number),
        celsius: drive.temperature.map(|value| value.0),
    }
}

fn watchdog(watchdog: &Watchdog) -> BoardWatchdog {
    BoardWatchdog {
        name: watchdog.name.to_string(),
        is_active: watchdog.is_active,
        timeout_s: watchdog.timeout.map(|timeout| timeout.as_secs_f64()),
    }
}

fn point(point: &Point, now: Duration) -> BoardPoint {
    BoardPoint {
        age_s: now.saturating_sub(point.at).as_secs_f64(),
        celsius: point.hottest.map(|value| value.0),
        watts: point.power.map(|power| power.watts()),
        cpu_percent: point.cpu.map(number),
        gpu_percent: point.gpu.map(number),
        throttled: point.throttled,
    }
}
