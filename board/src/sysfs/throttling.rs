//! Causes that slow the board down: cooling devices, over-current events, and the firmware's flags.
//!
//! | source | thermal | over-current | under-voltage |
//! |---|---|---|---|
//! | cooling devices of processors | state above 0 | | |
//! | `package_throttle_count` of x86 | count grows | | |
//! | `soctherm_oc` of a Jetson Orin | | `oc2`, `oc3` grow | `oc1` grows |
//! | `get_throttled` of a Raspberry Pi | bit 3, or bit 2 without bit 0 | | bits 0 and 16 |
//! | chip `rpi_volt` | | | `in0_lcrit_alarm` |

use std::path::{Path, PathBuf};

use super::hwmon::{self, Chip};
use super::probe::{Buffer, Probe, entries, numbered};
use crate::read_text;
use crate::reading::{Reading, Throttling};

/// Largest number of cooling devices; x86 has one for each core.
const MAX_COOLERS: usize = 64;

/// Beginnings of the names of cooling devices that slow a processor down.
const SLOWING: [&str; 5] = [
    "cpufreq-",
    "thermal-cpufreq-",
    "devfreq-",
    "thermal-devfreq-",
    "Processor",
];

/// End of the names of a Jetson's cooling devices that report that the hardware slows down.
const ALERT: &str = "-throttle-alert";

const PACKAGE_COUNT: &str = "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count";

/// A count of events since the board started.
#[derive(Debug)]
struct Counter {
    probe: Probe,
    last: Option<u64>,
}

impl Counter {
    fn find(path: PathBuf) -> Option<Self> {
        let probe = Probe::find(path)?;
        Some(Self { probe, last: None })
    }

    /// Reads the count, and whether it grew since the previous sample; no growth at the first.
    fn sample(&mut self, buffer: &mut Buffer) -> Option<(u64, bool)> {
        let count: u64 = self.probe.number(buffer)?;
        let last = self.last.replace(count);
        Some((count, last.is_some_and(|last| count > last)))
    }
}

#[derive(Debug)]
pub(super) struct ThrottleProbes {
    coolers: Vec<Probe>,
    package: Option<Counter>,
    /// Average and instantaneous over-current of an Orin.
    over_current: Vec<Counter>,
    /// Under-voltage of an Orin.
    under_voltage: Option<Counter>,
    firmware: Option<Probe>,
    voltage_alarm: Option<Probe>,
}

impl ThrottleProbes {
    pub(super) fn find(root: &Path) -> Self {
        let chips = hwmon::chips(root);
        let chip = |name: &str| chips.iter().find(|chip| chip.name == name);
        let event = |chip: &Chip, number: u32| {
            Counter::find(chip.folder.join(format!("oc{number}_event_cnt")))
        };
        let events = chip("soctherm_oc");
        let alarm = |chip: &Chip| Probe::find(chip.folder.join("in0_lcrit_alarm"));
        Self {
            coolers: find_coolers(root),
            package: Counter::find(root.join(PACKAGE_COUNT)),
            over_current: events
                .into_iter()
                .flat_map(|chip| [2, 3].map(|number| event(chip, number)))
                .flatten()
                .collect(),
            under_voltage: events.and_then(|chip| event(chip, 1)),
            firmware: find_firmware(root),
            voltage_alarm: chip("rpi_volt").and_then(alarm),
        }
    }

    pub(super) fn sample(&mut self, reading: &mut Reading, buffer: &mut Buffer) {
        let flags = self.firmware.as_ref();
        let flags = flags.and_then(|probe| parse_flags(probe.text(buffer)?));
        let has = |bits: u32| flags.map(|flags| flags & bits != 0);
        // The firmware sets bit 2, "throttled", for a weak supply (bit 0) too.
        let by_heat = flags.map(|flags| flags & 0b1000 != 0 || flags & 0b101 == 0b100);
        let coolers = self.coolers.iter().map(|probe| probe.number::<i64>(buffer));
        let coolers = any(coolers.map(|state| state.map(|state| state > 0)));
        let package = self.package.as_mut();
        let package = package.and_then(|counter| counter.sample(buffer));
        let currents = self.over_current.iter_mut();
        let over_current =
            any(currents.map(|counter| counter.sample(buffer).map(|(_, grew)| grew)));
        let events = self.under_voltage.as_mut();
        let events = events.and_then(|counter| counter.sample(buffer));
        let alarm = self.voltage_alarm.as_ref();
        let alarm = alarm.and_then(|probe| probe.number::<u32>(buffer));
        let alarm = alarm.map(|alarm| alarm != 0);
        let under_voltage = any([has(1), events.map(|(_, grew)| grew), alarm]);
        let had = any([
            has(1 << 16),
            events.map(|(count, _)| count > 0),
            under_voltage,
        ]);
        reading.throttling = Throttling {
            thermal: any([coolers, package.map(|(_, grew)| grew), by_heat]),
            over_current,
            under_voltage,
            // An alarm that is over was not counted by anyone else.
            had_under_voltage: any([had, reading.throttling.had_under_voltage]),
        };
    }
}

/// Whether any answer is yes; `None` if there is no answer.
fn any(answers: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    answers.into_iter().flatten().reduce(|a, b| a || b)
}

fn find_coolers(root: &Path) -> Vec<Probe> {
    let folders = numbered(
        &root.join("sys/class/thermal"),
        "cooling_device",
        MAX_COOLERS,
    );
    let slows = |folder: &PathBuf| {
        let kind = read_text(folder, "type").unwrap_or_default();
        SLOWING.iter().any(|begin| kind.starts_with(begin)) || kind.ends_with(ALERT)
    };
    let folders = folders.into_iter().filter(slows);
    folders
        .filter_map(|folder| Probe::find(folder.join("cur_state")))
        .collect()
}

/// Finds the flags of a Raspberry Pi, below `soc` or `soc@…`.
fn find_firmware(root: &Path) -> Option<Probe> {
    let is_named = |path: &PathBuf, part: &str| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.contains(part))
    };
    let chips = entries(&root.join("sys/devices/platform")).filter(|path| is_named(path, "soc"));
    let folders = chips.flat_map(|chip| entries(&chip));
    let mut firmware = folders.filter(|path| is_named(path, "firmware"));
    firmware.find_map(|folder| Probe::find(folder.join("get_throttled")))
}

/// Parses hexadecimal flags, with or without `0x`.
fn parse_flags(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}
