//! Metrics of the runtime in the OpenMetrics text format.
//!
//! - [`Metrics`] counts what happens, when it happens; a [`Scrape`] reads what others know.
//! - A family has at most [`MAX_SERIES`] label sets. More are counted under `other`, so that
//!   arbitrary names cannot grow the memory.

mod bounded;
mod scrape;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use watchkeeper_contract::event::{ClipState, Decision};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::source::{SourceCounters, SourceStatus};

pub use self::bounded::MAX_SERIES;
use self::bounded::{Bounded, Labels};
use self::scrape::PREFIX;
pub use self::scrape::Scrape;
use crate::load::Level;

/// MIME type of the text of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds: from a pre-processing step to a large model on a small board.
const BUCKETS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

/// Upper bounds of confidences: in tenths, finer around the usual gates.
const CONFIDENCES: [f64; 13] = [
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0,
];

/// Final states of clips.
const CLIP_STATES: [&str; 2] = ["kept", "lost"];

/// All metrics. An update takes a read lock and an atomic addition.
/// [`Metrics::count_sources`] takes a mutex, once a scrape.
pub struct Metrics {
    registry: Registry,
    /// Counters of each source when they were counted last.
    counted: Mutex<BTreeMap<SourceId, SourceCounters>>,
    frames: Bounded<1, Counter>,
    dropped: Bounded<2, Counter>,
    lost_packets: Bounded<1, Counter>,
    inference: Bounded<1, Histogram>,
    stages: Bounded<1, Histogram>,
    events: Family<Labels<1>, Counter>,
    confidence: Histogram,
    step_errors: Bounded<2, Counter>,
    backend_changes: Bounded<3, Counter>,
    clips: Family<Labels<1>, Counter>,
    clip_pictures_left_out: Counter,
    load_level: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn register_counters<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> Bounded<N, Counter> {
    let family = Bounded::new(Counter::default);
    registry.register(name, help, family.family());
    family
}

fn register_seconds(registry: &mut Registry, name: &str, help: &str) -> Bounded<1, Histogram> {
    let family = Bounded::new(|| Histogram::new(BUCKETS));
    registry.register_with_unit(name, help, Unit::Seconds, family.family());
    family
}

/// Clips by final state; both series exist from the start, so that the first loss is an increase.
fn clip_family() -> Family<Labels<1>, Counter> {
    let clips = Family::<Labels<1>, Counter>::default();
    for state in CLIP_STATES {
        drop(clips.get_or_create(&[("state", state.into())]));
    }
    clips
}

impl Metrics {
    /// Registers all metrics at zero.
    pub fn new() -> Self {
        let mut root = Registry::with_prefix(PREFIX);
        let to = &mut root;
        Self {
            counted: Mutex::default(),
            frames: register_counters(to, "frames", "Frames from decoders"),
            dropped: register_counters(
                to,
                "frames_dropped",
                "Frames dropped, by place: `slot`, for a newer one; `decoder`, without a picture",
            ),
            lost_packets: register_counters(
                to,
                "packets_lost",
                "Packets that the network lost on the way from a camera (RTSP)",
            ),
            inference: register_seconds(
                to,
                "inference",
                "Time in a model or in the motion detector, without pre- and post-processing",
            ),
            stages: register_seconds(
                to,
                "stage",
                "Time of a frame in one stage; `pipeline` is all of them but `wait`",
            ),
            events: register(to, "events", "Events, by verdict", Family::default()),
            confidence: register(
                to,
                "event_confidence",
                "Confidence of events, before any assessment",
                Histogram::new(CONFIDENCES),
            ),
            step_errors: register_counters(to, "step_errors", "Failures of workflow steps"),
            backend_changes: register_counters(
                to,
                "backend_changes",
                "Changes of a model's back end, by result",
            ),
            clips: register(
                to,
                "clips",
                "Clips of events, by final state; a shared clip counts for each event",
                clip_family(),
            ),
            clip_pictures_left_out: register(
                to,
                "clip_pictures_left_out",
                "Pictures missing in clips: the source lost them, or encoder or disk was too slow",
                Counter::default(),
            ),
            load_level: register(
                to,
                "load_level",
                "Level of shedding by heat",
                Gauge::default(),
            ),
            registry: root,
        }
    }

    /// Sets the level of shedding.
    pub fn set_load_level(&self, level: Level) {
        self.load_level.set(level.number().into());
    }

    /// Counts what the counters of the sources grew by since the last call; returns the sources.
    ///
    /// `read` runs under a lock: of two calls at a time, none counts an older reading after a newer
    /// one, which would count frames twice.
    pub fn count_sources(&self, read: impl FnOnce() -> Vec<SourceStatus>) -> Vec<SourceStatus> {
        let mut counted = self.counted.lock();
        let sources = read();
        for source in &sources {
            let (id, now) = (&source.spec.id, source.counters);
            let seen = counted.entry(id.clone()).or_default();
            self.add_growth(id, seen, now);
            *seen = now;
        }
        sources
    }

    /// Counts what a source that is closed has grown by since the last call of
    /// [`Self::count_sources`]. `replace` removes it from the table and returns it with its last
    /// counters; another source of its name counts from zero.
    pub fn count_replaced<T>(
        &self,
        id: &SourceId,
        replace: impl FnOnce() -> Option<(T, SourceCounters)>,
    ) -> Option<T> {
        let mut counted = self.counted.lock();
        let (old, last) = replace()?;
        let seen = counted.remove(id).unwrap_or_default();
        self.add_growth(id, &seen, last);
        Some(old)
    }

    fn add_growth(&self, id: &SourceId, seen: &SourceCounters, now: SourceCounters) {
        let source = || ("source", Cow::from(id.to_string()));
        let frames = now.frames.saturating_sub(seen.frames);
        self.frames.metric([source()]).inc_by(frames);
        let packets = now.lost_packets.saturating_sub(seen.lost_packets);
        self.lost_packets.metric([source()]).inc_by(packets);
        for (at, count) in [
            ("slot", now.dropped.saturating_sub(seen.dropped)),
            ("decoder", now.undecoded.saturating_sub(seen.undecoded)),
        ] {
            let labels = [source(), ("at", at.into())];
            self.dropped.metric(labels).inc_by(count);
        }
    }

    /// Records the time of one inference of `model`.
    pub fn observe_inference(&self, model: &str, time: Duration) {
        self.inference
            .metric([("model", model.to_owned().into())])
            .observe(time.as_secs_f64());
    }

    /// Records the time of one frame in `stage`.
    pub fn observe_stage(&self, stage: &'static str, time: Duration) {
        self.stages
            .metric([("stage", stage.into())])
            .observe(time.as_secs_f64());
    }

    pub fn count_event(
        &self,
        Decision {
            verdict,
            confidence,
            ..
        }: &Decision,
    ) {
        self.events
            .get_or_create(&[("verdict", verdict.name().into())])
            .inc();
        self.confidence.observe(*confidence);
    }

    /// Counts a failure of a workflow step.
    pub fn count_step_error(&self, pipeline: &PipelineId, step: &str) {
        let pipeline = ("pipeline", pipeline.to_string().into());
        self.step_errors
            .metric([pipeline, ("step", step.to_owned().into())])
            .inc();
    }

    /// Counts a change of the back end of `model` to `to`, by its result.
    pub fn count_backend_change(&self, model: &str, to: &'static str, result: &'static str) {
        let model = ("model", model.to_owned().into());
        self.backend_changes
            .metric([model, ("to", to.into()), ("result", result.into())])
            .inc();
    }

    /// Counts the clip of an event once it is complete or lost.
    pub fn count_clip(&self, state: &ClipState) {
        let state = match state {
            ClipState::Filming => return,
            ClipState::Kept { .. } => CLIP_STATES[0],
            ClipState::Lost { .. } => CLIP_STATES[1],
        };
        self.clips.get_or_create(&[("state", state.into())]).inc();
    }

    /// Counts pictures that a clip misses.
    pub fn count_clip_pictures_left_out(&self, count: u32) {
        self.clip_pictures_left_out.inc_by(u64::from(count));
    }

    /// Encodes all metrics, with those of a scrape.
    pub fn encode(&self, scrape: &Scrape) -> String {
        let mut text = String::new();
        let counted = encode_registry(&mut text, &self.registry);
        if let Err(error) = counted.and_then(|()| encode(&mut text, &scrape.registry)) {
            tracing::error!(%error, "cannot encode the metrics");
        }
        text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
