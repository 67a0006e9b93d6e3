//! What goes into a rule set and what comes out.
//!
//! Owns the words between the rules and the program around them. Invariant: plain data; nothing in here has a state of its
//! own.

use watchkeeper_contract::event::{Decision, Evidence, Phase, RuleEvent};
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::rule::{ClipSpec, Severity, Weekday};
use watchkeeper_vision::detections::Detections;

/// When and where a frame was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Source time in seconds. It may jump (a file that starts over): only steps forward are counted as time passed.
    pub time_s: f64,
    /// Number of the frame in its source, from 1.
    pub frame: u64,
    /// Width and height of the source picture in pixels.
    pub size: [u32; 2],
    /// The box's local time, for schedules.
    pub local: LocalTime,
}

/// Local time as far as a schedule looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Day of the week.
    pub weekday: Weekday,
    /// Minutes since midnight, `0..1440`.
    pub minute_of_day: u16,
}

/// A value of the workflow that the rules look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Where it comes from, such as `$steps.gate.detections_in`.
    pub selector: String,
    /// What it has to be.
    pub kind: NeedKind,
}

/// Kind of a needed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedKind {
    /// Boxes.
    Detections,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
    /// Two rules look at the same value, one as a number and one as a boolean.
    NumberOrBoolean,
}

/// The value of a need in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input<'a> {
    /// Boxes.
    Detections(&'a Detections),
    /// A number.
    Number(f64),
    /// A boolean.
    Boolean(bool),
    /// The step did not run in this frame, or failed. Nothing is concluded from that until the grace is over.
    Missing,
}

/// A change of an event: what to write into the journal, less what only the journal knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Identity of the event.
    pub id: EventId,
    /// Which part of its life this is.
    pub phase: Phase,
    /// How much it matters.
    pub severity: Severity,
    /// What happened.
    pub event: RuleEvent,
    /// What was decided; never [`Discard`](watchkeeper_contract::event::Verdict::Discard), those are only counted.
    pub decision: Decision,
    /// What the decision rests on.
    pub evidence: Vec<Evidence>,
    /// The clip that is wanted of it; only where it begins.
    pub clip: Option<ClipSpec>,
}
