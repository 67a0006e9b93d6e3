//! Visits: which tracks are present, and since when.
//!
//! - A track unseen for no longer than the grace keeps its visit.
//! - At most [`MAX_VISITS`] visits.

use std::collections::BTreeMap;

use watchkeeper_contract::id::TrackId;

use super::life::Lifecycle;

/// Maximum number of visits per rule. Further tracks are ignored and counted.
pub(super) const MAX_VISITS: usize = 1024;

/// One unbroken visit of one track.
#[derive(Debug)]
pub(super) struct Visit {
    /// Clock at the first sighting.
    pub(super) since_s: f64,
    /// Clock at the latest sighting.
    pub(super) last_s: f64,
    /// Clock when last seen or held.
    pub(super) held_s: f64,
    /// Longest time reported by the zone's step.
    pub(super) reported_s: f64,
    /// Whether the rule ever accepted class and score.
    pub(super) fitted: bool,
    pub(super) life: Lifecycle,
}

impl Visit {
    /// Returns the seconds from the first to the latest sighting, or the zone step's time if
    /// longer.
    pub(super) fn dwell_s(&self) -> f64 {
        (self.last_s - self.since_s).max(self.reported_s)
    }
}

#[derive(Debug, Default)]
pub(super) struct Visits {
    visits: BTreeMap<TrackId, Visit>,
    /// Number of tracks ignored because there were too many.
    pub(super) unwatched: u64,
}

impl Visits {
    /// Records a sighting. Returns the visit and whether it is new.
    pub(super) fn see(&mut self, track: TrackId, clock: f64) -> Option<(&mut Visit, bool)> {
        let new = !self.visits.contains_key(&track);
        if new && self.visits.len() >= MAX_VISITS {
            self.unwatched = self.unwatched.saturating_add(1);
            return None;
        }
        let visit = self.visits.entry(track).or_insert_with(|| Visit {
            since_s: clock,
            last_s: clock,
            held_s: clock,
            reported_s: 0.0,
            fitted: false,
            life: Lifecycle::candidate(),
        });
        visit.last_s = clock;
        visit.held_s = clock;
        Some((visit, new))
    }

    /// Extends a visit whose detection is held, without adding to its dwell time.
    pub(super) fn hold(&mut self, track: TrackId, clock: f64) {
        if let Some(visit) = self.visits.get_mut(&track) {
            visit.held_s = clock;
        }
    }

    /// Removes the visits of tracks unseen for longer than the grace.
    pub(super) fn take_gone(&mut self, clock: f64, grace_s: f64) -> Vec<(TrackId, Visit)> {
        self.visits
            .extract_if(.., |_, s| clock - s.held_s > grace_s)
            .collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<(TrackId, Visit)> {
        std::mem::take(&mut self.visits).into_iter().collect()
    }
}
