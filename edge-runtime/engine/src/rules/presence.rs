//! Who is there: which tracks are present, since when, with a grace for flickering.
//!
//! Invariant: a track that is away for no longer than the grace keeps its stay; at most [`MAX_STAYS`] stays.

use std::collections::BTreeMap;

use watchkeeper_contract::id::TrackId;

use super::life::Lifecycle;

/// Most tracks that one rule watches at once. Further ones are not watched and are counted.
pub(super) const MAX_STAYS: usize = 1024;

/// One unbroken presence of one track.
#[derive(Debug)]
pub(super) struct Stay {
    /// Clock at its first sight.
    pub(super) since_s: f64,
    /// Clock at its latest sight.
    pub(super) last_s: f64,
    /// Clock when it was last seen, or held to be there though nobody looked.
    pub(super) kept_s: f64,
    /// The longest time in the zone that the zone's step has told.
    pub(super) told_s: f64,
    /// Whether class and score have ever fitted the rule.
    pub(super) fitted: bool,
    /// What became of it.
    pub(super) life: Lifecycle,
}

impl Stay {
    /// Seconds from the first to the latest sight; not less than what the zone's step says.
    pub(super) fn dwell_s(&self) -> f64 {
        (self.last_s - self.since_s).max(self.told_s)
    }
}

/// The stays of one rule.
#[derive(Debug, Default)]
pub(super) struct Presence {
    stays: BTreeMap<TrackId, Stay>,
    /// Tracks that were not watched because there were too many.
    pub(super) unwatched: u64,
}

impl Presence {
    /// Notes that a track is there; the stay, and whether it is a new one.
    pub(super) fn see(&mut self, track: TrackId, clock: f64) -> Option<(&mut Stay, bool)> {
        let new = !self.stays.contains_key(&track);
        if new && self.stays.len() >= MAX_STAYS {
            self.unwatched = self.unwatched.saturating_add(1);
            return None;
        }
        let stay = self.stays.entry(track).or_insert_with(|| Stay {
            since_s: clock,
            last_s: clock,
            kept_s: clock,
            told_s: 0.0,
            fitted: false,
            life: Lifecycle::candidate(),
        });
        stay.last_s = clock;
        stay.kept_s = clock;
        Some((stay, new))
    }

    /// Notes that a track is held to be there, because nothing moved: its stay goes on and grows no longer.
    pub(super) fn keep(&mut self, track: TrackId, clock: f64) {
        if let Some(stay) = self.stays.get_mut(&track) {
            stay.kept_s = clock;
        }
    }

    /// Takes out the stays of tracks that are away for longer than the grace.
    pub(super) fn take_gone(&mut self, clock: f64, grace_s: f64) -> Vec<(TrackId, Stay)> {
        self.stays
            .extract_if(.., |_, s| clock - s.kept_s > grace_s)
            .collect()
    }

    /// Takes out all stays.
    pub(super) fn take_all(&mut self) -> Vec<(TrackId, Stay)> {
        std::mem::take(&mut self.stays).into_iter().collect()
    }
}
