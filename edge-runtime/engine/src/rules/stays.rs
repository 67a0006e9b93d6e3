//! Stays in the zones of a workflow and, for `appears`, in the whole picture.
//!
//! - Invariant: the numbers of needs refer to entries of the plan's needs.
//! - Not here: when a stay begins and ends (`vision::analytics::visits`).

use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::analytics::Visits;
use watchkeeper_vision::analytics::grace::GRACE_S;
use watchkeeper_vision::detections::Detection;

use super::boxes::{Boxes, Inputs};

/// Where stays are watched, by numbers of needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StayScope {
    /// Name of the time-in-zone step; `None` for the whole picture.
    pub(super) zone: Option<String>,
    /// All boxes of the tracker.
    pub(super) tracked: usize,
    /// The boxes in the scope, beside those that a zone keeps outside.
    pub(super) inside: usize,
}

#[derive(Debug)]
pub(super) struct Stays {
    scope: StayScope,
    pub(super) visits: Visits,
}

impl Stays {
    pub(super) fn new(scope: StayScope) -> Self {
        let visits = match scope.zone {
            Some(_) => Visits::default(),
            // A confirmed track appears at its first sight.
            None => Visits::new(GRACE_S, 0.0),
        };
        Self { scope, visits }
    }

    /// Returns the name of the zone; `None` for the whole picture.
    pub(super) fn zone(&self) -> Option<&str> {
        self.scope.zone.as_deref()
    }

    /// Returns the number of the need with all boxes of the tracker.
    pub(super) fn tracked(&self) -> usize {
        self.scope.tracked
    }

    pub(super) fn observe(
        &mut self,
        inputs: Inputs<'_>,
        is_still: impl Fn(TrackId) -> bool,
        clock: f64,
    ) {
        let of = |need: usize| inputs.boxes(need).into_iter().flat_map(Boxes::tracked);
        let (tracked, inside) = (of(self.scope.tracked), of(self.scope.inside));
        let is_zone = self.scope.zone.is_some();
        self.visits.observe(
            tracked.map(|(_, d)| d),
            inside
                .map(|(_, d)| d)
                .filter(|d| !(is_zone && d.outside_zone)),
            is_still,
            clock,
        );
    }

    /// Returns the box of a track in the scope in this frame.
    pub(super) fn box_of<'a>(&self, inputs: &Inputs<'a>, track: TrackId) -> Option<&'a Detection> {
        inputs.boxes(self.scope.inside)?.of_track(track)
    }
}
