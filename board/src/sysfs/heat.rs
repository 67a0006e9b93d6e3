//! Thermal zones, and the processor sensor of AMD, which has no zone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::hwmon;
use super::probe::{Buffer, Probe, numbered};
use crate::read_text;
use crate::reading::{Reading, Sensed, Temperature};
use crate::units::Celsius;

/// Largest number of zones; an AGX Orin has ten.
const MAX_ZONES: usize = 32;

/// Largest number of trip points of a zone (`THERMAL_MAX_TRIPS` of Linux).
const MAX_TRIPS: usize = 12;

/// Chips of hardware monitoring whose first sensor is the temperature of the processor.
const PROCESSOR_CHIPS: [&str; 1] = ["k10temp"];

/// Probes in the order of [`Reading::temperatures`].
#[derive(Debug)]
pub(super) struct Zones(Vec<Probe>);

impl Zones {
    /// Finds the zones of the board; disabled ones never answer.
    pub(super) fn find(root: &Path, reading: &mut Reading) -> Self {
        let mut found: Vec<(Temperature, Probe)> = Vec::new();
        let mut add = |name: Option<String>, probe: Option<Probe>, trips: [Option<Celsius>; 2]| {
            let Some(probe) = probe else { return };
            let [throttles_at, critical_at] = trips;
            let zone = Temperature {
                name: name.map_or_else(|| Arc::from("unnamed"), Arc::from),
                sensed: Sensed::Absent,
                throttles_at,
                critical_at,
            };
            found.push((zone, probe));
        };
        for folder in numbered(&root.join("sys/class/thermal"), "thermal_zone", MAX_ZONES) {
            let trips = ["passive", "critical"].map(|kind| lowest_trip(&folder, kind));
            add(
                read_text(&folder, "type"),
                Probe::find(folder.join("temp")),
                trips,
            );
        }
        for chip in hwmon::chips(root) {
            if PROCESSOR_CHIPS.contains(&chip.name.as_str()) {
                let probe = Probe::find(chip.folder.join("temp1_input"));
                add(Some(chip.name), probe, [None, None]);
            }
        }
        found.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let (zones, probes) = found.into_iter().unzip();
        reading.temperatures = zones;
        Self(probes)
    }

    pub(super) fn sample(&self, reading: &mut Reading, buffer: &mut Buffer) {
        let now: Duration = reading.at;
        for (probe, zone) in self.0.iter().zip(&mut reading.temperatures) {
            let answer = probe.number(buffer).and_then(Celsius::from_millidegrees);
            zone.sensed.update(answer, now);
        }
    }
}

/// The lowest trip point of this kind; trips that are switched off are zero or below.
fn lowest_trip(zone: &Path, kind: &str) -> Option<Celsius> {
    let trip = |number: usize| {
        let is_kind = read_text(zone, &format!("trip_point_{number}_type"))? == kind;
        let text = read_text(zone, &format!("trip_point_{number}_temp"))?;
        let value = Celsius::from_millidegrees(text.parse().ok()?)?;
        (is_kind && value.0 > 0.0).then_some(value.0)
    };
    let lowest = (0..MAX_TRIPS).filter_map(trip).min_by(f64::total_cmp);
    lowest.map(Celsius)
}
