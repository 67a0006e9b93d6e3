//! Inputs and outputs of a rule set, as plain data.

use std::fmt;

use watchkeeper_contract::event::{Decision, Evidence, Phase, RuleEvent};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::rule::{ClipSpec, Severity, Weekday};
use watchkeeper_vision::detections::Detections;

/// Time and frame of an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Source time in seconds. It may jump backwards (a file that loops); only forward steps count.
    pub time_s: f64,
    /// Number of the frame in its source, from 1.
    pub frame: u64,
    /// Width and height of the source picture in pixels.
    pub size: [u32; 2],
    /// Whether this picture, or one of the last seconds, may show damage that the decoder reported.
    pub is_damaged: bool,
    /// The box's local time, for schedules; `None` while the clock is known to be wrong, when every
    /// schedule is active.
    pub local: Option<LocalTime>,
}

/// Local time, as precise as schedules need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Day of the week.
    pub weekday: Weekday,
    /// Minutes since midnight, `0..1440`.
    pub minute_of_day: u16,
}

/// Why a rule set gets no more frames, as in the reasons of the events that end then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    SourceEnded,
    SourceFailed,
    /// The time for which the pipeline was to watch has passed.
    TimeOver,
    /// By a restart, or because the pipeline was stopped, replaced or deleted.
    Stopped,
    InternalError,
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SourceEnded => "the source ended",
            Self::SourceFailed => "the source failed",
            Self::TimeOver => "the time to watch was over",
            Self::Stopped => "the pipeline stopped",
            Self::InternalError => "an internal error ended the pipeline",
        })
    }
}

/// A workflow value that rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Its selector, such as `$steps.gate.detections_in`.
    pub selector: String,
    pub kind: NeedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedKind {
    Detections,
    Number,
    Boolean,
    /// One rule reads the value as a number, another as a boolean.
    NumberOrBoolean,
    /// A text, or detections that hold one each.
    Text,
}

impl NeedKind {
    /// Returns the kind that serves rules of both kinds, if there is one.
    pub(super) fn merged(self, other: Self) -> Option<Self> {
        let is_scalar = |kind| matches!(kind, Self::Number | Self::Boolean | Self::NumberOrBoolean);
        match (self, other) {
            _ if self == other => Some(self),
            _ if is_scalar(self) && is_scalar(other) => Some(Self::NumberOrBoolean),
            _ => None,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Detections => "detections",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::NumberOrBoolean => "a number or a boolean",
            Self::Text => "text",
        }
    }
}

/// The value of a need in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NeedValue<'a> {
    Detections(&'a Detections),
    Number(f64),
    Boolean(bool),
    Text(&'a str),
    /// The step did not run in this frame, or failed. Unknown until the grace is over.
    Missing,
}

/// A change of an event, as the journal records it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub id: EventId,
    pub phase: Phase,
    pub severity: Severity,
    pub event: RuleEvent,
    /// The decision; never [`Discard`](watchkeeper_contract::event::Verdict::Discard), which is
    /// only counted.
    pub decision: Decision,
    pub evidence: Vec<Evidence>,
    /// The clip to record; only in `new`.
    pub clip: Option<ClipSpec>,
}
