//! Metrics that are read at a scrape: states, sizes, and counts that others keep.
//!
//! - A [`Scrape`] is one reading: a source, pipeline or sensor that is gone has no series.
//! - The number of series is bounded by the owners of the names. A sensor that does not answer has
//!   none.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use watchkeeper_board::reading::Reading;
use watchkeeper_board::units::Percent;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::LookRate;
use watchkeeper_contract::source::{Blindness, SourceState, SourceStatus};
use watchkeeper_contract::spool::EffectCounts;

use crate::capture;
use crate::journal::Journal;
use crate::journal::media::MediaStore;

/// Prefix of every name.
pub(super) const PREFIX: &str = "watchkeeper";
/// States of a source. Each has a gauge, which is 0 unless it is the current state.
const SOURCE_STATES: [&str; 6] = ["connecting", "live", "lost", "ended", "failed", "idle"];

/// Causes of a blind source, likewise.
const BLINDNESS: [Blindness; 5] = [
    Blindness::Frozen,
    Blindness::Black,
    Blindness::Moved,
    Blindness::Covered,
    Blindness::Blurred,
];

type Labels = Vec<(&'static str, String)>;
type Numbers = Family<Labels, Gauge<f64, AtomicU64>>;

/// The metrics of one scrape.
#[derive(Debug)]
pub struct Scrape {
    pub(super) registry: Registry,
}

impl Default for Scrape {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let hanging = i64::try_from(capture::hanging_teardowns()).unwrap_or(i64::MAX);
        registry.register(
            "hanging_teardowns",
            "Stopped GStreamer pipelines that hang and keep their threads and memory",
            ConstGauge::new(hanging),
        );
        Self { registry }
    }
}

impl Scrape {
    /// Adds the state of each source, and what decodes it.
    pub fn add_sources(&mut self, sources: &[SourceStatus]) {
        let states = self.gauges("source_state", "1 for the state a source is in");
        let blind = self.gauges(
            "source_blind",
            "1 for the cause for which a live source does not show what it should",
        );
        let decoders = self.gauges(
            "source_hardware_decoder",
            "1 for a source that hardware decodes, 0 for one that the processor decodes",
        );
        for source in sources {
            let id = ("source", source.spec.id.to_string());
            let now = source.state.name();
            for state in SOURCE_STATES {
                let labels = vec![id.clone(), ("state", state.to_owned())];
                let is_now = i64::from(state == now);
                states.get_or_create(&labels).set(is_now);
            }
            for how in BLINDNESS {
                let labels = vec![id.clone(), ("cause", how.name().to_owned())];
                let is_now = source.state == SourceState::Live { blind: Some(how) };
                blind.get_or_create(&labels).set(i64::from(is_now));
            }
            if let Some(decoder) = &source.decoder {
                let is_hardware = i64::from(decoder.hardware);
                decoders.get_or_create(&vec![id]).set(is_hardware);
            }
        }
    }

    fn gauges(&mut self, name: &str, help: &str) -> Family<Labels, Gauge> {
        let family = Family::default();
        self.registry.register(name, help, family.clone());
        family
    }

    /// Adds the frames a second that each pipeline looks at, and would look at.
    pub fn add_looks<'a>(
        &mut self,
        rates: impl Iterator<Item = (&'a PipelineId, LookRate)> + Clone,
    ) {
        let looked = rates
            .clone()
            .map(|(id, rate)| (id.as_str(), Some(rate.looked_fps)));
        let wanted = rates.map(|(id, rate)| (id.as_str(), Some(rate.wanted_fps)));
        self.registry.register(
            "pipeline_looked_fps",
            "Frames a second that a pipeline looks at",
            numbers("pipeline", looked),
        );
        self.registry.register(
            "pipeline_wanted_fps",
            "Frames a second that a pipeline would look at without limits",
            numbers("pipeline", wanted),
        );
    }

    /// Adds the frames that each pipeline processed. One that is deployed again counts from zero.
    pub fn add_frames<'a>(&mut self, pipelines: impl Iterator<Item = (&'a PipelineId, u64)>) {
        let frames = Family::<Labels, Counter>::default();
        for (id, count) in pipelines {
            let labels = vec![("pipeline", id.to_string())];
            frames.get_or_create(&labels).inc_by(count);
        }
        self.registry.register(
            "pipeline_frames",
            "Frames that a pipeline processed; others of its source were dropped or left out on purpose",
            frames,
        );
    }

    /// Adds the number of events that were lost since the start, and whether events wait for the
    /// disk.
    pub fn add_recorder(&mut self, lost: u64, has_trouble: bool) {
        self.registry.register(
            "events_lost",
            "Events that are not in the journal, which mostly counts them in loss records: they could not be stored, or too many waited",
            ConstCounter::new(lost),
        );
        self.registry.register(
            "storage_trouble",
            "1 while events wait because they cannot be stored",
            ConstGauge::new(i64::from(has_trouble)),
        );
    }

    /// Adds the counts of the effects spool.
    pub fn add_effects(&mut self, counts: &EffectCounts) {
        let own = self.registry.sub_registry_with_prefix("effects");
        for (name, help, value) in [
            ("waiting", "Effects that wait for the agent", counts.waiting),
            ("waiting_bytes", "Bytes of these", counts.waiting_bytes),
        ] {
            own.register(name, help, ConstGauge::new(value));
        }
        for (name, help, value) in [
            ("taken", "Effects accepted from steps", counts.taken),
            (
                "refused",
                "Effects that were not allowed or did not fit",
                counts.refused,
            ),
            ("done", "Effects executed", counts.done),
            ("failed", "Effects given up", counts.failed),
        ] {
            own.register(name, help, ConstCounter::new(value));
        }
    }

    /// Adds the numbers of the journal and of its media.
    pub fn add_journal(&mut self, journal: &Journal, media: &MediaStore) {
        let (head, stats) = (journal.head(), journal.stats());
        let own = self.registry.sub_registry_with_prefix("journal");
        for (name, help, value) in [
            ("last_seq", "Number of the last record", head.last.0),
            (
                "first_seq",
                "Number from which no record is missing",
                head.first.0,
            ),
            ("records", "Records in the journal", stats.records),
            ("bytes", "Bytes of these records", stats.bytes),
            (
                "reviews_waiting",
                "Events that wait for a person",
                stats.reviews_waiting,
            ),
            (
                "reviews_given_up",
                "Events that left the queue of reviews without an answer",
                stats.reviews_given_up,
            ),
            ("media_bytes", "Bytes of media", media.bytes()),
        ] {
            own.register(name, help, ConstGauge::new(value));
        }
        match journal.size_on_disk() {
            Ok(bytes) => {
                let help = "Bytes of the journal's files";
                own.register("disk_bytes", help, ConstGauge::new(bytes));
            }
            Err(error) => tracing::warn!(%error, "cannot measure the journal"),
        }
        for (name, help, value) in [
            ("appended", "Records appended", stats.appended),
            ("failed", "Failed appends", stats.failed),
            ("dropped", "Records deleted by retention", stats.dropped),
            (
                "assessments",
                "Assessments recorded, by people and second opinions",
                stats.assessments,
            ),
            (
                "media_dropped",
                "Media deleted by retention",
                media.deleted(),
            ),
        ] {
            own.register(name, help, ConstCounter::new(value));
        }
    }

    pub fn add_board(&mut self, reading: &Reading, age: Duration) {
        let own = self.registry.sub_registry_with_prefix("board");
        add_sensors(own, reading);
        add_use(own, reading);
        own.register(
            "sample_age_seconds",
            "Seconds since the sensors were read",
            ConstGauge::new(age.as_secs_f64()),
        );
    }
}

/// Adds temperatures, power and fans.
fn add_sensors(to: &mut Registry, reading: &Reading) {
    let mut add = |name: &str, help: &str, sensors: Vec<(&str, Option<f64>)>| {
        to.register(name, help, numbers("sensor", sensors));
    };
    let zones = reading.temperatures.iter();
    add(
        "temperature_celsius",
        "Temperatures of thermal zones",
        zones
            .map(|zone| (&*zone.name, zone.value().map(|c| c.0)))
            .collect(),
    );
    let rails = reading.power.rails.iter();
    let rails = rails.map(|rail| (&*rail.name, rail.sensed.value().map(|v| v.power().watts())));
    let total = reading.power.total.map(|total| total.watts());
    add(
        "power_watts",
        "Power of rails, and of the board as `total`",
        rails.chain([("total", total)]).collect(),
    );
    add(
        "fan_rpm",
        "Revolutions of fans in a minute",
        reading
            .fans
            .iter()
            .map(|fan| (&*fan.name, fan.speed.map(|speed| f64::from(speed.0))))
            .collect(),
    );
}

/// Adds load, memory, pressure, throttling and the life time of drives.
fn add_use(to: &mut Registry, reading: &Reading) {
    let mut add = |name: &str, help: &str, sensors: Vec<(&str, Option<f64>)>| {
        to.register(name, help, numbers("sensor", sensors));
    };
    let ratio = |share: Percent| share.0 / 100.0;
    add(
        "load_ratio",
        "Load of `cpu` and `gpu`, 0 to 1",
        vec![
            ("cpu", reading.load.cpu.map(ratio)),
            ("gpu", reading.load.gpu.map(ratio)),
        ],
    );
    let memory = reading.memory;
    add(
        "memory_bytes",
        "Memory in all (`total`) and `available`",
        vec![
            ("total", memory.map(|memory| memory.total.0 as f64)),
            ("available", memory.map(|memory| memory.available.0 as f64)),
        ],
    );
    let pressure = &reading.pressure;
    add(
        "pressure_ratio",
        "Share of 10 s in which a task waited, 0 to 1",
        vec![
            ("cpu", pressure.cpu.map(ratio)),
            ("memory", pressure.memory.map(ratio)),
            ("io", pressure.io.map(ratio)),
        ],
    );
    let flag = |is_active: bool| f64::from(u8::from(is_active));
    let throttling = &reading.throttling;
    add(
        "throttled",
        "1 while this cause slows the board down",
        vec![
            ("thermal", throttling.thermal.map(flag)),
            ("over_current", throttling.over_current.map(flag)),
            ("under_voltage", throttling.under_voltage.map(flag)),
        ],
    );
    let drives = reading.drives.iter();
    add(
        "drive_life_used_ratio",
        "Life time of a drive that is used",
        drives.map(|d| (&*d.name, d.life_used.map(ratio))).collect(),
    );
}

/// Returns the gauges of the values that are known, of one name the highest.
fn numbers<'a>(
    label: &'static str,
    values: impl IntoIterator<Item = (&'a str, Option<f64>)>,
) -> Numbers {
    let numbers = Numbers::default();
    let mut highest: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, value) in values {
        if let Some(value) = value {
            let known = highest.entry(name).or_insert(value);
            *known = known.max(value);
        }
    }
    for (name, value) in highest {
        let labels = vec![(label, name.to_owned())];
        numbers.get_or_create(&labels).set(value);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::board::tests::reading;

    fn text(reading: &Reading) -> String {
        let mut scrape = Scrape::default();
        scrape.add_board(reading, Duration::from_secs(1));
        let mut text = String::new();
        encode(&mut text, &scrape.registry).expect("text takes all of it");
        text
    }

    #[test]
    fn hottest_of_sensors_with_one_name_is_shown() {
        let hot = numbers(
            "sensor",
            [("a", Some(70.0)), ("a", Some(50.0)), ("b", None)],
        );
        let shown = |sensor: &str| {
            let labels = vec![("sensor", sensor.to_owned())];
            hot.get(&labels).map(|gauge| gauge.get())
        };
        assert_eq!((shown("a"), shown("b")), (Some(70.0), None));
    }

    #[test]
    fn silent_sensor_has_no_series() {
        let mut reading = reading();
        let answering = text(&reading);
        let zone = "watchkeeper_board_temperature_celsius{sensor=\"cpu-thermal\"} 40.0";
        assert!(answering.contains(zone), "{answering}");
        assert!(answering.contains("watchkeeper_board_power_watts{sensor=\"total\"} 5.0"));
        assert!(answering.contains("watchkeeper_board_throttled{sensor=\"thermal\"} 0.0"));
        assert!(answering.contains("watchkeeper_board_sample_age_seconds 1.0"));
        let sensed = &mut reading.temperatures[0].sensed;
        sensed.update(None, Duration::from_secs(2));
        assert!(!text(&reading).contains("cpu-thermal"));
    }
}
