//! Metrics of the runtime in the OpenMetrics text format.
//!
//! - A family has at most [`MAX_SERIES`] label sets. More are counted under `other`, so that
//!   arbitrary names cannot grow the memory.

mod board;
mod bounded;
mod gauges;
mod labels;
mod looks;
mod sources;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use watchkeeper_board::reading::Reading;
use watchkeeper_contract::event::{ClipState, Decision};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::pipeline::LookRate;
use watchkeeper_contract::spool::EffectCounts;

use self::board::BoardGauges;
use self::bounded::Bounded;
pub use self::bounded::MAX_SERIES;
use self::gauges::{EffectGauges, JournalGauges, register};
use self::labels::{
    BackendChangeLabels, CLIP_STATES, ClipLabels, DropLabels, ModelLabels, OTHER, SourceLabels,
    StageLabels, StateLabels, StepLabels, VerdictLabels, of_source,
};
use self::looks::LookGauges;
use crate::capture;
use crate::journal::Journal;
use crate::journal::media::MediaStore;
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

/// All metrics; an update takes a read lock and an atomic addition.
pub struct Metrics {
    registry: Registry,
    frames: Bounded<SourceLabels, Counter>,
    dropped: Bounded<DropLabels, Counter>,
    state: Bounded<StateLabels, Gauge>,
    hardware_decoder: Bounded<SourceLabels, Gauge>,
    inference: Bounded<ModelLabels, Histogram>,
    stages: Bounded<StageLabels, Histogram>,
    events: Family<VerdictLabels, Counter>,
    confidence: Histogram,
    step_errors: Bounded<StepLabels, Counter>,
    backend_changes: Bounded<BackendChangeLabels, Counter>,
    clips: Family<ClipLabels, Counter>,
    clip_pictures_left_out: Counter,
    events_lost: Counter,
    storage_trouble: Gauge,
    load_level: Gauge,
    hanging_teardowns: Gauge,
    looks: LookGauges,
    effects: EffectGauges,
    journal: JournalGauges,
    board: BoardGauges,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn register_bounded<L, M>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    make: fn() -> M,
) -> Bounded<L, M>
where
    L: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static,
    M: EncodeMetric + TypedMetric + Clone + Debug + Send + Sync + 'static,
{
    let family = Bounded::new(make);
    registry.register(name, help, family.family());
    family
}

fn register_seconds<L>(registry: &mut Registry, name: &str, help: &str) -> Bounded<L, Histogram>
where
    L: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static,
{
    let family = Bounded::new(|| Histogram::new(BUCKETS));
    registry.register_with_unit(name, help, Unit::Seconds, family.family());
    family
}

/// Clips by final state; both series exist from the start, so that the first loss is an increase.
fn clip_family() -> Family<ClipLabels, Counter> {
    let clips = Family::<ClipLabels, Counter>::default();
    for state in CLIP_STATES {
        drop(clips.get_or_create(&ClipLabels { state }));
    }
    clips
}

impl Metrics {
    /// Registers all metrics at zero.
    #[expect(clippy::too_many_lines, reason = "one entry for each metric")]
    pub fn new() -> Self {
        let mut root = Registry::with_prefix("watchkeeper");
        let to = &mut root;
        Self {
            frames: register_bounded(to, "frames", "Frames from decoders", Counter::default),
            dropped: register_bounded(
                to,
                "frames_dropped",
                "Frames dropped, by place",
                Counter::default,
            ),
            state: register_bounded(
                to,
                "source_state",
                "1 for the state a source is in",
                Gauge::default,
            ),
            hardware_decoder: register_bounded(
                to,
                "source_hardware_decoder",
                "1 for a source that hardware decodes, 0 for one that the processor decodes",
                Gauge::default,
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
            step_errors: register_bounded(
                to,
                "step_errors",
                "Failures of workflow steps",
                Counter::default,
            ),
            backend_changes: register_bounded(
                to,
                "backend_changes",
                "Changes of a model's back end, by result",
                Counter::default,
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
                "Pictures missing in clips because the disk was too slow",
                Counter::default(),
            ),
            events_lost: register(
                to,
                "events_lost",
                "Events given up because they could not be stored",
                Counter::default(),
            ),
            storage_trouble: register(
                to,
                "storage_trouble",
                "1 while events wait because they cannot be stored",
                Gauge::default(),
            ),
            load_level: register(
                to,
                "load_level",
                "Level of shedding by heat",
                Gauge::default(),
            ),
            hanging_teardowns: register(
                to,
                "hanging_teardowns",
                "Stopped GStreamer pipelines that hang and keep their threads and memory",
                Gauge::default(),
            ),
            looks: LookGauges::register(to),
            effects: EffectGauges::register(to),
            journal: JournalGauges::register(to),
            board: BoardGauges::register(to),
            registry: root,
        }
    }

    /// Sets the level of shedding.
    pub fn set_load_level(&self, level: Level) {
        self.load_level.set(level.number().into());
    }

    /// Sets the look rates of the pipelines that have one.
    pub fn set_looks<'a>(&self, rates: impl Iterator<Item = (&'a PipelineId, LookRate)>) {
        self.looks.set(rates);
    }

    /// Counts frames from the decoder of `source`.
    pub fn count_frames(&self, source: &SourceId, count: u64) {
        self.frames
            .metric(of_source(source.as_str()), || of_source(OTHER))
            .inc_by(count);
    }

    /// Counts frames of `source` that were dropped at a place such as `slot` or `budget`.
    pub fn count_dropped(&self, source: &SourceId, at: &str, count: u64) {
        let of = |source: &str, at: &str| DropLabels {
            source: source.to_owned(),
            at: at.to_owned(),
        };
        self.dropped
            .metric(of(source.as_str(), at), || of(OTHER, OTHER))
            .inc_by(count);
    }

    /// Records the time of one inference of `model`.
    pub fn observe_inference(&self, model: &str, time: Duration) {
        let of = |model: &str| ModelLabels {
            model: model.to_owned(),
        };
        self.inference
            .metric(of(model), || of(OTHER))
            .observe(time.as_secs_f64());
    }

    /// Records the time of one frame in `stage`.
    pub fn observe_stage(&self, stage: &'static str, time: Duration) {
        self.stages
            .metric(StageLabels { stage }, || StageLabels { stage: OTHER })
            .observe(time.as_secs_f64());
    }

    /// Counts an event.
    pub fn count_event(
        &self,
        Decision {
            verdict,
            confidence,
            ..
        }: &Decision,
    ) {
        let label = VerdictLabels {
            verdict: (*verdict).into(),
        };
        self.events.get_or_create(&label).inc();
        self.confidence.observe(*confidence);
    }

    /// Counts a failure of a workflow step.
    pub fn count_step_error(&self, pipeline: &PipelineId, step: &str) {
        let of = |pipeline: &str, step: &str| StepLabels {
            pipeline: pipeline.to_owned(),
            step: step.to_owned(),
        };
        self.step_errors
            .metric(of(pipeline.as_str(), step), || of(OTHER, OTHER))
            .inc();
    }

    /// Counts a change of the back end of `model` to `to`, by its result.
    pub fn count_backend_change(&self, model: &str, to: &'static str, result: &'static str) {
        let of = |model: &str| BackendChangeLabels {
            model: model.to_owned(),
            to,
            result,
        };
        self.backend_changes.metric(of(model), || of(OTHER)).inc();
    }

    /// Counts the clip of an event once it is complete or lost.
    pub fn count_clip(&self, state: &ClipState) {
        let state = match state {
            ClipState::Filming => return,
            ClipState::Kept { .. } => CLIP_STATES[0],
            ClipState::Lost { .. } => CLIP_STATES[1],
        };
        self.clips.get_or_create(&ClipLabels { state }).inc();
    }

    /// Counts pictures that a clip misses.
    pub fn count_clip_pictures_left_out(&self, count: u32) {
        self.clip_pictures_left_out.inc_by(u64::from(count));
    }

    /// Sets the number of lost events since the start, and whether events wait for the disk.
    pub fn set_recorder(&self, lost: u64, has_trouble: bool) {
        self.events_lost.inner().store(lost, Ordering::Relaxed);
        self.storage_trouble.set(i64::from(has_trouble));
    }

    /// Sets the counts of the effects spool.
    pub fn set_effects(&self, counts: &EffectCounts) {
        let own = &self.effects;
        own.waiting.set(counts.waiting);
        own.waiting_bytes.set(counts.waiting_bytes);
        for (counter, count) in [
            (&own.taken, counts.taken),
            (&own.refused, counts.refused),
            (&own.done, counts.done),
            (&own.failed, counts.failed),
        ] {
            counter.inner().store(count, Ordering::Relaxed);
        }
    }

    /// Sets the gauges of the board to a reading of this age.
    pub fn set_board(&self, reading: &Reading, age: Duration) {
        self.board.set(reading, age);
    }

    /// Encodes all metrics, with the current numbers of the journal.
    pub fn encode(&self, journal: &Journal, media: &MediaStore) -> String {
        let (head, stats) = (journal.head(), journal.stats());
        let own = &self.journal;
        own.last_seq.set(head.last.0);
        own.first_seq.set(head.first.0);
        own.records.set(stats.records);
        own.bytes.set(stats.bytes);
        match journal.size_on_disk() {
            Ok(bytes) => {
                own.disk_bytes.set(bytes);
            }
            Err(error) => tracing::warn!(%error, "cannot measure the journal"),
        }
        own.appended
            .inner()
            .store(stats.appended, Ordering::Relaxed);
        own.failed.inner().store(stats.failed, Ordering::Relaxed);
        own.dropped.inner().store(stats.dropped, Ordering::Relaxed);
        own.reviews_waiting.set(stats.reviews_waiting);
        own.reviews_given_up.set(stats.reviews_given_up);
        own.assessments
            .inner()
            .store(stats.assessments, Ordering::Relaxed);
        own.media_bytes.set(media.bytes());
        let hanging = i64::try_from(capture::hanging_teardowns()).unwrap_or(i64::MAX);
        self.hanging_teardowns.set(hanging);
        own.media_dropped
            .inner()
            .store(media.deleted(), Ordering::Relaxed);

        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::error!(%error, "cannot encode the metrics");
        }
        text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests;
