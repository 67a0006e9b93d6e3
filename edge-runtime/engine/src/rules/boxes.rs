//! The bounding boxes of one need in one frame, in an order independent of the input's order.
//!
//! - A track with several boxes in a frame is represented by the best one.
//! - Negative track ids are not tracks.

use std::cmp::Ordering;

use watchkeeper_contract::id::TrackId;
use watchkeeper_vision::detections::{Detection, Detections};

use super::moment::NeedValue;

/// The order of one need's boxes; its memory is reused in the next frame.
#[derive(Debug, Default)]
pub(super) struct BoxOrder {
    /// Places of the boxes in the input, best score first.
    places: Vec<usize>,
    /// Tracks in ascending order, with the rank of their best box.
    tracked: Vec<(TrackId, usize)>,
}

impl BoxOrder {
    pub(super) fn sort(&mut self, detections: &Detections) {
        let boxes = &detections.boxes;
        self.places.clear();
        self.places.extend(0..boxes.len());
        // Sorting in place allocates nothing; equal boxes keep the order of the input.
        self.places
            .sort_unstable_by(|a, b| better_first(&boxes[*a], &boxes[*b]).then(a.cmp(b)));
        let tracks = self.places.iter().map(|place| boxes[*place].track);
        let tracks = tracks
            .enumerate()
            .filter_map(|(rank, track)| Some((track.filter(|track| track.0 >= 0)?, rank)));
        self.tracked.clear();
        self.tracked.extend(tracks);
        self.tracked.sort_unstable();
        self.tracked.dedup_by_key(|(track, _)| *track);
    }
}

fn better_first(a: &Detection, b: &Detection) -> Ordering {
    let key = |d: &Detection| [d.confidence, d.bbox.x1, d.bbox.y1, d.bbox.x2, d.bbox.y2];
    let (ka, kb) = (key(a), key(b));
    let by = ka.iter().zip(&kb).map(|(x, y)| y.total_cmp(x));
    by.fold(Ordering::Equal, Ordering::then)
        .then_with(|| a.class.cmp(&b.class))
}

/// The values of all needs in one frame, with the order of their boxes.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) values: &'a dyn Fn(usize) -> NeedValue<'a>,
    pub(super) orders: &'a [BoxOrder],
}

impl<'a> Inputs<'a> {
    pub(super) fn value(&self, need: usize) -> NeedValue<'a> {
        (self.values)(need)
    }

    /// Returns the boxes of a need; `None` if it has other values, or none in this frame.
    pub(super) fn boxes(&self, need: usize) -> Option<Boxes<'a>> {
        let NeedValue::Detections(detections) = self.value(need) else {
            return None;
        };
        Some(Boxes {
            boxes: &detections.boxes,
            order: self.orders.get(need)?,
        })
    }
}

/// Bounding boxes sorted by score, and the best one of each track.
#[derive(Debug, Clone, Copy)]
pub(super) struct Boxes<'a> {
    boxes: &'a [Detection],
    order: &'a BoxOrder,
}

impl<'a> Boxes<'a> {
    /// Returns all boxes, best score first.
    pub(super) fn all(self) -> impl Iterator<Item = &'a Detection> + Clone {
        let places = self.order.places.iter();
        places.filter_map(move |place| self.boxes.get(*place))
    }

    pub(super) fn is_empty(self) -> bool {
        self.boxes.is_empty()
    }

    /// Returns whether no detector ran on this frame for any of these boxes; true without boxes.
    pub(super) fn is_held(self) -> bool {
        self.boxes.iter().all(|d| d.held)
    }

    fn of_rank(self, rank: usize) -> Option<&'a Detection> {
        self.boxes.get(*self.order.places.get(rank)?)
    }

    pub(super) fn of_track(self, track: TrackId) -> Option<&'a Detection> {
        let tracked = &self.order.tracked;
        let at = tracked.binary_search_by_key(&track, |(track, _)| *track);
        self.of_rank(tracked.get(at.ok()?)?.1)
    }

    /// Returns the best box of each track, by track id.
    pub(super) fn tracked(self) -> impl Iterator<Item = (TrackId, &'a Detection)> + Clone {
        let tracked = self.order.tracked.iter();
        tracked.filter_map(move |(track, rank)| Some((*track, self.of_rank(*rank)?)))
    }
}
