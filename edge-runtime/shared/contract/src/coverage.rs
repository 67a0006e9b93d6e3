//! Coverage: when a pipeline watched a camera, and what it could tell then.
//!
//! An absent event means "it did not happen" only where a span covers the time and the class.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{EventSeq, PipelineId, SourceId};
use crate::rule::{CrossDirection, Schedule};
use crate::source::Blindness;
use crate::time::Wall;

/// Most spans in one report, the newest.
pub const MAX_SPANS: usize = 5_000;

/// Time during which a pipeline watched without interruption. A span without frames only says when
/// a pipeline ended that could see nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CoverageSpan {
    /// Arrival of the first frame. Where the clock was wrong and has been set since, by the new
    /// time.
    pub from: Wall,
    /// Arrival of the last frame so far.
    pub to: Wall,
    /// Frames that were looked at.
    pub frames: u64,
    pub end: SpanEnd,
    #[serde(flatten)]
    pub watch: Watched,
}

/// What a pipeline watched, and what it could report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Watched {
    pub source: SourceId,
    pub pipeline: PipelineId,
    /// Whether a step renamed classes, so that those of the detectors say nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renames_classes: bool,
    /// Rules that made events.
    #[serde(default)]
    pub rules: Vec<WatchedRule>,
}

/// A detector of a pipeline, and the classes that its step let through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchedDetector {
    pub model: String,
    /// Classes that it could report; empty for one that knows no classes, such as `motion`.
    pub classes: Vec<String>,
}

/// A rule of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WatchedRule {
    pub name: String,
    /// Kind of its condition, as in the events of the rule.
    pub condition: String,
    /// Zone or line of its condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Direction of a crossing that made an event; absent: either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<CrossDirection>,
    /// Detectors whose objects it saw.
    #[serde(default)]
    pub detectors: Vec<WatchedDetector>,
    /// Whether something on the way may have dropped objects: a filter of the workflow, a band of
    /// scores, or a confidence gate above the default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_drop: bool,
    /// Milliseconds after an event in which it made no other one, of any object.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quiet_ms: u64,
    /// Only objects of these classes; empty: every class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// Only at these times; absent: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why a span ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum SpanEnd {
    /// It had not ended.
    Open,
    /// The next span of the pipeline continues it.
    Continued,
    /// No frame came for longer than usual: the camera was lost, or the box was too busy.
    NoFrames,
    /// The pipeline waited for a disk that did not take its events.
    Disk,
    /// Frames came, but did not show the usual view.
    Blind { kind: Blindness },
    /// A step on which a rule depends failed.
    StepFailed,
    /// The clock of the box was set.
    ClockSet,
    /// The pipeline was paused.
    Paused,
    /// The box was hot, and the pipeline paused to shed load.
    Heat,
    /// The pipeline was stopped or replaced, or the runtime ended.
    Stopped,
    /// The recording or the requested duration ended.
    Finished,
    /// The pipeline failed.
    Failed,
    /// The runtime ended without notice: killed, or the power failed.
    Killed,
    /// A reason of a newer version.
    #[serde(other)]
    Unknown,
}

/// Coverage of a range of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CoverageReport {
    /// Start of the range, milliseconds since 1970-01-01T00:00:00Z.
    pub from_ms: i64,
    /// End of the range, excluded.
    pub to_ms: i64,
    /// The source that it is about; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceId>,
    /// When the report was made.
    pub at: Wall,
    /// Spans that overlap the range, not cut to it, and the last span of each pipeline before it;
    /// by start.
    pub spans: Vec<CoverageSpan>,
    /// Spans before this time are no longer stored; absent: all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spans_since_ms: Option<i64>,
    /// Events before this time are no longer stored; absent: all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_since_ms: Option<i64>,
    /// Events that happened before `at` and are not stored: the disk refused, or they are lost.
    #[serde(default)]
    pub events_waiting: u64,
    /// No event before this time is among them, in milliseconds since 1970; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_waiting_since_ms: Option<i64>,
    /// Last record of the journal when the report was made; absent while it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<JournalHead>,
}

/// A record of the journal with its place in the hash chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalHead {
    pub seq: EventSeq,
    /// Hash of the record, hex.
    pub hash: String,
}

/// A report signed by the box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CoverageStatement {
    pub report: CoverageReport,
    /// Ed25519 public key of the box, base64.
    pub key: String,
    /// Ed25519 signature of the report as canonical JSON (sorted keys, no white space), base64.
    pub signature: String,
}
