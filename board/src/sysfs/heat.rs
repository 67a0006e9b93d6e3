//! Thermal zones, and the processor sensor of AMD, which has no zone.
//!
//! - Zones and their trip points are looked for once; a sample reads temperatures only.
//! - A zone that is switched off is absent; one that does not answer is silent.
//! - At most [`MAX_ZONES`] zones, in the order of their names.
//! - Not here: what a temperature means for the load (the runtime's `load`).

use std::io;
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

/// Highest value of a zone without power, in millidegrees; a Jetson's have −256 °C.
const POWERED_OFF: f64 = -250_000.0;

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
            zone.sensed.update_from(probe.read(buffer), now);
        }
    }
}

impl Sensed<Celsius> {
    /// Stores the answer of a zone at `now`: EAGAIN and values up to [`POWERED_OFF`] mean that it
    /// is switched off.
    fn update_from(&mut self, answer: io::Result<&str>, now: Duration) {
        let is_off = match answer {
            Ok(text) => text.parse().is_ok_and(|value: f64| value <= POWERED_OFF),
            Err(ref error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if is_off {
            *self = Self::Absent;
            return;
        }
        let value = answer.ok().and_then(|text| text.parse().ok());
        self.update(value.and_then(Celsius::from_millidegrees), now);
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(9);

    fn after(answer: io::Result<&str>) -> Sensed<Celsius> {
        let mut sensed = Sensed::Value(Celsius(50.0));
        sensed.update_from(answer, NOW);
        sensed
    }

    #[test]
    fn zone_without_power_is_absent() {
        let again = io::Error::from_raw_os_error(libc::EAGAIN);
        assert_eq!(after(Err(again)), Sensed::Absent);
        assert_eq!(after(Ok("-256000")), Sensed::Absent);
    }

    #[test]
    fn zone_that_fails_is_silent() {
        let silent = Sensed::Silent { since: NOW };
        let failed = io::Error::from_raw_os_error(libc::EIO);
        assert_eq!(after(Err(failed)), silent);
        for text in ["", "hot", "900000"] {
            assert_eq!(after(Ok(text)), silent, "{text}");
        }
        assert_eq!(after(Ok("51000")), Sensed::Value(Celsius(51.0)));
    }
}
