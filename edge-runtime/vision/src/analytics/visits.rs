//! Visits of a zone: who came when and stayed how long.
//!
//! - A visit begins with a track's first sight in the zone and ends after a [`Grace`] without one.
//!   Its duration ends with the last sight.
//! - Frames that no detector looked at keep a visit open and add nothing.
//! - Visits are numbered in order of their start. At most [`MAX_LISTED`] are listed and
//!   [`MAX_OPEN`] open; the oldest are dropped.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::pipeline::{Visit, ZoneVisits};

use super::grace::{GRACE_S, Grace};

/// Bound of the listed visits.
pub const MAX_LISTED: usize = 1000;
/// Bound of the open visits.
pub const MAX_OPEN: usize = 1000;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Open {
    track: TrackId,
    enter_s: f64,
    last_s: f64,
    /// Time of the last sight or hold.
    kept_s: f64,
}

impl Open {
    fn visit(&self) -> Visit {
        Visit {
            track: self.track,
            enter_s: self.enter_s,
            dwell_s: self.last_s - self.enter_s,
        }
    }
}

/// The visits of one zone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Visits {
    grace: Grace,
    count: u64,
    /// In order of their start.
    open: VecDeque<Open>,
    closed: VecDeque<Visit>,
}

impl Default for Visits {
    fn default() -> Self {
        Self::new(GRACE_S)
    }
}

impl Visits {
    /// Creates an empty list; a visit ends after `grace_s` seconds of absence, or a few frames when
    /// those are rarer.
    #[must_use]
    pub fn new(grace_s: f64) -> Self {
        Self {
            grace: Grace::new(grace_s),
            count: 0,
            open: VecDeque::new(),
            closed: VecDeque::new(),
        }
    }

    /// Processes a frame at `time_s` seconds of source time: the tracks `seen` in the zone, and
    /// those `held` there because nothing moved. Ignores a time that is not finite.
    pub fn observe(
        &mut self,
        seen: impl IntoIterator<Item = TrackId>,
        held: impl IntoIterator<Item = TrackId>,
        time_s: f64,
    ) {
        if !time_s.is_finite() {
            return;
        }
        let grace_s = self.grace.next(time_s);
        self.close(|o| time_s - o.kept_s > grace_s);
        for track in held {
            if let Some(open) = self.open.iter_mut().find(|o| o.track == track) {
                open.kept_s = open.kept_s.max(time_s);
            }
        }
        for track in seen {
            if let Some(open) = self.open.iter_mut().find(|o| o.track == track) {
                open.last_s = open.last_s.max(time_s);
                open.kept_s = open.kept_s.max(time_s);
                continue;
            }
            if self.open.len() == MAX_OPEN
                && let Some(oldest) = self.open.pop_front()
            {
                self.list(oldest.visit());
            }
            self.count += 1;
            self.open.push_back(Open {
                track,
                enter_s: time_s,
                last_s: time_s,
                kept_s: time_s,
            });
        }
    }

    /// Ends every visit at the end of the source.
    pub fn finish(&mut self) {
        self.close(|_| true);
    }

    /// All visits, open ones included, in order of their start.
    #[must_use]
    pub fn summary(&self) -> ZoneVisits {
        let mut visits: Vec<Visit> = self.closed.iter().copied().collect();
        visits.extend(self.open.iter().map(Open::visit));
        visits.sort_by(|a, b| a.enter_s.total_cmp(&b.enter_s).then(a.track.cmp(&b.track)));
        visits.drain(..visits.len().saturating_sub(MAX_LISTED));
        ZoneVisits {
            count: self.count,
            present: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
            visits,
        }
    }

    fn close(&mut self, over: impl Fn(&Open) -> bool) {
        let mut ended = Vec::new();
        self.open.retain(|o| {
            let ends = over(o);
            if ends {
                ended.push(o.visit());
            }
            !ends
        });
        for visit in ended {
            self.list(visit);
        }
    }

    fn list(&mut self, visit: Visit) {
        if self.closed.len() == MAX_LISTED {
            self.closed.pop_front();
        }
        self.closed.push_back(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_visit_lasts_from_the_first_to_the_last_sight() {
        let mut v = Visits::default();
        for t in 10..15 {
            v.observe([TrackId(3)], [], f64::from(t));
        }
        v.observe([], [], 20.0);
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
        let mut v = Visits::new(2.0);
        for t in [0.0, 0.1, 0.2, 2.2] {
            v.observe([TrackId(3)], [], t);
        }
        assert_eq!(v.summary().count, 1);
        v.observe([TrackId(3)], [], 4.3);
        let s = v.summary();
        assert_eq!((s.count, s.present), (2, 1));
        assert_eq!(s.visits[0].dwell_s, 2.2);
    }

    #[test]
    fn who_is_seen_at_every_look_makes_one_visit_however_rare_the_looks_are() {
        let mut v = Visits::default();
        for look in 0..20 {
            v.observe([TrackId(3)], [], f64::from(look) * 5.0);
        }
        // Two frames miss it and the third finds it again; after three more the visit ends.
        v.observe([], [], 100.0);
        v.observe([], [], 105.0);
        v.observe([TrackId(3)], [], 110.0);
        assert_eq!((v.summary().count, v.summary().present), (1, 1));
        for look in 23..28 {
            v.observe([], [], f64::from(look) * 5.0);
        }
        let s = v.summary();
        assert_eq!((s.count, s.present, s.visits[0].dwell_s), (1, 0, 110.0));
    }

    #[test]
    fn an_open_visit_is_listed_with_its_time_so_far() {
        let mut v = Visits::default();
        v.observe([TrackId(1)], [], 5.0);
        v.observe([TrackId(1), TrackId(2)], [], 6.5);
        let s = v.summary();
        assert_eq!((s.count, s.present), (2, 2));
        assert_eq!(s.visits[0].dwell_s, 1.5);
        v.finish();
        assert_eq!(v.summary().present, 0);
        assert_eq!(v.summary().visits, s.visits);
    }

    #[test]
    fn a_track_that_is_held_keeps_its_visit_and_makes_it_no_longer() {
        let mut v = Visits::new(2.0);
        v.observe([TrackId(1)], [], 0.0);
        for t in 1..=9 {
            v.observe([], [TrackId(1), TrackId(2)], f64::from(t));
        }
        let s = v.summary();
        assert_eq!((s.count, s.present, s.visits[0].dwell_s), (1, 1, 0.0));
        v.observe([TrackId(1)], [], 10.0);
        assert_eq!(
            (v.summary().count, v.summary().visits[0].dwell_s),
            (1, 10.0)
        );
    }

    #[test]
    fn a_visit_that_is_over_is_not_revived_by_being_held() {
        let mut v = Visits::new(2.0);
        v.observe([TrackId(1)], [], 0.0);
        v.observe([TrackId(1)], [], 1.0);
        v.observe([], [TrackId(1)], 600.0);
        let s = v.summary();
        assert_eq!((s.present, s.visits[0].dwell_s), (0, 1.0));
    }

    #[test]
    fn the_list_is_bounded_and_the_count_is_not() {
        let mut v = Visits::new(0.0);
        for i in 0..2500 {
            v.observe([TrackId(i)], [], i as f64 * 0.1);
        }
        let s = v.summary();
        assert_eq!(s.count, 2500);
        assert_eq!(s.visits.len(), MAX_LISTED);
        assert_eq!(s.visits[0].track, TrackId(1500));
    }

    proptest! {
        #[test]
        fn every_entry_is_counted_once_and_no_dwell_is_negative(
            frames in proptest::collection::vec((0u8..16, 0.0f64..1.5), 1..200)
        ) {
            let (mut v, mut t) = (Visits::new(2.0), 0.0);
            for (mask, dt) in frames {
                t += dt;
                v.observe((0..4).filter(|b| mask >> b & 1 == 1).map(TrackId), [], t);
            }
            v.finish();
            let s = v.summary();
            prop_assert_eq!(s.count as usize, s.visits.len());
            prop_assert!(s.visits.iter().all(|x| x.dwell_s >= 0.0));
        }
    }
}
