//! Backtests: what a pipeline would have reported in the last hours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::{Decision, RuleEvent};
use crate::pipeline::{PipelineResults, PipelineSpec, PipelineWarning};
use crate::rule::Severity;

/// Longest replayed span in hours.
pub const MAX_BACKTEST_HOURS: f64 = 24.0;

/// A pipeline to be replayed on the detection history of its source; nothing of it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Backtest {
    /// Pipeline to replay. `record`, `show`, `paused` and `stop_after_s` have no effect;
    /// of `detect` only `periodic` has.
    pub pipeline: PipelineSpec,
    /// Hours before now to replay, over 0 and at most 24.
    pub hours: f64,
    /// Whether the report has pictures of its events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pictures: bool,
}

/// Counts and events that a pipeline would have reported.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BacktestReport {
    /// Why nothing was replayed; the rest is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_replayed: Option<String>,
    /// Time of the first replayed frame, in milliseconds since 1970.
    pub from_ms: i64,
    /// Time of the last replayed frame, in milliseconds since 1970.
    pub to_ms: i64,
    /// Seconds in between that the history covers.
    pub covered_s: f64,
    /// Names and counts of the rules that were in force.
    pub rules: Vec<RuleBacktest>,
    /// Counts of lines, zones and tracks.
    pub results: PipelineResults,
    /// The latest events, at most 200, oldest first.
    pub events: Vec<BacktestEvent>,
    /// Earlier events, left out.
    pub more_events: u64,
    /// Up to six of the events in one JPEG, in base64. Each is on the nearest picture of the
    /// history, at most 10 s away, with its bounding box up to 1 s away. Absent where `pictures`
    /// was not asked for, or there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip: Option<String>,
    /// Settings that have no effect as meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<PipelineWarning>,
    /// Limits of the replay, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// How often one rule would have reported something.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct RuleBacktest {
    /// Name of the rule.
    pub name: String,
    /// Events that it would have made.
    pub events: u64,
    /// Events that wait for a person: `review` or `escalate`.
    pub doubtful: u64,
    /// Events by the class of their object; without one they are left out.
    pub by_class: BTreeMap<String, u64>,
    /// Events by hour; the key is its start, in milliseconds since 1970.
    pub by_hour: BTreeMap<i64, u64>,
}

/// An event that would have been journaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BacktestEvent {
    /// Time of its frame, in milliseconds since 1970.
    pub at_ms: i64,
    /// How much it would have mattered.
    pub severity: Severity,
    /// The decision about it.
    pub decision: Decision,
    /// Details of the event.
    pub event: RuleEvent,
}
