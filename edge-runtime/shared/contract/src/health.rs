//! Health of the runtime.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{PipelineId, SourceId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// Everything configured runs.
    Up,
    /// Something does not run; the rest does. `reasons` says what.
    Degraded,
}

/// Processor time that the events of this run took outside the threads of their pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct EventTimes {
    /// Events of pipelines that were stored.
    pub events: u64,
    /// Seconds for their pictures and records.
    pub recorder_s: f64,
    /// Events whose clip has ended. A shared clip counts for each.
    pub clips: u64,
    /// Seconds for these clips.
    pub clips_s: f64,
}

/// Why no event can be stored now; events wait in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StorageFault {
    /// One sentence with the remedy; part of the health's `reasons` too.
    pub message: String,
    pub since: crate::time::Wall,
}

/// What a reason of the health is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReasonKind {
    /// Something in the configuration file is not used.
    Configuration,
    /// Events can't be stored.
    Storage,
    /// Effects of workflows are refused or not allowed.
    Effects,
    /// The box is hot and sheds load.
    Heat,
    /// Stopped pipelines of GStreamer hang.
    Teardown,
    /// A source delivers no frames; its `state` has the message.
    SourceState,
    /// The processor decodes; the source's `decoder` has the message.
    Decoder,
    /// The frames of a source do not show what they should.
    Blind,
    /// A pipeline failed; its `state` has the message. `source`: because that source failed.
    PipelineState,
    /// A pipeline runs and misses something.
    PipelineWarning,
    /// The events of a rule need people too often.
    Reviews,
    /// A kind of a newer version.
    #[serde(other)]
    Unknown,
}

/// One of the `reasons`, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthReason {
    pub kind: ReasonKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineId>,
    pub message: String,
}

impl HealthReason {
    pub fn new(kind: ReasonKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            source: None,
            pipeline: None,
            message: message.into(),
        }
    }
}

/// Answer of `GET /v1/health`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    pub state: HealthState,
    /// One sentence for each problem.
    pub reasons: Vec<String>,
    /// The `reasons` in their order, with what each is about. A runtime that is older than this
    /// field does not send it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<HealthReason>,
    /// One sentence for each fact that is not a problem but may surprise. Examples: every pipeline
    /// is paused or stopped; the configuration file was changed after the start. A runtime that is
    /// older than this field does not send it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Version of the runtime.
    pub version: String,
    /// Id of this run of the runtime, new at every start.
    pub boot_id: String,
    /// Seconds since the runtime started.
    pub uptime_s: f64,
    pub pid: u32,
    /// Last event number in the journal; zero when it is empty.
    pub last_seq: crate::id::EventSeq,
    /// Effects of workflows. A runtime that is older than this field does not send it.
    #[serde(default)]
    pub effects: crate::spool::EffectCounts,
    /// Rules whose events need a person too often. A runtime that is older than this field does not
    /// send it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub review_shares: Vec<crate::review::ReviewShare>,
    /// Processor time of events. A runtime that is older than this field does not send it.
    #[serde(default)]
    pub event_times: EventTimes,
    /// Absent while events are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageFault>,
    /// Channels that rules may name in `notify`.
    #[serde(default)]
    pub channels: Vec<crate::id::ChannelId>,
}
