//! Reads temperatures from the kernel's thermal zones.

use std::path::Path;

use serde::Serialize;

use crate::read_text;
use crate::units::Celsius;

/// One thermal zone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Zone {
    /// The sensor's name, such as `CPU-therm`.
    pub name: String,
    pub temperature: Celsius,
}

/// Temperatures outside this range come from a broken or disabled sensor: disabled zones of a
/// Jetson report −256 °C.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = -55.0..=150.0;

/// Reads every thermal zone with a plausible temperature, sorted by name. `temp` is in thousandths
/// of a degree Celsius (Linux, `Documentation/driver-api/thermal/sysfs-api.rst`).
#[must_use]
pub fn zones(root: &Path) -> Vec<Zone> {
    let Ok(entries) = std::fs::read_dir(root.join("sys/class/thermal")) else {
        return Vec::new();
    };
    let mut zones: Vec<Zone> = entries
        .filter_map(|entry| {
            let dir = entry.ok()?.path();
            if !dir.file_name()?.to_str()?.starts_with("thermal_zone") {
                return None;
            }
            let millidegrees: f64 = read_text(&dir, "temp")?.parse().ok()?;
            let temperature = millidegrees / 1000.0;
            PLAUSIBLE.contains(&temperature).then(|| Zone {
                name: read_text(&dir, "type").unwrap_or_else(|| "unnamed".to_owned()),
                temperature: Celsius(temperature),
            })
        })
        .collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones
}

/// The hottest zone; `None` when no sensor answers, to be treated as the worst case.
#[must_use]
pub fn hottest(root: &Path) -> Option<Zone> {
    zones(root)
        .into_iter()
        .max_by(|a, b| a.temperature.0.total_cmp(&b.temperature.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::board;

    #[test]
    fn hottest_ignores_implausible_zones() {
        let root = board(&[
            ("sys/class/thermal/thermal_zone0/type", "CPU-therm\n"),
            ("sys/class/thermal/thermal_zone0/temp", "51250\n"),
            ("sys/class/thermal/thermal_zone1/type", "GPU-therm\n"),
            ("sys/class/thermal/thermal_zone1/temp", "48000\n"),
            ("sys/class/thermal/thermal_zone2/type", "off\n"),
            ("sys/class/thermal/thermal_zone2/temp", "-256000\n"),
            ("sys/class/thermal/cooling_device0/temp", "99000\n"),
        ]);
        let hottest = hottest(root.path());
        let expected = Zone {
            name: "CPU-therm".to_owned(),
            temperature: Celsius(51.25),
        };
        assert_eq!(hottest, Some(expected));
        assert_eq!(zones(root.path()).len(), 2);
    }

    #[test]
    fn a_box_without_sensors_has_no_temperature() {
        assert_eq!(hottest(board(&[]).path()), None);
        let broken = board(&[("sys/class/thermal/thermal_zone0/temp", "hot")]);
        assert_eq!(hottest(broken.path()), None);
    }
}
