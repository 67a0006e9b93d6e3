//! Telemetry messages at QoS 0.
//!
//! Invariant: counters are totals since a start, so a lost message costs nothing but its moment.

use std::collections::BTreeMap;

use serde::Serialize;
use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_contract::model::BackendChange;
use watchkeeper_contract::pipeline::{LineCount, PipelineStatus, RateLimit};
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_contract::spool::EffectCounts;
use watchkeeper_contract::time::Wall;

use crate::fleet::outbox::Stats;
use crate::notify::health::ChannelHealth;

/// Telemetry of a source, on `cam/<source>/m/frames`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FramesMessage {
    pub ts: i64,
    /// Frames out of the decoder since the runtime started.
    pub frames: u64,
    /// Frames overwritten by newer ones before use.
    pub dropped: u64,
    /// Frames per second over the last few seconds.
    pub fps: f64,
    pub connects: u64,
    /// Times the source was lost.
    pub losses: u64,
}

impl FramesMessage {
    /// Builds the message about `status`, measured at `now`.
    pub fn of(status: &SourceStatus, now: Wall) -> Self {
        let c = status.counters;
        Self {
            ts: now.unix_ms,
            frames: c.frames,
            dropped: c.dropped,
            fps: c.fps,
            connects: c.connects,
            losses: c.losses,
        }
    }
}

/// Counts of a pipeline, on `cam/<source>/m/counts/<pipeline>`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountsMessage {
    pub ts: i64,
    /// State of the pipeline: `starting`, `running`, `paused`, `ended`, `stopped` or `failed`.
    pub s: &'static str,
    /// Why it looks at fewer frames than it wants; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<RateLimit>,
    /// When tracks, lines, zones and events began to be counted; absent before the first frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counting_since: Option<Wall>,
    pub frames: u64,
    /// Number of confirmed tracks.
    pub tracks: u64,
    /// Crossings per line.
    pub lines: BTreeMap<String, LineCount>,
    /// Visits per zone, and objects in it now.
    pub zones: BTreeMap<String, ZoneCount>,
    pub events: u64,
    /// Events below every confidence gate.
    pub discarded: u64,
    /// Models and back ends in use, such as `yolox-nano on rten`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector: Option<String>,
    /// The latest change of each model's back end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_changes: Vec<BackendChange>,
}

/// Counts of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ZoneCount {
    /// Visits so far.
    pub count: u64,
    /// Objects in the zone now.
    pub present: u32,
}

impl CountsMessage {
    /// Builds the message about `status`, measured at `now`.
    pub fn of(status: &PipelineStatus, now: Wall) -> Self {
        let results = &status.results;
        let zones = results.zones.iter().map(|(name, zone)| {
            let count = ZoneCount {
                count: zone.count,
                present: zone.present,
            };
            (name.clone(), count)
        });
        Self {
            ts: now.unix_ms,
            s: status.state.name(),
            limited_by: status.looks.and_then(|looks| looks.limited_by),
            counting_since: results.counting_since,
            frames: results.frames,
            tracks: results.tracks,
            lines: results.lines.clone(),
            zones: zones.collect(),
            events: results.events,
            discarded: results.discarded,
            detector: status.detector.clone(),
            backend_changes: status.backend_changes.clone(),
        }
    }
}

/// Telemetry of the agent, on `m/agent`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentMessage {
    pub ts: i64,
    /// Outbox counts: depth and losses per class, messages in flight and acknowledged.
    pub outbox: Stats,
    /// Last journal number that the outbox has accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<EventSeq>,
    /// Measurements dropped without a link.
    pub telemetry_dropped: u64,
    pub open_commands: usize,
    /// Effects of workflows; absent while the runtime does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sinks: Option<SinkCounts>,
    /// Health of each channel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelCounts>,
}

/// Counts and last error of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelCounts {
    pub id: ChannelId,
    /// Notifications delivered since the agent started.
    pub told: u64,
    /// Notifications given up since the agent started.
    pub given_up: u64,
    /// Why deliveries fail; absent while they work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl ChannelCounts {
    /// Converts the health of one channel.
    pub fn of((id, health): (ChannelId, ChannelHealth)) -> Self {
        Self {
            id,
            told: health.counts.delivered,
            given_up: health.counts.given_up,
            trouble: health.trouble,
        }
    }
}

/// Counts of the effects of workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SinkCounts {
    /// Effects that wait.
    pub waiting: u64,
    /// Effects executed since the runtime started.
    pub done: u64,
    /// Effects that the runtime refused since it started.
    pub refused: u64,
    /// Effects given up over all time.
    pub failed: u64,
}

impl SinkCounts {
    /// Converts the counts of the runtime.
    pub fn of(counts: &EffectCounts) -> Self {
        Self {
            waiting: counts.waiting,
            done: counts.done,
            refused: counts.refused,
            failed: counts.failed,
        }
    }
}
