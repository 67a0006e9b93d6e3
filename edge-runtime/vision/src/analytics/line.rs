//! Counts tracks that cross a line, like Roboflow's `line_counter` (`supervision`'s `LineZone`).
//!
//! - The line is a segment from `start` to `end`. Only boxes between the perpendiculars through its
//!   ends count.
//! - A box is on a side when all its anchors are; while it straddles the line nothing changes.
//! - Crossing to the left, looking from start to end, is *in*; the other way is *out*.
//! - A track counts only when it was entirely on one side and is now on the other. Untracked boxes,
//!   negative track ids and invalid coordinates never count.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;

use crate::analytics::recent::Recent;
use crate::detections::Detections;
use crate::geometry::{Anchor, Point};

const MAX_TRACKS: usize = 4096;
/// Frames for which the side of an unseen track is remembered. It is that of Roboflow's block,
/// which misses objects that vanish on one side and reappear on the other.
const MEMORY: u64 = 1;

const CORNERS: [Anchor; 4] = [
    Anchor::TopLeft,
    Anchor::TopRight,
    Anchor::BottomLeft,
    Anchor::BottomRight,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Side {
    Left,
    Right,
}

/// Indices of the boxes that crossed in a frame.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Crossings {
    /// Crossed to the left.
    pub crossed_in: Vec<usize>,
    /// Crossed to the right.
    pub crossed_out: Vec<usize>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LineCounter {
    start: Point,
    end: Point,
    anchors: Vec<Anchor>,
    sides: Recent<Side>,
    count_in: u64,
    count_out: u64,
    /// Of the latest frame; reuses its memory.
    #[serde(skip)]
    crossings: Crossings,
}

impl LineCounter {
    /// A line in pixels. All `anchors` must cross; none means all four corners. A line of length 0
    /// counts nothing.
    pub fn new(start: Point, end: Point, anchors: &[Anchor]) -> Self {
        let anchors = if anchors.is_empty() {
            CORNERS.to_vec()
        } else {
            anchors.to_vec()
        };
        Self {
            start,
            end,
            anchors,
            sides: Recent::new(MAX_TRACKS),
            count_in: 0,
            count_out: 0,
            crossings: Crossings::default(),
        }
    }

    pub fn count_in(&self) -> u64 {
        self.count_in
    }

    pub fn count_out(&self) -> u64 {
        self.count_out
    }

    pub fn crossings(&self) -> &Crossings {
        &self.crossings
    }

    /// Processes the tracked boxes of a frame.
    pub fn update(&mut self, detections: &Detections) -> &Crossings {
        self.sides.next_round(MEMORY + 1);
        self.crossings.crossed_in.clear();
        self.crossings.crossed_out.clear();
        for (i, detection) in detections.boxes.iter().enumerate() {
            let Some(track) = detection.track.filter(|t| t.0 >= 0) else {
                continue;
            };
            // A visible track keeps its remembered side, wherever it is.
            self.sides.touch(track);
            let points = self.anchors.iter().map(|&a| detection.bbox.anchor(a));
            let Some(side) = self.side_of(points) else {
                continue;
            };
            let Some(now) = self.remember(track, side) else {
                continue;
            };
            match now {
                Side::Left => {
                    self.count_in += 1;
                    self.crossings.crossed_in.push(i);
                }
                Side::Right => {
                    self.count_out += 1;
                    self.crossings.crossed_out.push(i);
                }
            }
        }
        &self.crossings
    }

    /// Records the side of a track; returns it when it changed.
    fn remember(&mut self, track: TrackId, side: Side) -> Option<Side> {
        let before = std::mem::replace(self.sides.touch_or_insert(track, side), side);
        (before != side).then_some(side)
    }

    /// The side of all points, when they agree and lie between the perpendiculars.
    fn side_of(&self, points: impl Iterator<Item = Point>) -> Option<Side> {
        let (dx, dy) = (self.end.x - self.start.x, self.end.y - self.start.y);
        let mut side = None;
        for p in points {
            let (ax, ay) = (p.x - self.start.x, p.y - self.start.y);
            let (bx, by) = (p.x - self.end.x, p.y - self.end.y);
            // Both bounds are exactly those of the original.
            let past_start = -(dx * ax + dy * ay) > 0.0;
            let past_end = dx * bx + dy * by > 0.0;
            let cross = dx * ay - dy * ax;
            if !cross.is_finite() || past_start != past_end {
                return None;
            }
            let this = if cross < 0.0 { Side::Left } else { Side::Right };
            if side.replace(this).is_some_and(|s| s != this) {
                return None;
            }
        }
        side
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::testing::tracked;
    use crate::geometry::BBox;
    use proptest::prelude::*;

    /// A line at y = 100 from left to right: left is above.
    fn line() -> LineCounter {
        LineCounter::new(Point::new(0.0, 100.0), Point::new(200.0, 100.0), &[])
    }

    fn at(track: i64, x: f64, y: f64) -> Detections {
        tracked(&[(track, BBox::new(x, y, x + 20.0, y + 20.0))])
    }

    fn counts(line: &LineCounter) -> (u64, u64) {
        (line.count_in(), line.count_out())
    }

    #[test]
    fn up_over_a_line_from_left_to_right_is_in_and_down_is_out() {
        let mut l = line();
        l.update(&at(1, 50.0, 150.0));
        assert_eq!(l.update(&at(1, 50.0, 40.0)).crossed_in, [0]);
        assert_eq!(counts(&l), (1, 0));
        assert_eq!(l.update(&at(1, 50.0, 150.0)).crossed_out, [0]);
        assert_eq!(counts(&l), (1, 1));
    }

    #[test]
    fn a_box_on_the_line_counts_only_when_all_of_it_has_crossed() {
        let mut l = line();
        for y in [130.0, 110.0, 95.0, 85.0, 81.0] {
            assert_eq!(*l.update(&at(1, 50.0, y)), Crossings::default(), "{y}");
        }
        assert_eq!(l.update(&at(1, 50.0, 79.0)).crossed_in, [0]);
    }

    #[test]
    fn one_anchor_crosses_as_soon_as_it_is_over() {
        let mut l = LineCounter::new(
            Point::new(0.0, 100.0),
            Point::new(200.0, 100.0),
            &[Anchor::Center],
        );
        l.update(&at(1, 50.0, 95.0));
        assert_eq!(l.update(&at(1, 50.0, 85.0)).crossed_in, [0]);
    }

    #[test]
    fn beyond_the_ends_of_the_line_nothing_counts() {
        let mut l = line();
        l.update(&at(1, 190.0, 150.0));
        l.update(&at(1, 190.0, 40.0));
        l.update(&at(2, 300.0, 150.0));
        l.update(&at(2, 300.0, 40.0));
        assert_eq!(counts(&l), (0, 0));
    }

    #[test]
    fn a_negative_track_and_a_box_without_track_are_ignored() {
        let mut l = line();
        for y in [150.0, 40.0] {
            let mut d = at(-1, 50.0, y);
            l.update(&d);
            d.boxes[0].track = None;
            l.update(&d);
        }
        assert_eq!(counts(&l), (0, 0));
    }

    #[test]
    fn a_track_that_comes_back_within_the_memory_still_crosses() {
        for (gap, expected) in [(1, (1, 0)), (2, (0, 0))] {
            let mut l = line();
            l.update(&at(1, 50.0, 150.0));
            for _ in 0..gap {
                l.update(&Detections::default());
            }
            l.update(&at(1, 50.0, 40.0));
            assert_eq!(counts(&l), expected, "gap of {gap}");
        }
    }

    proptest! {
        #[test]
        fn the_two_counts_of_one_track_never_differ_by_more_than_one(
            path in proptest::collection::vec((any::<f64>(), -50.0f64..250.0), 1..80)
        ) {
            let mut l = line();
            for (x, y) in path {
                l.update(&at(1, x.rem_euclid(180.0), y));
            }
            prop_assert!(l.count_in().abs_diff(l.count_out()) <= 1);
        }

        #[test]
        fn any_number_is_harmless(v in proptest::collection::vec(proptest::num::f64::ANY, 12)) {
            let mut l = LineCounter::new(Point::new(v[0], v[1]), Point::new(v[2], v[3]), &[]);
            l.update(&tracked(&[(1, BBox::new(v[4], v[5], v[6], v[7]))]));
            l.update(&tracked(&[(1, BBox::new(v[8], v[9], v[10], v[11]))]));
        }
    }
}
