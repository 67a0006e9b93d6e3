//! Numbers for Prometheus.
//!
//! One struct that the parts of the runtime bump, and one text. Invariant: a family never has more than
//! [`MAX_SERIES`] label sets; what comes after is counted under `other`, so that a name made up by somebody can't
//! grow the memory.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use watchkeeper_contract::event::{ClipState, Verdict};
use watchkeeper_contract::id::{PipelineId, SourceId};
use watchkeeper_contract::source::SourceState;
use watchkeeper_contract::spool::EffectCounts;

use crate::journal::Journal;
use crate::journal::media::MediaStore;

/// MIME type of [`Metrics::encode`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Most label sets of one family.
pub const MAX_SERIES: usize = 512;

const OTHER: &str = "other";

/// Upper bounds in seconds: from a pre-processing step to a large network on a small board.
const BUCKETS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSource {
    source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDrop {
    source: String,
    at: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    source: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    stage: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfModel {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVerdict {
    verdict: VerdictLabel,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfClip {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStep {
    pipeline: String,
    step: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct VerdictLabel(&'static str);

impl EncodeLabelValue for VerdictLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

impl From<Verdict> for VerdictLabel {
    fn from(verdict: Verdict) -> Self {
        Self(match verdict {
            Verdict::Discard => "discard",
            Verdict::Escalate => "escalate",
            Verdict::Review => "review",
            Verdict::Record => "record",
            Verdict::Act => "act",
        })
    }
}

/// What becomes of clips.
const ENDS_OF_CLIPS: [&str; 2] = ["kept", "lost"];

/// Every state of a source, so that the ones it is not in say zero.
const STATES: [&str; 6] = ["connecting", "live", "lost", "ended", "failed", "idle"];

fn state_name(state: &SourceState) -> &'static str {
    match state {
        SourceState::Connecting { .. } => "connecting",
        SourceState::Live { .. } => "live",
        SourceState::Lost { .. } => "lost",
        SourceState::Ended => "ended",
        SourceState::Failed { .. } => "failed",
        SourceState::Idle => "idle",
    }
}

/// The numbers. Shared by reference; bumping one takes a read lock and an atomic addition.
pub struct Metrics {
    registry: Registry,
    frames: Bounded<OfSource, Counter>,
    dropped: Bounded<OfDrop, Counter>,
    state: Bounded<OfState, Gauge>,
    inference: Bounded<OfModel, Histogram>,
    stages: Bounded<OfStage, Histogram>,
    events: Family<OfVerdict, Counter>,
    step_errors: Bounded<OfStep, Counter>,
    clips: Family<OfClip, Counter>,
    clip_pictures_left_out: Counter,
    events_lost: Counter,
    storage_trouble: Gauge,
    effects: EffectGauges,
    journal: JournalGauges,
}

#[derive(Debug, Default)]
struct EffectGauges {
    waiting: Gauge<u64, AtomicU64>,
    waiting_bytes: Gauge<u64, AtomicU64>,
    taken: Counter,
    refused: Counter,
    done: Counter,
    failed: Counter,
}

#[derive(Debug, Default)]
struct JournalGauges {
    last_seq: Gauge<u64, AtomicU64>,
    first_seq: Gauge<u64, AtomicU64>,
    records: Gauge<u64, AtomicU64>,
    bytes: Gauge<u64, AtomicU64>,
    disk_bytes: Gauge<u64, AtomicU64>,
    appended: Counter,
    failed: Counter,
    dropped: Counter,
    media_bytes: Gauge<u64, AtomicU64>,
    media_dropped: Counter,
}

impl Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn seconds() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("watchkeeper");
        let frames = Bounded::new(Counter::default);
        registry.register(
            "frames",
            "Frames that came out of a decoder",
            frames.family(),
        );
        let dropped = Bounded::new(Counter::default);
        registry.register(
            "frames_dropped",
            "Frames dropped, by place",
            dropped.family(),
        );
        let state = Bounded::new(Gauge::default);
        registry.register(
            "source_state",
            "1 for the state a source is in",
            state.family(),
        );
        let inference = Bounded::new(seconds);
        registry.register_with_unit(
            "inference",
            "Time in a network or in the motion detector's background model, without pre- and post-processing",
            Unit::Seconds,
            inference.family(),
        );
        let stages = Bounded::new(seconds);
        registry.register_with_unit(
            "stage",
            "Time in one stage of a frame's way; `pipeline` is all of them but `wait`",
            Unit::Seconds,
            stages.family(),
        );
        let events = Family::<OfVerdict, Counter>::default();
        registry.register("events", "Events decided upon, by verdict", events.clone());
        let step_errors = Bounded::new(Counter::default);
        registry.register(
            "step_errors",
            "Failures of a workflow's step",
            step_errors.family(),
        );
        let clips = Family::<OfClip, Counter>::default();
        for state in ENDS_OF_CLIPS {
            // So that the first one that is lost is a growth, and not the beginning of a series.
            drop(clips.get_or_create(&OfClip { state }));
        }
        registry.register(
            "clips",
            "Clips of events, by what became of them; one that events share counts for each",
            clips.clone(),
        );
        let clip_pictures_left_out = Counter::default();
        registry.register(
            "clip_pictures_left_out",
            "Pictures that clips go without because they could not be written as fast as they came",
            clip_pictures_left_out.clone(),
        );
        let events_lost = Counter::default();
        registry.register(
            "events_lost",
            "Events given up because they could not be stored",
            events_lost.clone(),
        );
        let storage_trouble = Gauge::default();
        registry.register(
            "storage_trouble",
            "1 while events can't be stored and wait",
            storage_trouble.clone(),
        );

        let effects = EffectGauges::default();
        let own = registry.sub_registry_with_prefix("effects");
        own.register(
            "waiting",
            "What workflows want done outside and the agent has not done",
            effects.waiting.clone(),
        );
        own.register(
            "waiting_bytes",
            "Bytes of that",
            effects.waiting_bytes.clone(),
        );
        own.register(
            "taken",
            "Effects taken over from steps",
            effects.taken.clone(),
        );
        own.register(
            "refused",
            "Effects that were not allowed or for which there was no room",
            effects.refused.clone(),
        );
        own.register("done", "Effects that were done", effects.done.clone());
        own.register(
            "failed",
            "Effects that were given up, ever",
            effects.failed.clone(),
        );

        let journal = JournalGauges::default();
        let own = registry.sub_registry_with_prefix("journal");
        own.register(
            "last_seq",
            "Number of the last durable event",
            journal.last_seq.clone(),
        );
        own.register(
            "first_seq",
            "Number from which on no event is missing",
            journal.first_seq.clone(),
        );
        own.register("records", "Events kept", journal.records.clone());
        own.register("bytes", "Bytes of the events kept", journal.bytes.clone());
        own.register(
            "disk_bytes",
            "Bytes of the journal's files",
            journal.disk_bytes.clone(),
        );
        own.register("appended", "Events appended", journal.appended.clone());
        own.register("failed", "Appends that failed", journal.failed.clone());
        own.register(
            "dropped",
            "Events dropped by retention",
            journal.dropped.clone(),
        );
        own.register(
            "media_bytes",
            "Bytes of kept pictures",
            journal.media_bytes.clone(),
        );
        own.register(
            "media_dropped",
            "Pictures dropped to make room",
            journal.media_dropped.clone(),
        );
        Self {
            registry,
            frames,
            dropped,
            state,
            inference,
            stages,
            events,
            step_errors,
            clips,
            clip_pictures_left_out,
            events_lost,
            storage_trouble,
            effects,
            journal,
        }
    }

    /// `count` frames came out of the decoder of `source`.
    pub fn frames(&self, source: &SourceId, count: u64) {
        self.frames.bump(
            of_source(source.as_str()),
            || of_source(OTHER),
            |c| {
                c.inc_by(count);
            },
        );
    }

    /// `count` frames of `source` were dropped at a place such as `slot` or `budget`.
    pub fn dropped(&self, source: &SourceId, at: &str, count: u64) {
        let of = |source: &str, at: &str| OfDrop {
            source: source.to_owned(),
            at: at.to_owned(),
        };
        self.dropped.bump(
            of(source.as_str(), at),
            || of(OTHER, OTHER),
            |c| {
                c.inc_by(count);
            },
        );
    }

    /// `source` is in `state`.
    pub fn source_state(&self, source: &SourceId, state: &SourceState) {
        let now = state_name(state);
        for state in STATES {
            let of = |source: &str| OfState {
                source: source.to_owned(),
                state,
            };
            self.state.bump(
                of(source.as_str()),
                || of(OTHER),
                |gauge| {
                    gauge.set(i64::from(state == now));
                },
            );
        }
    }

    /// One run of the network of `model` took `time`.
    pub fn inference(&self, model: &str, time: Duration) {
        let of = |model: &str| OfModel {
            model: model.to_owned(),
        };
        self.inference.bump(
            of(model),
            || of(OTHER),
            |h| {
                h.observe(time.as_secs_f64());
            },
        );
    }

    /// One frame spent `time` in `stage`.
    pub fn stage(&self, stage: &str, time: Duration) {
        let of = |stage: &str| OfStage {
            stage: stage.to_owned(),
        };
        self.stages.bump(
            of(stage),
            || of(OTHER),
            |h| {
                h.observe(time.as_secs_f64());
            },
        );
    }

    /// An event was decided upon.
    pub fn event(&self, verdict: Verdict) {
        let label = OfVerdict {
            verdict: verdict.into(),
        };
        self.events.get_or_create(&label).inc();
    }

    /// A step of a workflow failed.
    pub fn step_error(&self, pipeline: &PipelineId, step: &str) {
        let of = |pipeline: &str, step: &str| OfStep {
            pipeline: pipeline.to_owned(),
            step: step.to_owned(),
        };
        self.step_errors.bump(
            of(pipeline.as_str(), step),
            || of(OTHER, OTHER),
            |c| {
                c.inc();
            },
        );
    }

    /// What became of the clip of an event.
    pub fn clip(&self, state: &ClipState) {
        let state = match state {
            ClipState::Filming => return,
            ClipState::Kept { .. } => ENDS_OF_CLIPS[0],
            ClipState::Lost { .. } => ENDS_OF_CLIPS[1],
        };
        self.clips.get_or_create(&OfClip { state }).inc();
    }

    /// A clip goes without so many pictures.
    pub fn clip_pictures_left_out(&self, count: u32) {
        self.clip_pictures_left_out.inc_by(u64::from(count));
    }

    /// So many events were given up since the start; whether others wait because they can't be stored.
    pub fn recorder(&self, lost: u64, has_trouble: bool) {
        self.events_lost.inner().store(lost, Ordering::Relaxed);
        self.storage_trouble.set(i64::from(has_trouble));
    }

    /// What workflows want done outside fares like this.
    pub fn effects(&self, counts: &EffectCounts) {
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

    /// A source is gone, and the gauges of its state with it. Its counters stay: a counter that vanishes looks like a
    /// restart.
    pub fn forget_source(&self, source: &SourceId) {
        for state in STATES {
            self.state.remove(&OfState {
                source: source.as_str().to_owned(),
                state,
            });
        }
    }

    /// Everything as text, with the journal's numbers as they are now.
    #[must_use]
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
            Err(error) => tracing::warn!(%error, "journal not measured"),
        }
        own.appended
            .inner()
            .store(stats.appended, Ordering::Relaxed);
        own.failed.inner().store(stats.failed, Ordering::Relaxed);
        own.dropped.inner().store(stats.dropped, Ordering::Relaxed);
        own.media_bytes.set(media.bytes());
        own.media_dropped
            .inner()
            .store(media.deleted(), Ordering::Relaxed);

        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::error!(%error, "metrics not encoded");
        }
        text
    }
}

fn of_source(source: &str) -> OfSource {
    OfSource {
        source: source.to_owned(),
    }
}

/// A family that stops growing.
struct Bounded<L, M> {
    family: Family<L, M, fn() -> M>,
    series: AtomicUsize,
}

impl<L: Clone + Hash + Eq, M: Clone> Bounded<L, M> {
    fn new(make: fn() -> M) -> Self {
        Self {
            family: Family::new_with_constructor(make),
            series: AtomicUsize::new(0),
        }
    }

    /// The same family, for the registry.
    fn family(&self) -> Family<L, M, fn() -> M> {
        self.family.clone()
    }

    /// Bumps the metric of `label`, or that of `other` when the family is full.
    fn bump(&self, label: L, other: impl FnOnce() -> L, bump: impl FnOnce(&M)) {
        if let Some(known) = self.family.get(&label) {
            return bump(&known);
        }
        // Two threads with a new label at once may count it twice; the bound is only reached a little earlier.
        if self.series.fetch_add(1, Ordering::Relaxed) < MAX_SERIES {
            bump(&self.family.get_or_create(&label));
        } else {
            self.series.store(MAX_SERIES, Ordering::Relaxed);
            bump(&self.family.get_or_create(&other()));
        }
    }

    fn remove(&self, label: &L) {
        if self.family.remove(label) {
            self.series.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;
    use crate::journal::Limits;
    use crate::journal::media::MediaLimits;

    fn text(metrics: &Metrics) -> String {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(dir.path(), Limits::default()).unwrap();
        let media = MediaStore::open(dir.path(), MediaLimits::default()).unwrap();
        metrics.encode(&journal, &media)
    }

    #[test]
    fn what_was_bumped_is_in_the_text() {
        let metrics = Metrics::new();
        let gate = SourceId::new("gate").unwrap();
        metrics.frames(&gate, 1);
        metrics.dropped(&gate, "slot", 3);
        metrics.source_state(&gate, &SourceState::Ended);
        metrics.inference("yolox-nano", Duration::from_millis(20));
        metrics.event(Verdict::Review);
        metrics.clip(&ClipState::Filming);
        metrics.clip_pictures_left_out(7);
        let text = text(&metrics);
        for line in [
            "watchkeeper_frames_total{source=\"gate\"} 1",
            "watchkeeper_frames_dropped_total{source=\"gate\",at=\"slot\"} 3",
            "watchkeeper_source_state{source=\"gate\",state=\"ended\"} 1",
            "watchkeeper_source_state{source=\"gate\",state=\"live\"} 0",
            "watchkeeper_inference_seconds_count{model=\"yolox-nano\"} 1",
            "watchkeeper_events_total{verdict=\"review\"} 1",
            "watchkeeper_clips_total{state=\"kept\"} 0",
            "watchkeeper_clips_total{state=\"lost\"} 0",
            "watchkeeper_clip_pictures_left_out_total 7",
            "watchkeeper_journal_last_seq 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_flood_of_names_ends_in_one_series() {
        let metrics = Metrics::new();
        let pipeline = PipelineId::new("p").unwrap();
        for n in 0..MAX_SERIES + 50 {
            metrics.step_error(&pipeline, &format!("step-{n}"));
        }
        let text = text(&metrics);
        let series = text
            .lines()
            .filter(|l| l.starts_with("watchkeeper_step_errors_total{"))
            .count();
        assert_eq!(series, MAX_SERIES + 1);
        assert!(
            text.contains("watchkeeper_step_errors_total{pipeline=\"other\",step=\"other\"} 50")
        );
    }
}
