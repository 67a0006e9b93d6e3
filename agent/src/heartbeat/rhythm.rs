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

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::SourceId;

use super::input::Hour;

/// Limit of cameras with a rhythm; further ones have none.
pub const MAX_CAMERAS: usize = 64;
/// Days over which an hour is averaged.
const AVERAGED_DAYS: f64 = 14.0;
/// Limit of hours between two checks: beyond it, nothing is learned.
const MAX_GAP: usize = 2;

/// Event counts of one hour of the day of one camera.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usual {
    /// Number of days that the hour was learned from.
    pub days: u32,
    /// Average number of events.
    pub mean: f64,
    /// Number of consecutive days with events, up to the last one.
    pub lively: u32,
}

/// Rhythms of all cameras.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Rhythm {
    cameras: BTreeMap<SourceId, Vec<Usual>>,
    /// The hour that is not closed yet.
    open: Option<Hour>,
    /// Events of the open hour.
    counts: BTreeMap<SourceId, u64>,
    /// Cameras live at every check of the open hour; absent before its first check.
    steady: Option<BTreeSet<SourceId>>,
    /// Whether the open hour was checked from its start.
    whole: bool,
}

/// The hour that was closed last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Closed {
    /// Cameras live throughout, with their events and what was usual before.
    pub cameras: Vec<(SourceId, u64, Usual)>,
}

impl Rhythm {
    /// Adds the events since the last check and the live cameras. Returns the hour that ended.
    pub(crate) fn take<'e>(
        &mut self,
        now: Hour,
        events: impl IntoIterator<Item = (&'e SourceId, Hour)>,
        live: &[SourceId],
        is_cut: bool,
    ) -> Option<Closed> {
        let events: Vec<(&SourceId, Hour)> = events.into_iter().collect();
        let Some(open) = self.open else {
            self.begin(now, false);
            self.count(&events, now, live);
            return None;
        };
        let hours = between(open, now);
        if is_cut || hours.is_none() {
            // Records are missing or the clock was set: the open hour is not learned.
            self.begin(now, false);
            self.count(&events, now, live);
            return None;
        }
        self.count(&events, open, live);
        let mut closed = None;
        let mut hour = open;
        for _ in 0..hours.unwrap_or(0) {
            closed = self.close(hour);
            hour = hour.next();
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

    fn begin(&mut self, hour: Hour, whole: bool) {
        self.open = Some(hour);
        self.whole = whole;
        self.counts.clear();
        self.steady = None;
    }

    fn count(&mut self, events: &[(&SourceId, Hour)], hour: Hour, live: &[SourceId]) {
        for (camera, at) in events {
            if *at == hour && (self.counts.contains_key(*camera) || self.counts.len() < MAX_CAMERAS)
            {
                *self.counts.entry((*camera).clone()).or_default() += 1;
            }
        }
        match &mut self.steady {
            Some(steady) => steady.retain(|id| live.contains(id)),
            None => self.steady = Some(live.iter().take(MAX_CAMERAS).cloned().collect()),
        }
    }

    fn close(&mut self, hour: Hour) -> Option<Closed> {
        if !self.whole {
            return None;
        }
        let mut closed = Closed::default();
        for camera in self.steady.take().unwrap_or_default() {
            let count = self.so_far(&camera);
            let usual = self.usual(&camera, hour.hour);
            if self.cameras.len() < MAX_CAMERAS || self.cameras.contains_key(&camera) {
                let hours = self.cameras.entry(camera.clone()).or_default();
                hours.resize(24, Usual::default());
                if let Some(learned) = hours.get_mut(usize::from(hour.hour)) {
                    *learned = learn(usual, count);
                }
            }
            closed.cameras.push((camera, count, usual));
        }
        Some(closed)
    }
}

/// Updates the usual count with one more day.
fn learn(before: Usual, count: u64) -> Usual {
    let days = before.days.saturating_add(1);
    let weight = f64::from(days).min(AVERAGED_DAYS);
    let count_of = count as f64;
    Usual {
        days,
        mean: before.mean + (count_of - before.mean) / weight,
        lively: if count > 0 {
            before.lively.saturating_add(1)
        } else {
            0
        },
    }
}

/// Hours from `from` to `to`; `None` if `to` is earlier, or more than [`MAX_GAP`] hours later.
fn between(from: Hour, to: Hour) -> Option<usize> {
    let mut hour = from;
    for hours in 0..=MAX_GAP {
        if hour == to {
            return Some(hours);
        }
        hour = hour.next();
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    fn gate() -> SourceId {
        SourceId::new("gate").unwrap()
    }

    fn hour(day: i8, hour: u8) -> Hour {
        Hour {
            day: date(2026, 11, day),
            hour,
        }
    }

    /// Checks twice an hour through these days; from 8 to 9 the gate has `events` events.
    fn lived(days: std::ops::RangeInclusive<i8>, events: u64) -> Rhythm {
        let (gate, mut rhythm) = (gate(), Rhythm::default());
        for day in days {
            for at in 0..24 {
                let now = hour(day, at);
                let new = if at == 8 { events } else { 0 };
                let live = std::slice::from_ref(&gate);
                rhythm.take(now, (0..new).map(|_| (&gate, now)), live, false);
                rhythm.take(now, [], live, false);
            }
        }
        rhythm
    }

    #[test]
    fn hour_is_learned_when_it_is_over() {
        let rhythm = lived(1..=5, 12);
        let usual = rhythm.usual(&gate(), 8);
        assert_eq!((usual.days, usual.mean, usual.lively), (5, 12.0, 5));
        assert_eq!(rhythm.usual(&gate(), 9).mean, 0.0);
        // The first hour was not checked from its start, the last is not over.
        assert_eq!(rhythm.usual(&gate(), 0).days, 4);
        assert_eq!(rhythm.usual(&gate(), 23).days, 4);
    }

    #[test]
    fn hour_with_camera_out_is_not_learned() {
        let (gate, mut rhythm) = (gate(), lived(1..=5, 12));
        rhythm.take(hour(6, 7), [], std::slice::from_ref(&gate), false);
        rhythm.take(hour(6, 8), [], &[], false);
        rhythm.take(hour(6, 9), [], std::slice::from_ref(&gate), false);
        assert_eq!(rhythm.usual(&gate, 8).days, 5);
        assert_eq!(rhythm.usual(&gate, 8).lively, 5);
    }

    #[test]
    fn gap_or_clock_change_teaches_nothing() {
        let (gate, mut rhythm) = (gate(), lived(1..=5, 12));
        let before = rhythm.clone();
        let live = std::slice::from_ref(&gate);
        for (now, is_cut) in [(hour(9, 4), false), (hour(1, 4), false), (hour(1, 5), true)] {
            assert_eq!(rhythm.take(now, [], live, is_cut), None);
        }
        assert_eq!(rhythm.cameras, before.cameras);
    }

    proptest! {
        #[test]
        fn rhythm_stays_bounded_and_finite(inputs in prop::collection::vec((1_i8..28, 0_u8..24, 0_usize..200, any::<bool>(), any::<bool>()), 1..60)) {
            let mut rhythm = Rhythm::default();
            let ids: Vec<SourceId> = (0..100).map(|n| SourceId::new(format!("c{n}")).unwrap()).collect();
            for (day, at, events, is_live, is_cut) in inputs {
                let now = hour(day, at);
                let live: &[SourceId] = if is_live { &ids } else { &[] };
                rhythm.take(now, ids.iter().cycle().take(events).map(|id| (id, now)), live, is_cut);
                prop_assert!(rhythm.cameras.len() <= MAX_CAMERAS && rhythm.counts.len() <= MAX_CAMERAS && rhythm.steady.as_ref().is_none_or(|steady| steady.len() <= MAX_CAMERAS));
                prop_assert!(rhythm.cameras.values().flatten().all(|usual| usual.mean.is_finite() && usual.mean >= 0.0));
            }
        }
    }
}
