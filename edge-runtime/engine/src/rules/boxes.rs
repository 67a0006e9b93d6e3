//! The boxes of one need in one frame, in an order that does not depend on the one they came in.
//!
//! Invariant: the same boxes in another order give the same answers.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::detections::{Detection, Detections};

/// Boxes, sorted, and the best one of each track.
#[derive(Debug, Default)]
pub(super) struct Boxes<'a> {
    all: Vec<&'a Detection>,
    tracked: BTreeMap<TrackId, &'a Detection>,
}

impl<'a> Boxes<'a> {
    pub(super) fn new(detections: &'a Detections) -> Self {
        let key = |d: &Detection| [d.confidence, d.bbox.x1, d.bbox.y1, d.bbox.x2, d.bbox.y2];
        let mut all: Vec<&Detection> = detections.boxes.iter().collect();
        all.sort_by(|a, b| {
            let (ka, kb) = (key(a), key(b));
            let by = ka.iter().zip(&kb).map(|(x, y)| y.total_cmp(x));
            by.fold(Ordering::Equal, Ordering::then)
                .then_with(|| a.class.cmp(&b.class))
        });
        let mut tracked = BTreeMap::new();
        for d in &all {
            if let Some(track) = d.track.filter(|t| t.0 >= 0) {
                tracked.entry(track).or_insert(*d);
            }
        }
        Self { all, tracked }
    }

    /// All of them, best score first.
    pub(super) fn all(&self) -> &[&'a Detection] {
        &self.all
    }

    /// Whether no detector looked at this frame for any of these boxes; so for none at all.
    pub(super) fn is_held(&self) -> bool {
        self.all.iter().all(|d| d.is_held())
    }

    /// One for each track, by track.
    pub(super) fn tracked(&self) -> impl Iterator<Item = (TrackId, &'a Detection)> {
        self.tracked.iter().map(|(&t, &d)| (t, d))
    }
}

/// Whether a box that a time-in-zone step gave out is in its zone. `keeps_outside`: the step also gives out boxes outside,
/// with a time of 0.
pub(super) fn in_zone(d: &Detection, keeps_outside: bool) -> bool {
    !keeps_outside || time_in_zone(d).is_some_and(|t| t > 0.0)
}

/// Seconds in the zone, where a time-in-zone step has told them.
pub(super) fn time_in_zone(d: &Detection) -> Option<f64> {
    d.time_in_zone.filter(|t| t.is_finite())
}
