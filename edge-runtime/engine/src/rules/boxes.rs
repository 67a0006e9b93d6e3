//! The bounding boxes of one need in one frame, in an order independent of the input's order.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::detections::{Detection, Detections};

/// Bounding boxes sorted by score, and the best one of each track.
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

    /// Returns all boxes, best score first.
    pub(super) fn all(&self) -> &[&'a Detection] {
        &self.all
    }

    /// Returns whether no detector ran on this frame for any of these boxes; true without boxes.
    pub(super) fn is_held(&self) -> bool {
        self.all.iter().all(|d| d.is_held())
    }

    /// Returns the best box of a track.
    pub(super) fn of_track(&self, track: TrackId) -> Option<&'a Detection> {
        self.tracked.get(&track).copied()
    }

    /// Returns the best box of each track, by track id.
    pub(super) fn tracked(&self) -> impl Iterator<Item = (TrackId, &'a Detection)> + Clone {
        self.tracked.iter().map(|(&t, &d)| (t, d))
    }
}

/// Returns whether a box from a time-in-zone step is inside its zone.
///
/// With `keeps_outside` the step also outputs boxes outside of the zone, with a time of 0.
pub(super) fn in_zone(d: &Detection, keeps_outside: bool) -> bool {
    !keeps_outside || time_in_zone(d).is_some_and(|t| t > 0.0)
}

/// Seconds in the zone, as set by a time-in-zone step.
fn time_in_zone(d: &Detection) -> Option<f64> {
    d.time_in_zone.filter(|t| t.is_finite())
}
