//! Recent positions of tracks, for drawing.
//!
//! - At most [`MAX_TRACKS`] tracks with `length` points each.
//! - A track unseen for [`FORGET_AFTER`] frames is dropped.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use crate::analytics::recent::Recent;
use crate::detections::Detections;
use crate::geometry::{Anchor, Point};

/// Bound of the tracks.
pub const MAX_TRACKS: usize = 256;
/// Frames after which an unseen track is dropped.
pub const FORGET_AFTER: u64 = 30;
/// Bound of a trace's points.
const MAX_LENGTH: usize = 1000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Class of the latest box, for its colour.
    pub class_id: i64,
    /// Anchor points in pixels, oldest first.
    pub points: VecDeque<Point>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Traces {
    anchor: Anchor,
    length: usize,
    tracks: Recent<Trace>,
}

impl Traces {
    /// Creates an empty set; each trace keeps the latest `length` positions of the anchor.
    pub fn new(anchor: Anchor, length: usize) -> Self {
        Self {
            anchor,
            length: length.clamp(1, MAX_LENGTH),
            tracks: Recent::new(MAX_TRACKS),
        }
    }

    /// Adds the tracked boxes of the next frame.
    pub fn update(&mut self, detections: &Detections) {
        self.tracks.next_round(FORGET_AFTER);
        for d in &detections.boxes {
            let point = d.bbox.anchor(self.anchor);
            let Some(track) = d.track else { continue };
            if !point.x.is_finite() || !point.y.is_finite() {
                continue;
            }
            let empty = Trace {
                class_id: d.class_id,
                points: VecDeque::new(),
            };
            let trace = self.tracks.touch_or_insert(track, empty);
            trace.class_id = d.class_id;
            if trace.points.len() == self.length {
                trace.points.pop_front();
            }
            trace.points.push_back(point);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (TrackId, &Trace)> {
        self.tracks.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::testing::tracked;
    use crate::geometry::BBox;

    #[test]
    fn a_trace_keeps_the_latest_points() {
        let mut t = Traces::new(Anchor::BottomCenter, 3);
        for i in 0..5 {
            let x = f64::from(i) * 10.0;
            t.update(&tracked(&[(4, BBox::new(x, 0.0, x + 10.0, 20.0))]));
        }
        let (id, trace) = t.iter().next().expect("one trace");
        assert_eq!(id.0, 4);
        assert_eq!(
            trace.points.iter().map(|p| p.x).collect::<Vec<_>>(),
            [25.0, 35.0, 45.0]
        );
    }
}
