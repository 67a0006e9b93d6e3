//! Compiled rules: what each watches, by numbers of needs and groups.
//!
//! - Invariant: every number refers to an entry of [`Plan::needs`] or [`Plan::groups`].
//! - Not here: making it (`check`), running it (`set`).

use watchkeeper_contract::rule::{CountBound, RuleSpec, ValueTest};

use crate::rules::moment::Need;
use crate::rules::schedule::ActiveSchedule;

/// A compiled condition. Numbers index [`Plan::needs`] and [`Plan::groups`].
#[derive(Debug)]
pub(super) enum Watch {
    Tracks(TrackWatch),
    Crosses(CrossWatch),
    Level(LevelWatch),
}

/// A condition on single tracks.
#[derive(Debug)]
pub(super) struct TrackWatch {
    pub(super) kind: TrackKind,
    pub(super) need: usize,
    pub(super) group: usize,
    pub(super) keeps_outside: bool,
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
        keeps_outside: bool,
    },
    Value {
        test: ValueTest,
    },
}

/// Which part of a track's presence makes an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TrackKind {
    Appears,
    Enters { zone: String },
    Leaves { zone: String },
    Stays { zone: String, for_s: f64 },
}

/// The compiled rules of a pipeline.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) needs: Vec<Need>,
    /// Needs whose detections come from the same tracker, the tracker's own output first.
    pub(super) groups: Vec<Vec<usize>>,
    pub(super) rules: Vec<(RuleSpec, Option<ActiveSchedule>, Watch)>,
}
