//! Compiled rules: what each watches, by numbers of needs, groups and scopes.
//!
//! - Invariant: every number refers to an entry of a list of the [`RulePlan`].
//! - Not here: making it (`check`), running it (`set`).

use watchkeeper_contract::rule::{CountBound, RuleSpec, ValueTest};

use crate::rules::moment::Need;
use crate::rules::schedule::ActiveSchedule;
use crate::rules::stays::StayScope;

/// A compiled condition. Numbers index the lists of the [`RulePlan`].
#[derive(Debug)]
pub(super) enum Watch {
    Tracks(TrackWatch),
    Crosses(CrossWatch),
    Level(LevelWatch),
}

/// A condition on single objects.
#[derive(Debug)]
pub(super) struct TrackWatch {
    pub(super) kind: TrackKind,
    /// Number of the scope in [`RulePlan::scopes`].
    pub(super) scope: usize,
    pub(super) group: usize,
}

/// A condition on a line; `needs` are the detections that crossed in and out.
#[derive(Debug)]
pub(super) struct CrossWatch {
    pub(super) line: String,
    pub(super) needs: [Option<usize>; 2],
    pub(super) group: usize,
}

/// A condition on the scene as a whole.
#[derive(Debug)]
pub(super) struct LevelWatch {
    pub(super) selector: String,
    pub(super) need: usize,
    pub(super) question: Question,
    pub(super) for_s: f64,
}

#[derive(Debug)]
pub(super) enum Question {
    Count {
        bound: CountBound,
        /// Whether the detections are those of a time-in-zone step; boxes outside do not count.
        of_zone: bool,
    },
    Value {
        test: ValueTest,
    },
}

/// Which part of an object's presence makes an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TrackKind {
    Appears,
    Enters { zone: String },
    Leaves { zone: String },
    Stays { zone: String, for_s: f64 },
}

/// Needs whose values the events of a rule carry as readings.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadingNeeds {
    pub(super) code: Option<usize>,
    pub(super) text: Option<usize>,
}

#[derive(Debug)]
pub(super) struct RulePlan {
    pub(super) needs: Vec<Need>,
    /// Needs whose detections come from the same tracker, the tracker's own output first.
    pub(super) groups: Vec<Vec<usize>>,
    /// The zones of the workflow in their order, then the scopes of `appears` rules.
    pub(super) scopes: Vec<StayScope>,
    pub(super) rules: Vec<(RuleSpec, Option<ActiveSchedule>, Watch, ReadingNeeds)>,
}
