//! How many events each hour of the day usually has, per camera.
//!
//! An hour is learned when it is over. Two kinds of hours are not learned: one in which a camera
//! was not live throughout, and one that was not checked from start to end. An outage must not
//! count as a quiet hour.
//!
//! Invariants:
//! - At most [`MAX_CAMERAS`] cameras.
//! - The weight of old days falls with each new one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Zoned;
use serde::{Deserialize, Deserializer, Serialize};
use watchkeeper_contract::id::SourceId;

use super::input::Hour;

/// Limit of cameras with a rhythm; further ones have none.
pub const MAX_CAMERAS: usize = 64;
/// Days over which an hour is averaged.
const AVERAGED_DAYS: f64 = 14.0;
/// Limit of hours between two checks: beyond it, nothing is learned.
const MAX_GAP: i64 = 2;

/// Event counts of one hour of the day of one camera.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usual {
    /// Number of days that the hour was learned from.
    pub days: u32,
    /// Average number of events.
    pub mean: f64,
    /// Number of consecutive days with events, up to the last one.
    #[serde(rename = "lively")]
    pub active_days: u32,
}

/// Rhythms of all cameras.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Rhythm {
    cameras: BTreeMap<SourceId, Vec<Usual>>,
    /// The hour that is not closed yet; absent if an earlier build wrote it in another form.
    #[serde(default, deserialize_with = "readable_hour")]
    open: Option<Hour>,
    /// Events of the open hour.
    counts: BTreeMap<SourceId, u64>,
    /// Cameras live at every check of the open hour; absent before its first check.
    #[serde(rename = "steady")]
    always_live: Option<BTreeSet<SourceId>>,
    /// Whether the open hour was checked from its start.
    #[serde(rename = "whole")]
    is_complete: bool,
}

/// An hour that is over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClosedHour {
    /// Hour of the day, 0 to 23.
    pub hour: u8,
    /// Cameras live throughout, with their events and what was usual before.
    pub cameras: Vec<(SourceId, u64, Usual)>,
}

impl Rhythm {
    /// Adds the events since the last check and the live cameras. Returns the hours that ended and
    /// were checked from start to end, oldest first.
    pub(crate) fn take<'e>(
        &mut self,
        at: &Zoned,
        events: impl IntoIterator<Item = (&'e SourceId, Hour)>,
        live: &[SourceId],
        is_cut: bool,
    ) -> Vec<ClosedHour> {
        let events: Vec<(&SourceId, Hour)> = events.into_iter().collect();
        let now = Hour::from_zoned(at);
        let passed = self.open.map(|open| (open, now.number - open.number));
        let known = passed.filter(|(_, hours)| !is_cut && (0..=MAX_GAP).contains(hours));
        let Some((open, hours)) = known else {
            // Records are missing or the clock was set: the open hour is not learned.
            self.begin(now, false);
            self.count(&events, now, live);
            return Vec::new();
        };
        self.count(&events, open, live);
        let mut closed = Vec::new();
        for ago in (0..hours).rev() {
            closed.extend(self.close());
            let hour = Hour::before(at, ago);
            self.begin(hour, true);
            self.count(&events, hour, live);
        }
        closed
    }

    /// Events of the open hour.
    pub(crate) fn so_far(&self, camera: &SourceId) -> u64 {
        self.counts.get(camera).copied().unwrap_or(0)
    }

    /// Usual count in `hour`, 0 to 23.
    pub(crate) fn usual(&self, camera: &SourceId, hour: u8) -> Usual {
        let hours = self.cameras.get(camera);
        let usual = hours.and_then(|hours| hours.get(usize::from(hour)));
        usual.copied().unwrap_or_default()
    }

    /// Forgets all other cameras.
    pub(crate) fn keep_only(&mut self, cameras: &[SourceId]) {
        self.cameras.retain(|id, _| cameras.contains(id));
    }

    fn begin(&mut self, hour: Hour, is_complete: bool) {
        self.open = Some(hour);
        self.is_complete = is_complete;
        self.counts.clear();
        self.always_live = None;
    }

    fn count(&mut self, events: &[(&SourceId, Hour)], hour: Hour, live: &[SourceId]) {
        for (camera, at) in events {
            let has_place = self.counts.contains_key(*camera) || self.counts.len() < MAX_CAMERAS;
            if at.number == hour.number && has_place {
                *self.counts.entry((*camera).clone()).or_default() += 1;
            }
        }
        match &mut self.always_live {
            Some(cameras) => cameras.retain(|id| live.contains(id)),
            None => self.always_live = Some(live.iter().take(MAX_CAMERAS).cloned().collect()),
        }
    }

    fn close(&mut self) -> Option<ClosedHour> {
        let hour = self.open.filter(|_| self.is_complete)?.hour;
        let mut cameras = Vec::new();
        for camera in self.always_live.take().unwrap_or_default() {
            let count = self.so_far(&camera);
            let usual = self.usual(&camera, hour);
            if self.cameras.len() < MAX_CAMERAS || self.cameras.contains_key(&camera) {
                let hours = self.cameras.entry(camera.clone()).or_default();
                hours.resize(24, Usual::default());
                if let Some(learned) = hours.get_mut(usize::from(hour)) {
                    *learned = learn(usual, count);
                }
            }
            cameras.push((camera, count, usual));
        }
        Some(ClosedHour { hour, cameras })
    }
}

fn readable_hour<'de, D: Deserializer<'de>>(stored: D) -> Result<Option<Hour>, D::Error> {
    let stored = serde_json::Value::deserialize(stored)?;
    Ok(serde_json::from_value(stored).unwrap_or_default())
}

/// Updates the usual count with one more day.
fn learn(before: Usual, count: u64) -> Usual {
    let days = before.days.saturating_add(1);
    let weight = f64::from(days).min(AVERAGED_DAYS);
    let count_of = count as f64;
    Usual {
        days,
        mean: before.mean + (count_of - before.mean) / weight,
        active_days: if count > 0 {
            before.active_days.saturating_add(1)
        } else {
            0
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use jiff::SignedDuration;
    use jiff::civil::date;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    fn gate() -> SourceId {
        SourceId::new("gate").unwrap()
    }

    /// Berlin: in 2026 clocks go forward on 29 March and back on 25 October.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn hour(day: i8, hour: i8) -> Zoned {
        let at = date(2026, 11, day).at(hour, 0, 0, 0);
        at.to_zoned(berlin()).unwrap()
    }

    /// Checks twice an hour through these days; from 8 to 9 the gate has `events` events.
    fn lived(days: std::ops::RangeInclusive<i8>, events: u64) -> Rhythm {
        let (gate, mut rhythm) = (gate(), Rhythm::default());
        for day in days {
            for at in 0..24 {
                let now = hour(day, at);
                let new = if at == 8 { events } else { 0 };
                let live = std::slice::from_ref(&gate);
                let events = (0..new).map(|_| (&gate, Hour::from_zoned(&now)));
                rhythm.take(&now, events, live, false);
                rhythm.take(&now, [], live, false);
            }
        }
        rhythm
    }

    #[test]
    fn hour_is_learned_when_it_is_over() {
        let rhythm = lived(1..=5, 12);
        let usual = rhythm.usual(&gate(), 8);
        assert_eq!((usual.days, usual.mean, usual.active_days), (5, 12.0, 5));
        assert_eq!(rhythm.usual(&gate(), 9).mean, 0.0);
        // The first hour was not checked from its start, the last is not over.
        assert_eq!(rhythm.usual(&gate(), 0).days, 4);
        assert_eq!(rhythm.usual(&gate(), 23).days, 4);
    }

    #[test]
    fn hour_with_camera_out_is_not_learned() {
        let (gate, mut rhythm) = (gate(), lived(1..=5, 12));
        rhythm.take(&hour(6, 7), [], std::slice::from_ref(&gate), false);
        rhythm.take(&hour(6, 8), [], &[], false);
        rhythm.take(&hour(6, 9), [], std::slice::from_ref(&gate), false);
        assert_eq!(rhythm.usual(&gate, 8).days, 5);
        assert_eq!(rhythm.usual(&gate, 8).active_days, 5);
    }

    #[test]
    fn gap_or_clock_change_teaches_nothing() {
        let (gate, mut rhythm) = (gate(), lived(1..=5, 12));
        let before = rhythm.clone();
        let live = std::slice::from_ref(&gate);
        for (now, is_cut) in [(hour(9, 4), false), (hour(1, 4), false), (hour(1, 5), true)] {
            assert_eq!(rhythm.take(&now, [], live, is_cut), []);
        }
        assert_eq!(rhythm.cameras, before.cameras);
    }

    /// Checks with one event each from `start` on; returns the learned hours with their events.
    fn closed_from(start: &str, checks: i64, every_min: i64) -> Vec<(u8, u64)> {
        let start: jiff::Timestamp = start.parse().unwrap();
        let (gate, mut rhythm) = (gate(), Rhythm::default());
        let mut closed = Vec::new();
        for check in 0..checks {
            let at = start + SignedDuration::from_mins(check * every_min);
            let at = at.to_zoned(berlin());
            let event = (&gate, Hour::from_zoned(&at));
            closed.extend(rhythm.take(&at, [event], std::slice::from_ref(&gate), false));
        }
        let counts = |hour: ClosedHour| (hour.hour, hour.cameras[0].1);
        closed.into_iter().map(counts).collect()
    }

    #[test]
    fn event_counts_by_instant_whatever_the_hour_of_the_day() {
        let (gate, mut rhythm) = (gate(), Rhythm::default());
        let now = hour(1, 8);
        // As read before the box's time zone changed.
        let event = Hour {
            hour: 20,
            ..Hour::from_zoned(&now)
        };
        rhythm.take(&now, [(&gate, event)], std::slice::from_ref(&gate), false);
        assert_eq!(rhythm.so_far(&gate), 1);
    }

    #[test]
    fn open_hour_of_an_earlier_build_is_dropped_alone() {
        let rhythm = lived(1..=5, 12);
        let mut stored = serde_json::to_value(&rhythm).unwrap();
        stored["open"] = serde_json::json!({"day": "2026-11-05", "hour": 23});
        let restored: Rhythm = serde_json::from_value(stored).unwrap();
        assert_eq!((restored.cameras, restored.open), (rhythm.cameras, None));
    }

    #[test]
    fn hour_that_a_clock_change_skips_is_not_learned() {
        // 00:00 to 04:30 of local time.
        let closed = closed_from("2026-03-28T23:00:00Z", 8, 30);
        assert_eq!(closed, [(1, 2), (3, 2)]);
    }

    #[test]
    fn hour_that_a_clock_change_repeats_is_learned_twice() {
        // 00:00 to 03:30 of local time.
        let closed = closed_from("2026-10-24T22:00:00Z", 10, 30);
        assert_eq!(closed, [(1, 2), (2, 2), (2, 2)]);
    }

    #[test]
    fn two_hours_between_checks_are_both_returned() {
        let closed = closed_from("2026-11-01T11:00:00Z", 3, 120);
        assert_eq!(closed, [(13, 0), (14, 1), (15, 0)]);
    }

    proptest! {
        #[test]
        fn rhythm_stays_bounded_and_finite(inputs in prop::collection::vec((1_i8..28, 0_i8..24, 0_usize..200, any::<bool>(), any::<bool>()), 1..60)) {
            let mut rhythm = Rhythm::default();
            let ids: Vec<SourceId> = (0..100).map(|n| SourceId::new(format!("c{n}")).unwrap()).collect();
            for (day, at, events, is_live, is_cut) in inputs {
                let now = hour(day, at);
                let live: &[SourceId] = if is_live { &ids } else { &[] };
                let events = ids.iter().cycle().take(events).map(|id| (id, Hour::from_zoned(&now)));
                rhythm.take(&now, events, live, is_cut);
                prop_assert!(rhythm.cameras.len() <= MAX_CAMERAS && rhythm.counts.len() <= MAX_CAMERAS && rhythm.always_live.as_ref().is_none_or(|cameras| cameras.len() <= MAX_CAMERAS));
                prop_assert!(rhythm.cameras.values().flatten().all(|usual| usual.mean.is_finite() && usual.mean >= 0.0));
            }
        }
    }
}
