//! `watchkeeper board`: what this board is, and what its sensors read; needs no runtime.
//!
//! - The load of the processor is that between two samples, so one screen takes [`FIRST_INTERVAL`].
//! - What can't be known is listed with the reason.

use std::path::Path;
use std::time::{Duration, Instant};

use watchkeeper_board::check::share_of_life;
use watchkeeper_board::history::{History, INTERVAL};
use watchkeeper_board::reading::{self, Board as _};
use watchkeeper_board::report::report;
use watchkeeper_board::sysfs::SysfsBoard;
use watchkeeper_board::units::Celsius;
use watchkeeper_contract::board::{
    BoardDrive, BoardDriveKind, BoardFan, BoardIdentity, BoardLoad, BoardPower, BoardReport,
    BoardSwap, BoardSwapKind, BoardTemperature, BoardThrottling, BoardWatchdog, FindingLevel,
};

use super::exit::Failure;
use super::output::Output;

/// Time between the two samples of the first screen.
const FIRST_INTERVAL: Duration = Duration::from_millis(500);

const GIB: f64 = (1_u64 << 30) as f64;

/// Prints one screen, or one at each interval until the reader is gone.
pub(super) fn run(is_watching: bool, out: &Output) -> Result<(), Failure> {
    let origin = Instant::now();
    let mut board = SysfsBoard::open(Path::new("/"));
    let mut history = History::default();
    board.sample(origin.elapsed());
    std::thread::sleep(FIRST_INTERVAL);
    loop {
        let reading = board.sample(origin.elapsed()).clone();
        history.add(&reading);
        let report = report(board.identity(), &reading, &history, origin.elapsed());
        out.both(&report, || lines(&report).join("\n"));
        if !is_watching || out.is_closed() {
            return Ok(());
        }
        out.line("");
        std::thread::sleep(INTERVAL);
    }
}

/// The report as lines of a name and its values.
fn lines(report: &BoardReport) -> Vec<String> {
    let row =
        |(name, text): (&str, String)| (!text.is_empty()).then(|| format!("{name:<12} {text}"));
    let rows = [
        ("board", identity(&report.identity)),
        ("processor", processor(&report.identity, &report.load)),
        ("graphics", graphics(&report.load)),
        ("temperature", temperatures(&report.temperatures)),
        ("throttling", throttling(&report.throttling)),
        ("power", power(&report.power)),
        ("fan", join(report.fans.iter().map(fan))),
        ("memory", memory(report)),
        ("pressure", pressure(report)),
        ("storage", join(report.drives.iter().map(drive))),
        ("watchdog", join(report.watchdogs.iter().map(watchdog))),
        ("lights", lights(report)),
    ];
    let mut lines: Vec<String> = rows.into_iter().filter_map(row).collect();
    for unknown in &report.unknown {
        lines.push(format!(
            "{:<12} {}: {}",
            "unknown", unknown.what, unknown.why
        ));
    }
    for finding in &report.findings {
        let level = match finding.level {
            FindingLevel::Advice => "advice",
            FindingLevel::Problem => "PROBLEM",
        };
        lines.push(format!("{level:<12} {}", finding.what));
        lines.push(format!("{:<12} -> {}", "", finding.remedy));
    }
    lines
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

fn join_known<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

fn identity(identity: &BoardIdentity) -> String {
    let name = identity.name.clone().or_else(|| identity.model.clone());
    let jetpack = |l4t: &String| match identity.jetpack {
        Some(jetpack) => format!("Jetson Linux {l4t} (JetPack {jetpack})"),
        None => format!("Jetson Linux {l4t}"),
    };
    join_known([
        Some(name.unwrap_or_else(|| "not recognised".to_owned())),
        identity.part.clone(),
        identity.l4t.as_ref().map(jetpack),
        identity
            .serial
            .as_ref()
            .map(|serial| format!("serial number {serial}")),
        identity.is_virtual.then(|| "virtual machine".to_owned()),
    ])
}

fn processor(identity: &BoardIdentity, load: &BoardLoad) -> String {
    let clock = load.cpu_mhz.map(|now| match load.cpu_max_mhz {
        Some(max) => format!("{now} of {max} MHz"),
        None => format!("{now} MHz"),
    });
    join_known([
        identity.processor.clone(),
        load.cores.map(|cores| format!("{cores} cores")),
        clock,
        load.cpu_percent
            .map(|percent| format!("load {percent:.0} %")),
    ])
}

fn graphics(load: &BoardLoad) -> String {
    join_known([
        load.gpu_mhz.map(|clock| format!("{clock} MHz")),
        load.gpu_percent
            .map(|percent| format!("load {percent:.0} %")),
        load.decoder_percent
            .map(|percent| format!("decoder {percent:.0} %")),
    ])
}

fn temperatures(zones: &[BoardTemperature]) -> String {
    let zone = |zone: &BoardTemperature| {
        let [throttles_at, critical_at] =
            [zone.throttles_at_celsius, zone.critical_at_celsius].map(|at| at.map(Celsius));
        let limit = reading::limit(throttles_at, critical_at);
        let assumed = match [throttles_at, critical_at].contains(&Some(limit)) {
            true => "",
            false => " (assumed limit)",
        };
        match (zone.celsius, zone.silent_s) {
            (Some(celsius), _) => Some(format!(
                "{} {celsius:.0} of {:.0} °C{assumed}",
                zone.name, limit.0
            )),
            (None, Some(silent_s)) => Some(format!("{} silent for {silent_s:.0} s", zone.name)),
            // Listed as unknown.
            (None, None) => None,
        }
    };
    join(zones.iter().filter_map(zone))
}

fn throttling(throttling: &BoardThrottling) -> String {
    let causes = [
        ("heat", throttling.thermal),
        ("over-current", throttling.over_current),
        ("under-voltage", throttling.under_voltage),
    ];
    let of = |wanted: bool| {
        let causes = causes.iter().filter(|(_, state)| *state == Some(wanted));
        causes.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    match (of(true), of(false)) {
        (active, _) if !active.is_empty() => format!("by {active}"),
        (_, inactive) if !inactive.is_empty() => format!("none ({inactive})"),
        _ => String::new(),
    }
}

fn power(power: &BoardPower) -> String {
    let mode = power.mode.as_ref().map(|mode| match &mode.name {
        Some(name) => format!("mode {name}"),
        None => format!("mode {}", mode.id),
    });
    let rails = power.rails.iter().filter_map(|rail| {
        let watts = rail.watts?;
        Some(format!("{} {watts:.1} W", rail.name))
    });
    let rails = join(rails);
    join_known([
        power.watts.map(|watts| format!("{watts:.1} W")),
        mode,
        (!rails.is_empty()).then_some(rails),
    ])
}

fn fan(fan: &BoardFan) -> String {
    let values = join_known([
        fan.duty_percent.map(|duty| format!("{duty:.0} %")),
        fan.rpm.map(|rpm| format!("{rpm} rpm")),
    ]);
    format!("{} {values}", fan.name)
}

fn memory(report: &BoardReport) -> String {
    let memory = report.memory.map(|memory| {
        let (available, total) = (gib(memory.available_bytes), gib(memory.total_bytes));
        format!("{available:.1} of {total:.1} GiB available")
    });
    let swap = |swap: &BoardSwap| {
        let kind = match swap.kind {
            BoardSwapKind::Zram => "compressed memory",
            BoardSwapKind::SdCard => "SD card",
            BoardSwapKind::Emmc => "eMMC",
            BoardSwapKind::Disk => "disk",
            BoardSwapKind::File => "file",
        };
        let (used, total) = (gib(swap.used_bytes), gib(swap.total_bytes));
        format!("swap {} {used:.1} of {total:.1} GiB ({kind})", swap.name)
    };
    join(memory.into_iter().chain(report.swaps.iter().map(swap)))
}

fn pressure(report: &BoardReport) -> String {
    let share = |name: &str, share: Option<f64>| share.map(|share| format!("{name} {share:.0} %"));
    let pressure = &report.pressure;
    join_known([
        share("processor", pressure.cpu_percent),
        share("memory", pressure.memory_percent),
        share("storage", pressure.io_percent),
    ])
}

fn drive(drive: &BoardDrive) -> String {
    let kind = match drive.kind {
        BoardDriveKind::SdCard => "SD card",
        BoardDriveKind::Emmc => "eMMC",
        BoardDriveKind::Nvme => "NVMe",
        BoardDriveKind::Disk => "disk",
    };
    join_known([
        Some(format!("{} {kind}", drive.name)),
        drive.model.clone(),
        drive
            .size_bytes
            .map(|bytes| format!("{:.0} GiB", gib(bytes))),
        drive
            .life_used_percent
            .map(|used| format!("used {}", share_of_life(used))),
        drive.celsius.map(|celsius| format!("{celsius:.0} °C")),
    ])
}

fn watchdog(watchdog: &BoardWatchdog) -> String {
    let state = watchdog.is_active.map(|is_active| match is_active {
        true => "active".to_owned(),
        false => "not used".to_owned(),
    });
    join_known([
        Some(watchdog.name.clone()),
        state,
        watchdog.timeout_s.map(|timeout| format!("{timeout:.0} s")),
    ])
}

fn lights(report: &BoardReport) -> String {
    join(report.leds.iter().filter_map(|led| {
        let state = if led.is_on? { "on" } else { "off" };
        Some(format!("{} {state}", led.name))
    }))
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchkeeper_board::reading::{Load, Reading, Sensed, Temperature};
    use watchkeeper_board::units::{Kilohertz, Percent};

    fn screen(reading: &Reading) -> Vec<String> {
        let identity = watchkeeper_board::identity::Identity::default();
        lines(&report(
            &identity,
            reading,
            &History::default(),
            Duration::ZERO,
        ))
    }

    #[test]
    fn unknown_readings_are_listed_with_their_reason() {
        let screen = screen(&Reading::default());
        assert_eq!(
            screen.first().map(String::as_str),
            Some("board        not recognised")
        );
        let unknown = "unknown      temperature: Linux shows no sensor for it on this board";
        assert!(screen.iter().any(|line| line == unknown), "{screen:#?}");
        assert!(
            !screen.iter().any(|line| line.starts_with("power")),
            "{screen:#?}"
        );
    }

    #[test]
    fn readings_have_units_and_limits() {
        let zone = |name: &str, throttles_at: Option<f64>, critical_at: Option<f64>| Temperature {
            name: name.into(),
            sensed: Sensed::Value(Celsius(51.2)),
            throttles_at: throttles_at.map(Celsius),
            critical_at: critical_at.map(Celsius),
        };
        let reading = Reading {
            temperatures: vec![
                zone("cpu", Some(99.0), None),
                zone("soc", None, Some(90.0)),
                zone("tj", None, Some(105.0)),
            ],
            load: Load {
                cores: Some(6),
                cpu: Some(Percent(12.3)),
                cpu_clock: Some(Kilohertz(1_344_000)),
                cpu_max_clock: Some(Kilohertz(1_728_000)),
                ..Load::default()
            },
            ..Reading::default()
        };
        let screen = screen(&reading);
        for line in [
            "processor    6 cores, 1344 of 1728 MHz, load 12 %",
            "temperature  cpu 51 of 99 °C; soc 51 of 90 °C; tj 51 of 95 °C (assumed limit)",
        ] {
            assert!(
                screen.iter().any(|shown| shown == line),
                "{line} in {screen:#?}"
            );
        }
    }
}
