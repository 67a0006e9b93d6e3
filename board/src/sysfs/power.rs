//! Power rails of INA3221 monitors, and the power mode of a Jetson.
//!
//! - Rails are looked for once; channels that are not connected are left out.
//! - The power of the board is that of its input rail, or the sum of known rails. Another set of
//!   rails gives none, because a sum of some would be too low.
//! - The mode is read from `nvpmodel`'s files; nothing here changes it.

use std::path::Path;
use std::sync::Arc;

use super::hwmon;
use super::probe::{Buffer, Probe};
use crate::read_text;
use crate::reading::{FasterMode, PowerMode, Rail, RailValue, Reading, Sensed};
use crate::units::{Milliamps, Millivolts, Milliwatts};

/// Chip of the power monitors, with three channels each. Channel 7 is a sum of shunt voltages.
const MONITOR: &str = "ina3221";

const CHANNELS: std::ops::RangeInclusive<u32> = 1..=3;

/// Label of a channel that is not connected.
const NOT_CONNECTED: &str = "NC";

/// Rail that feeds the whole module.
const INPUT: &str = "VDD_IN";

/// Rails that together feed the module, where none does alone: AGX Orin and AGX Xavier (Jetson
/// Linux Developer Guide, "Software-Based Power Consumption Modeling").
const INPUTS: [&[&str]; 2] = [
    &[
        "VDD_GPU_SOC",
        "VDD_CPU_CV",
        "VIN_SYS_5V0",
        "VDDQ_VDD2_1V8AO",
    ],
    &["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"],
];

/// File in which `nvpmodel` keeps the current mode, as `pmode:0002`.
const MODE: &str = "var/lib/nvpmodel/status";

/// Modes of the board, as lines `< POWER_MODEL ID=2 NAME=MAXN_SUPER >`.
const MODES: &str = "etc/nvpmodel.conf";

#[derive(Debug)]
pub(super) struct PowerProbes {
    /// Voltage and current in the order of the rails.
    rails: Vec<[Probe; 2]>,
    /// Places in `rails` whose sum is the power of the board.
    total: Vec<usize>,
    mode: Probe,
    modes: Vec<FasterMode>,
}

impl PowerProbes {
    pub(super) fn find(root: &Path, reading: &mut Reading) -> Self {
        let mut rails = Vec::new();
        for chip in hwmon::chips(root)
            .iter()
            .filter(|chip| chip.name == MONITOR)
        {
            for channel in CHANNELS {
                let file = |name: String| Probe::find(chip.folder.join(name));
                let label = read_text(&chip.folder, &format!("in{channel}_label"));
                let (Some(label), Some(voltage), Some(current)) = (
                    label.filter(|label| label != NOT_CONNECTED),
                    file(format!("in{channel}_input")),
                    file(format!("curr{channel}_input")),
                ) else {
                    continue;
                };
                rails.push([voltage, current]);
                reading.power.rails.push(Rail {
                    name: label.into(),
                    sensed: Sensed::Absent,
                });
            }
        }
        let modes = read_text(root, MODES).unwrap_or_default();
        Self {
            total: total_of(&reading.power.rails),
            rails,
            mode: Probe::at(root.join(MODE)),
            modes: modes.lines().filter_map(parse_mode).collect(),
        }
    }

    pub(super) fn sample(&self, reading: &mut Reading, buffer: &mut Buffer) {
        let (now, power) = (reading.at, &mut reading.power);
        for ([voltage, current], rail) in self.rails.iter().zip(&mut power.rails) {
            let mut value = || {
                Some(RailValue {
                    voltage: Millivolts(voltage.number(buffer)?),
                    current: Milliamps(current.number(buffer)?),
                })
            };
            rail.sensed.update(value(), now);
        }
        let values = self.total.iter().map(|place| {
            let rail = power.rails.get(*place)?;
            Some(rail.sensed.value()?.power().0)
        });
        let is_measured = !self.total.is_empty();
        power.total = values
            .sum::<Option<f64>>()
            .filter(|_| is_measured)
            .map(Milliwatts);
        let text = self.mode.text(buffer);
        let id = text.and_then(|text| text.strip_prefix("pmode:")?.parse().ok());
        if id != power.mode.as_ref().map(|mode| mode.id) {
            power.mode = id.map(|id| self.mode(id));
        }
    }

    fn mode(&self, id: u32) -> PowerMode {
        let current = self.modes.iter().find(|mode| mode.id == id);
        let fastest = self
            .modes
            .iter()
            .max_by_key(|mode| (speed(&mode.name), mode.id == id));
        PowerMode {
            id,
            name: current.map(|mode| Arc::clone(&mode.name)),
            // Of a mode that is not listed, nothing can be said.
            faster: fastest
                .filter(|mode| current.is_some() && mode.id != id)
                .cloned(),
        }
    }
}

/// Places of the rails whose sum is the power of the board; empty if that is not known.
fn total_of(rails: &[Rail]) -> Vec<usize> {
    let places = |names: &[&str]| -> Option<Vec<usize>> {
        let place = |name: &&str| rails.iter().position(|rail| &*rail.name == *name);
        names.iter().map(place).collect()
    };
    let sum = || INPUTS.iter().find_map(|names| places(names));
    places(&[INPUT]).or_else(sum).unwrap_or_default()
}

fn parse_mode(line: &str) -> Option<FasterMode> {
    let rest = line.trim().strip_prefix("< POWER_MODEL ID=")?;
    let (id, rest) = rest.split_once(" NAME=")?;
    let name = rest
        .split([' ', '>'])
        .next()
        .filter(|name| !name.is_empty())?;
    Some(FasterMode {
        id: id.trim().parse().ok()?,
        name: name.into(),
    })
}

/// Rank of a mode by its name: unlimited modes first, then the number of watts.
fn speed(name: &str) -> u32 {
    match name {
        "MAXN_SUPER" => return u32::MAX,
        "MAXN" => return u32::MAX - 1,
        _ => {}
    }
    let parts = name.split('_');
    let watts = parts.filter_map(|part| part.strip_suffix('W')?.parse().ok());
    watts.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fastest_mode_is_not_the_one_with_the_highest_number() {
        let names = ["7W", "MODE_15W_6CORE", "25W", "MAXN", "MAXN_SUPER"];
        assert!(names.map(speed).is_sorted());
        assert_eq!(speed("QUIET"), 0);
    }

    #[test]
    fn only_definitions_are_modes() {
        let mode = parse_mode("< POWER_MODEL ID=2 NAME=MAXN_SUPER >");
        assert_eq!(
            mode.map(|mode| (mode.id, mode.name.to_string())),
            Some((2, "MAXN_SUPER".into()))
        );
        for line in [
            "# < POWER_MODEL ID=2 NAME=X >",
            "< POWER_MODEL ID=x NAME=X >",
            "",
            "< POWER_MODEL ID=1 NAME=>",
        ] {
            assert_eq!(parse_mode(line), None, "{line}");
        }
    }
}
