//! Telemetry: numbers that are fleeting.
//!
//! Invariant: counters count from a start, so a message that is lost costs nothing but its moment.

use std::collections::BTreeMap;

use serde::Serialize;
use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_contract::pipeline::{LineCount, PipelineState, PipelineStatus};
use watchkeeper_contract::source::SourceStatus;
use watchkeeper_contract::spool::EffectCounts;
use watchkeeper_contract::time::Wall;

use crate::fleet::outbox::Stats;
use crate::notify::health::ChannelHealth;

/// On `cam/<source>/m/frames`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FramesMessage {
    /// UTC milliseconds.
    pub ts: i64,
    /// Frames out of the decoder since the runtime started.
    pub frames: u64,
    /// Frames overwritten by a newer one.
    pub dropped: u64,
    /// Frames per second over the last few seconds.
    pub fps: f64,
    /// Successful connects.
    pub connects: u64,
    /// Times it was lost.
    pub losses: u64,
}

impl FramesMessage {
    /// The message about `status`, measured at `now`.
    #[must_use]
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

/// On `cam/<source>/m/counts/<pipeline>`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountsMessage {
    /// UTC milliseconds.
    pub ts: i64,
    /// What the pipeline does: `starting`, `running`, `paused`, `ended` or `failed`.
    pub s: &'static str,
    /// Frames processed.
    pub frames: u64,
    /// Different confirmed tracks.
    pub tracks: u64,
    /// Crossings of each line.
    pub lines: BTreeMap<String, LineCount>,
    /// Visits of each zone, and how many are in it now.
    pub zones: BTreeMap<String, ZoneCount>,
    /// Events journaled.
    pub events: u64,
    /// Events too weak to journal.
    pub discarded: u64,
}

/// Numbers of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ZoneCount {
    /// Visits so far.
    pub count: u64,
    /// How many are in it now.
    pub present: u32,
}

impl CountsMessage {
    /// The message about `status`, measured at `now`.
    #[must_use]
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
            s: match status.state {
                PipelineState::Starting => "starting",
                PipelineState::Running => "running",
                PipelineState::Paused => "paused",
                PipelineState::Ended => "ended",
                PipelineState::Failed { .. } => "failed",
            },
            frames: results.frames,
            tracks: results.tracks,
            lines: results.lines.clone(),
            zones: zones.collect(),
            events: results.events,
            discarded: results.discarded,
        }
    }
}

/// On `m/agent`, QoS 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentMessage {
    /// UTC milliseconds.
    pub ts: i64,
    /// The outbox: depth and losses of each class, messages in flight, messages acknowledged.
    pub outbox: Stats,
    /// Last journal number that was dealt with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<EventSeq>,
    /// Telemetry that was thinned out while there was no link.
    pub telemetry_dropped: u64,
    /// Commands that are not finished.
    pub open_commands: usize,
    /// What workflows want done outside; absent while the runtime does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sinks: Option<SinkCounts>,
    /// How each channel fares by which people are told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<ChannelCounts>,
}

/// How a channel fares by which people are told of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelCounts {
    /// Its name.
    pub id: ChannelId,
    /// Events that were told since the agent started.
    pub told: u64,
    /// Events that were given up.
    pub given_up: u64,
    /// Why nothing gets through, where that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl ChannelCounts {
    /// The numbers of one channel.
    #[must_use]
    pub fn of((id, fare): (ChannelId, ChannelHealth)) -> Self {
        Self {
            id,
            told: fare.counts.told,
            given_up: fare.counts.given_up,
            trouble: fare.trouble,
        }
    }
}

/// How what workflows want done outside fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SinkCounts {
    /// That waits to be done.
    pub waiting: u64,
    /// That was done since the runtime started.
    pub done: u64,
    /// That the runtime did not take over since it started.
    pub refused: u64,
    /// That was given up, ever.
    pub failed: u64,
}

impl SinkCounts {
    /// Those of the runtime's answer.
    #[must_use]
    pub fn of(counts: &EffectCounts) -> Self {
        Self {
            waiting: counts.waiting,
            done: counts.done,
            refused: counts.refused,
            failed: counts.failed,
        }
    }
}
