//! Gauges of the board. A sensor that does not answer has no series.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use watchkeeper_board::reading::Reading;
use watchkeeper_board::units::Percent;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SensorLabels {
    sensor: String,
}

/// Gauges by sensor.
#[derive(Debug, Default)]
struct Gauges {
    family: Family<SensorLabels, Gauge<f64, AtomicU64>>,
    /// Sensors with a series.
    shown: Mutex<BTreeSet<String>>,
}

/// The gauges by quantity; a board has a bounded number of sensors.
#[derive(Debug, Default)]
pub(super) struct BoardGauges {
    temperature: Gauges,
    power: Gauges,
    fan: Gauges,
    load: Gauges,
    memory: Gauges,
    pressure: Gauges,
    throttled: Gauges,
    life_used: Gauges,
    age: Gauge<f64, AtomicU64>,
}

impl BoardGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = registry.sub_registry_with_prefix("board");
        let new = Self::default();
        for (name, help, gauges) in [
            (
                "temperature_celsius",
                "Temperatures of thermal zones",
                &new.temperature,
            ),
            (
                "power_watts",
                "Power of rails, and of the board as `total`",
                &new.power,
            ),
            ("fan_rpm", "Revolutions of fans in a minute", &new.fan),
            ("load_ratio", "Load of `cpu` and `gpu`, 0 to 1", &new.load),
            (
                "memory_bytes",
                "Memory in all (`total`) and `available`",
                &new.memory,
            ),
            (
                "pressure_ratio",
                "Share of 10 s in which a task waited, 0 to 1",
                &new.pressure,
            ),
            (
                "throttled",
                "1 while this cause slows the board down",
                &new.throttled,
            ),
            (
                "drive_life_used_ratio",
                "Life time of a drive that is used",
                &new.life_used,
            ),
        ] {
            own.register(name, help, gauges.family.clone());
        }
        own.register(
            "sample_age_seconds",
            "Seconds since the sensors were read",
            new.age.clone(),
        );
        new
    }

    /// Sets all gauges to a reading.
    pub(super) fn set(&self, reading: &Reading, age: Duration) {
        let ratio = |share: Percent| share.0 / 100.0;
        let zones = reading.temperatures.iter();
        replace(
            &self.temperature,
            zones.map(|zone| (&*zone.name, zone.value().map(|c| c.0))),
        );
        let rails = reading.power.rails.iter();
        let rails = rails.map(|rail| (&*rail.name, rail.sensed.value().map(|v| v.power().watts())));
        let total = reading.power.total.map(|total| total.watts());
        replace(&self.power, rails.chain([("total", total)]));
        let fans = reading.fans.iter();
        replace(
            &self.fan,
            fans.map(|fan| (&*fan.name, fan.speed.map(|speed| f64::from(speed.0)))),
        );
        let load = &reading.load;
        replace(
            &self.load,
            [("cpu", load.cpu.map(ratio)), ("gpu", load.gpu.map(ratio))],
        );
        let memory = reading.memory;
        let bytes = [
            ("total", memory.map(|memory| of_bytes(memory.total.0))),
            (
                "available",
                memory.map(|memory| of_bytes(memory.available.0)),
            ),
        ];
        replace(&self.memory, bytes);
        let pressure = &reading.pressure;
        let shares = [
            ("cpu", pressure.cpu),
            ("memory", pressure.memory),
            ("io", pressure.io),
        ];
        replace(
            &self.pressure,
            shares.map(|(name, share)| (name, share.map(ratio))),
        );
        let throttling = &reading.throttling;
        let causes = [
            ("thermal", throttling.thermal),
            ("over_current", throttling.over_current),
            ("under_voltage", throttling.under_voltage),
        ];
        let flag = |is_active: bool| f64::from(u8::from(is_active));
        replace(
            &self.throttled,
            causes.map(|(name, state)| (name, state.map(flag))),
        );
        let drives = reading.drives.iter();
        replace(
            &self.life_used,
            drives.map(|d| (&*d.name, d.life_used.map(ratio))),
        );
        self.age.set(age.as_secs_f64());
    }
}

/// Replaces the series by the values that are known, of one name the highest. A series that stays
/// is never missing from a scrape at the same time.
fn replace<'a>(gauges: &Gauges, values: impl IntoIterator<Item = (&'a str, Option<f64>)>) {
    let mut highest: BTreeMap<&str, f64> = BTreeMap::new();
    for (sensor, value) in values {
        if let Some(value) = value {
            let known = highest.entry(sensor).or_insert(value);
            *known = known.max(value);
        }
    }
    let mut shown = gauges.shown.lock();
    shown.retain(|sensor| {
        let stays = highest.contains_key(sensor.as_str());
        if !stays {
            let sensor = sensor.clone();
            gauges.family.remove(&SensorLabels { sensor });
        }
        stays
    });
    for (sensor, value) in highest {
        let sensor = sensor.to_owned();
        shown.insert(sensor.clone());
        gauges
            .family
            .get_or_create(&SensorLabels { sensor })
            .set(value);
    }
}

fn of_bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    use crate::board::tests::reading;

    #[test]
    fn hottest_of_sensors_with_one_name_is_shown() {
        let gauges = Gauges::default();
        let shown = |sensor: &str| {
            let sensor = sensor.to_owned();
            gauges
                .family
                .get(&SensorLabels { sensor })
                .map(|gauge| gauge.get())
        };
        replace(
            &gauges,
            [("a", Some(70.0)), ("a", Some(50.0)), ("b", Some(1.0))],
        );
        assert_eq!((shown("a"), shown("b")), (Some(70.0), Some(1.0)));
        replace(&gauges, [("a", Some(60.0)), ("b", None)]);
        assert_eq!((shown("a"), shown("b")), (Some(60.0), None));
    }

    #[test]
    fn silent_sensor_has_no_series() {
        let mut registry = Registry::with_prefix("watchkeeper");
        let gauges = BoardGauges::register(&mut registry);
        let text = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).unwrap();
            text
        };
        let mut reading = reading();
        gauges.set(&reading, Duration::from_secs(1));
        let answering = text(&registry);
        let zone = "watchkeeper_board_temperature_celsius{sensor=\"cpu-thermal\"} 40.0";
        assert!(answering.contains(zone), "{answering}");
        assert!(answering.contains("watchkeeper_board_power_watts{sensor=\"total\"} 5.0"));
        assert!(answering.contains("watchkeeper_board_throttled{sensor=\"thermal\"} 0.0"));
        assert!(answering.contains("watchkeeper_board_sample_age_seconds 1.0"));
        let sensed = &mut reading.temperatures[0].sensed;
        sensed.update(None, Duration::from_secs(2));
        gauges.set(&reading, Duration::ZERO);
        assert!(!text(&registry).contains("cpu-thermal"));
    }
}
