//! Stays in a zone: which object was there, from when to when.
//!
//! - The counts of a run and the events of rules read the same stays, so they can't differ.
//! - A stay is of an object: a track and those that continue it ([`Succession`]). It begins with
//!   the first sight in the zone and ends after a [`Grace`] without one. Its duration ends with
//!   the last sight.
//! - A stay counts as a visit once it has lasted the least dwell time, or at its first sight where
//!   frames are rarer than that. A shorter one is a stray box.
//! - A stay of a still object ([`StillTracks`](super::StillTracks)) counts once it is not still.
//! - A track is the first of at most one open stay.
//! - Frames that no detector looked at keep a stay open and add nothing.
//! - At most [`MAX_OPEN`] stays are open; further objects are ignored and counted. At most
//!   [`MAX_LISTED`] visits are listed; the oldest are dropped.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::pipeline::{Visit, ZoneVisits};

use super::grace::{GRACE_S, Grace};
use super::succession::{ObjectId, Succession};
use crate::detections::Detection;

pub const MAX_LISTED: usize = 1000;
pub const MAX_OPEN: usize = 1000;
/// Seconds in a zone after which a stay counts as a visit.
pub const LEAST_DWELL_S: f64 = 0.5;

/// One unbroken presence of one object in a zone. Times are seconds of source time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stay {
    /// Counts from 1 in order of the starts, stray boxes included.
    pub number: u64,
    object: ObjectId,
    /// Track at the first sight.
    pub first_track: TrackId,
    pub track: TrackId,
    /// Time of the first sight.
    pub enter_s: f64,
    /// Time of the latest sight.
    pub last_s: f64,
    /// Time of the latest sight or hold.
    pub kept_s: f64,
    /// Time of the sight from which on it counts as a visit; `None` while it is too short.
    pub counted_s: Option<f64>,
    /// Whether each of its tracks was still at each sight; then it is no visit.
    #[serde(default)]
    pub is_still: bool,
}

impl Stay {
    /// Seconds from the first to the latest sight.
    pub fn dwell_s(&self) -> f64 {
        self.last_s - self.enter_s
    }

    fn visit(&self) -> Visit {
        Visit {
            track: self.first_track,
            enter_s: self.enter_s,
            dwell_s: self.dwell_s(),
        }
    }
}

/// The stays of one zone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Visits {
    grace: Grace,
    least_dwell_s: f64,
    objects: Succession,
    last_number: u64,
    count: u64,
    unwatched: u64,
    /// Stays that ended as too short.
    #[serde(default)]
    too_short: u64,
    /// Stays that ended as those of still objects.
    #[serde(default)]
    still: u64,
    /// In order of their start.
    open: Vec<Stay>,
    closed: VecDeque<Visit>,
    /// Stays that ended in the latest frame; reuses its memory.
    #[serde(skip)]
    ended: Vec<Stay>,
}

impl Default for Visits {
    fn default() -> Self {
        Self::new(GRACE_S, LEAST_DWELL_S)
    }
}

impl Visits {
    /// Creates an empty list. A stay ends after `grace_s` seconds of absence, or a few frames when
    /// those are rarer; it counts after `least_dwell_s` seconds.
    pub fn new(grace_s: f64, least_dwell_s: f64) -> Self {
        Self {
            grace: Grace::new(grace_s),
            least_dwell_s,
            objects: Succession::default(),
            last_number: 0,
            count: 0,
            unwatched: 0,
            too_short: 0,
            still: 0,
            open: Vec::new(),
            closed: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    /// Processes a frame at `time_s` seconds of source time: all boxes of the tracker, one a
    /// track, and those `inside` the zone. `is_still` tells which tracks are of still objects.
    /// Ignores a time that is not finite.
    pub fn observe<'a>(
        &mut self,
        tracked: impl Iterator<Item = &'a Detection> + Clone,
        inside: impl Iterator<Item = &'a Detection>,
        is_still: impl Fn(TrackId) -> bool,
        time_s: f64,
    ) {
        self.ended.clear();
        if !time_s.is_finite() {
            return;
        }
        let grace_s = self.grace.next(time_s);
        self.objects.observe_boxes(tracked, time_s);
        self.close(|stay| time_s - stay.kept_s > grace_s);
        for d in inside {
            let object = d.track.and_then(|track| self.objects.object(track));
            if let (Some(object), Some(track)) = (object, d.track) {
                self.see(object, track, d.held, time_s);
            }
        }
        // One look tells nothing about change.
        let is_rare = self.grace.usual_s().is_some_and(|s| s >= LEAST_DWELL_S);
        for stay in &mut self.open {
            if stay.counted_s.is_some() || stay.last_s != time_s {
                continue;
            }
            stay.is_still &= !is_rare && is_still(stay.track);
            let is_long = stay.dwell_s() >= self.least_dwell_s || is_rare;
            if is_long && !stay.is_still {
                stay.counted_s = Some(time_s);
                self.count += 1;
            }
        }
    }

    fn see(&mut self, object: ObjectId, track: TrackId, is_held: bool, time_s: f64) {
        let open = self.open.iter();
        // A track that is back beside its successor keeps its stay; the successor begins another.
        let own = (open.clone().position(|s| s.object == object))
            .or_else(|| open.clone().position(|s| s.first_track == track));
        if let Some(stay) = own.and_then(|n| self.open.get_mut(n)) {
            stay.object = object;
            stay.kept_s = stay.kept_s.max(time_s);
            if !is_held {
                stay.last_s = stay.last_s.max(time_s);
                stay.track = track;
            }
        } else if is_held {
            // A held box is not a sight: it begins nothing.
        } else if self.open.len() >= MAX_OPEN {
            self.unwatched = self.unwatched.saturating_add(1);
        } else {
            self.last_number += 1;
            self.open.push(Stay {
                number: self.last_number,
                object,
                first_track: track,
                track,
                enter_s: time_s,
                last_s: time_s,
                kept_s: time_s,
                counted_s: None,
                is_still: true,
            });
        }
    }

    /// Ends every stay at the end of the source.
    pub fn finish(&mut self) {
        self.ended.clear();
        self.close(|_| true);
    }

    /// The open stays in order of their start, those too short to count included.
    pub fn open(&self) -> &[Stay] {
        &self.open
    }

    /// The stays that ended in the latest frame or by [`finish`](Self::finish), in order of their
    /// start, those too short to count included.
    pub fn ended(&self) -> &[Stay] {
        &self.ended
    }

    /// Number of visits, open ones included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How often an object was ignored because too many were there.
    pub fn unwatched(&self) -> u64 {
        self.unwatched
    }

    /// All visits, open ones included, in order of their start.
    pub fn summary(&self) -> ZoneVisits {
        let present = self.open.iter().filter(|stay| stay.counted_s.is_some());
        let mut visits: Vec<Visit> = self.closed.iter().copied().collect();
        visits.extend(present.clone().map(Stay::visit));
        visits.sort_by(|a, b| a.enter_s.total_cmp(&b.enter_s).then(a.track.cmp(&b.track)));
        visits.drain(..visits.len().saturating_sub(MAX_LISTED));
        ZoneVisits {
            count: self.count,
            present: u32::try_from(present.count()).unwrap_or(u32::MAX),
            visits,
            too_short: self.too_short,
            still: self.still
                + self
                    .open
                    .iter()
                    .filter(|stay| self.is_long_still(stay))
                    .count() as u64,
        }
    }

    fn is_long_still(&self, stay: &Stay) -> bool {
        stay.is_still && stay.dwell_s() >= self.least_dwell_s
    }

    /// Ends the stays that are over, and lists them as visits if they count.
    fn close(&mut self, is_over: impl Fn(&Stay) -> bool) {
        let ended = &mut self.ended;
        ended.extend(self.open.extract_if(.., |stay| is_over(stay)));
        for stay in &*ended {
            if stay.counted_s.is_none() {
                let is_long = stay.dwell_s() >= self.least_dwell_s;
                self.still += u64::from(is_long);
                self.too_short += u64::from(!is_long);
                continue;
            }
            if self.closed.len() == MAX_LISTED {
                self.closed.pop_front();
            }
            self.closed.push_back(stay.visit());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detections::Detections;
    use crate::detections::testing::tracked;
    use crate::geometry::BBox;
    use proptest::prelude::*;

    /// Shows the objects `seen` and `held`, each far from the others and under its own track.
    fn show(
        v: &mut Visits,
        seen: impl IntoIterator<Item = i64>,
        held: impl IntoIterator<Item = i64>,
        time_s: f64,
    ) {
        let at = |track: i64| {
            let x = track as f64 * 200.0;
            (track, BBox::new(x, 0.0, x + 40.0, 80.0))
        };
        let mut frame = tracked(&seen.into_iter().map(at).collect::<Vec<_>>());
        let mut still = tracked(&held.into_iter().map(at).collect::<Vec<_>>());
        for d in &mut still.boxes {
            d.held = true;
        }
        frame.boxes.append(&mut still.boxes);
        observe(v, &frame, time_s);
    }

    fn observe(v: &mut Visits, frame: &Detections, time_s: f64) {
        v.observe(frame.boxes.iter(), frame.boxes.iter(), |_| false, time_s);
    }

    #[test]
    fn stay_of_a_still_object_counts_once_it_is_not_still() {
        let mut v = Visits::default();
        let frame = tracked(&[(1, BBox::new(0.0, 0.0, 40.0, 80.0))]);
        let mut show = |n: u32, is_still: bool| {
            let boxes = frame.boxes.iter();
            v.observe(boxes.clone(), boxes, |_| is_still, f64::from(n) / 10.0);
            let summary = v.summary();
            (summary.count, summary.still)
        };
        let before: Vec<_> = (0..20).map(|n| show(n, true)).collect();
        assert_eq!((before[3], before[19]), ((0, 0), (0, 1)));
        assert_eq!(show(20, false), (1, 0));
        assert_eq!(v.summary().visits[0].dwell_s, 2.0);
    }

    #[test]
    fn track_beside_its_successor_keeps_its_visit() {
        let mut v = Visits::default();
        let at = |track, x: f64| (track, BBox::new(x, 0.0, x + 40.0, 80.0));
        let alone = |track| tracked(&[at(track, 0.0)]);
        let both = tracked(&[at(1, 30.0), at(2, 4.0)]);
        let frames = [vec![alone(1); 8], vec![alone(2); 4], vec![both; 12]].concat();
        for (n, frame) in frames.iter().enumerate() {
            observe(&mut v, frame, n as f64 / 10.0);
            let mut first: Vec<_> = v.open().iter().map(|stay| stay.first_track).collect();
            first.dedup();
            assert_eq!(first.len(), v.open().len());
        }
        let seen: Vec<_> = v.summary().visits.iter().map(|v| v.track.0).collect();
        assert_eq!(seen, [1, 2]);
    }

    #[test]
    fn a_visit_lasts_from_the_first_to_the_last_sight() {
        let mut v = Visits::default();
        for t in 10..15 {
            show(&mut v, [3], [], f64::from(t));
        }
        show(&mut v, [], [], 20.0);
        let s = v.summary();
        assert_eq!((s.count, s.present), (1, 0));
        assert_eq!(
            s.visits,
            [Visit {
                track: TrackId(3),
                enter_s: 10.0,
                dwell_s: 4.0
            }]
        );
    }

    #[test]
    fn a_short_absence_does_not_break_a_visit_and_a_long_one_does() {
        let mut v = Visits::new(2.0, 0.0);
        for t in [0.0, 0.1, 0.2, 2.2] {
            show(&mut v, [3], [], t);
        }
        assert_eq!(v.summary().count, 1);
        show(&mut v, [3], [], 4.3);
        let s = v.summary();
        assert_eq!((s.count, s.present), (2, 1));
        assert_eq!(s.visits[0].dwell_s, 2.2);
    }

    #[test]
    fn new_track_in_the_place_of_a_lost_one_continues_its_visit() {
        let mut v = Visits::default();
        let at = |x: f64| BBox::new(x, 0.0, x + 40.0, 80.0);
        for n in 0..10 {
            observe(
                &mut v,
                &tracked(&[(1, at(f64::from(n)))]),
                f64::from(n) / 10.0,
            );
        }
        observe(&mut v, &tracked(&[]), 1.0);
        for n in 20..30 {
            let frame = tracked(&[(7, at(f64::from(n))), (8, at(400.0))]);
            observe(&mut v, &frame, f64::from(n) / 10.0);
        }
        let s = v.summary();
        assert_eq!((s.count, s.present), (2, 2));
        assert_eq!((s.visits[0].track, s.visits[0].dwell_s), (TrackId(1), 2.9));
        assert_eq!(s.visits[1].track, TrackId(8));
    }

    #[test]
    fn stray_box_is_no_visit() {
        let mut v = Visits::default();
        for n in 0..5 {
            show(&mut v, [1], [], f64::from(n) / 10.0);
        }
        assert_eq!((v.summary().count, v.open().len()), (0, 1));
        for n in 5..40 {
            show(&mut v, [], [], f64::from(n) / 10.0);
        }
        assert_eq!((v.summary().count, v.summary().too_short), (0, 1));
        show(&mut v, [1], [], 4.0);
        v.finish();
        assert_eq!((v.summary().count, v.summary().too_short), (0, 2));
    }

    #[test]
    fn one_sight_is_a_visit_where_looks_are_rare() {
        let mut v = Visits::default();
        for look in 0..9 {
            show(&mut v, (look == 3).then_some(1), [], f64::from(look) * 5.0);
        }
        let s = v.summary();
        assert_eq!((s.count, s.present, s.visits[0].dwell_s), (1, 0, 0.0));
    }

    #[test]
    fn presence_at_every_look_is_one_visit_at_any_look_rate() {
        let mut v = Visits::default();
        for look in 0..20 {
            show(&mut v, [3], [], f64::from(look) * 5.0);
        }
        // Two frames miss it and the third finds it again; after three more the visit ends.
        show(&mut v, [], [], 100.0);
        show(&mut v, [], [], 105.0);
        show(&mut v, [3], [], 110.0);
        assert_eq!((v.summary().count, v.summary().present), (1, 1));
        for look in 23..28 {
            show(&mut v, [], [], f64::from(look) * 5.0);
        }
        let s = v.summary();
        assert_eq!((s.count, s.present, s.visits[0].dwell_s), (1, 0, 110.0));
    }

    #[test]
    fn an_open_visit_is_listed_with_its_time_so_far() {
        let mut v = Visits::new(2.0, 0.0);
        show(&mut v, [1], [], 5.0);
        show(&mut v, [1, 2], [], 6.5);
        let s = v.summary();
        assert_eq!((s.count, s.present), (2, 2));
        assert_eq!(s.visits[0].dwell_s, 1.5);
        v.finish();
        assert_eq!(v.summary().present, 0);
        assert_eq!(v.summary().visits, s.visits);
    }

    #[test]
    fn a_track_that_is_held_keeps_its_visit_and_makes_it_no_longer() {
        let mut v = Visits::new(2.0, 0.0);
        show(&mut v, [1], [], 0.0);
        for t in 1..=9 {
            show(&mut v, [], [1, 2], f64::from(t));
        }
        let s = v.summary();
        assert_eq!((s.count, s.present, s.visits[0].dwell_s), (1, 1, 0.0));
        show(&mut v, [1], [], 10.0);
        assert_eq!(
            (v.summary().count, v.summary().visits[0].dwell_s),
            (1, 10.0)
        );
    }

    #[test]
    fn a_visit_that_is_over_is_not_revived_by_being_held() {
        let mut v = Visits::new(2.0, 0.0);
        show(&mut v, [1], [], 0.0);
        show(&mut v, [1], [], 1.0);
        show(&mut v, [], [1], 600.0);
        let s = v.summary();
        assert_eq!((s.present, s.visits[0].dwell_s), (0, 1.0));
    }

    #[test]
    fn the_list_is_bounded_and_the_count_is_not() {
        let mut v = Visits::new(0.0, 0.0);
        for i in 0..2500 {
            show(&mut v, [i], [], i as f64 * 0.1);
        }
        let s = v.summary();
        assert_eq!(s.count, 2500);
        assert_eq!(s.visits.len(), MAX_LISTED);
        assert_eq!(s.visits[0].track, TrackId(1500));
    }

    #[test]
    fn objects_beyond_the_bound_are_ignored_and_counted() {
        let mut v = Visits::new(2.0, 0.0);
        let most = MAX_OPEN as i64;
        show(&mut v, 0..most + 2, [], 0.0);
        assert_eq!((v.summary().count, v.unwatched()), (MAX_OPEN as u64, 2));
    }

    proptest! {
        #[test]
        fn every_visit_is_counted_once_and_lasts_long_enough(
            frames in proptest::collection::vec((0u8..16, 0.0f64..0.45), 1..200)
        ) {
            let (mut v, mut t) = (Visits::default(), 0.0);
            let mut ended = 0;
            for (mask, dt) in frames {
                t += dt;
                show(&mut v, (0..4).filter(|b| mask >> b & 1 == 1), [], t);
                ended += v.ended().iter().filter(|s| s.counted_s.is_some()).count();
            }
            v.finish();
            ended += v.ended().iter().filter(|s| s.counted_s.is_some()).count();
            let s = v.summary();
            prop_assert_eq!(s.count as usize, s.visits.len());
            prop_assert_eq!(s.count as usize, ended);
            prop_assert!(s.visits.iter().all(|x| x.dwell_s >= LEAST_DWELL_S));
        }
    }
}
