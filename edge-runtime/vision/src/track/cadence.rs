//! The usual interval between frames, how late a frame is, and steps of time without repeats.
//!
//! - Nominal rates do not show an outage: a slow box, or a pipeline that looks every two seconds,
//!   sees fewer frames than the camera makes. So the usual interval is the median of the latest
//!   ones, which one outage does not change.
//! - Cameras and containers repeat time stamps, and deliver frames in bursts. The time to the next
//!   advance is divided among the frames that repeat one, so that a velocity is never divided by
//!   almost nothing. A frame alone passes exactly the time since the one before it.
//! - A repeat, and a frame out of order, count as one usual interval; the advance after it counts
//!   so much less, but at least one.
//! - Pure; remembers [`REMEMBERED`] intervals.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Remembered intervals; odd, so that the median is one of them.
pub const REMEMBERED: usize = 9;
/// Usual intervals after which frames are missing. Cameras jitter by one or two, and a box under
/// load drops two or three.
pub const LATE: f64 = 4.0;
/// Shortest interval in usual ones; jitter of half an interval stays above it.
const SHORTEST: f64 = 0.25;
/// Highest bound of the shortest interval, in seconds: a slow stream that becomes a quick one
/// repeats nothing.
const MAX_SHORTEST_S: f64 = 0.005;
/// Shortest interval while the usual one is unknown, and the shortest one remembered, in seconds.
const MIN_SHORTEST_S: f64 = 0.001;
/// Farthest step back of a frame out of order; a farther one is a clock that was set.
const MAX_REORDER_S: f64 = 1.0;
/// Longest step in seconds.
const MAX_STEP_S: f64 = 1e9;

/// Time between two frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passed {
    /// Seconds, without repeats; 0 for a repeat while the usual interval is unknown.
    pub seconds: f64,
    /// In usual intervals; 1 while the usual one is unknown.
    pub intervals: f64,
}

impl Passed {
    /// Whether frames are missing in between.
    pub fn is_late(&self) -> bool {
        self.intervals > LATE
    }
}

/// The rhythm of a stream of frames.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Cadence {
    last_s: Option<f64>,
    /// Seconds since the last advance; below 0 in a frame out of order.
    #[serde(default)]
    pending_s: f64,
    /// Frames since the last advance.
    #[serde(default)]
    repeats: u32,
    recent: VecDeque<f64>,
}

impl Cadence {
    /// Records a frame's source time in seconds; `None` for the first frame.
    pub fn next(&mut self, time_s: f64) -> Option<Passed> {
        if !time_s.is_finite() {
            return None;
        }
        let last = self.last_s.replace(time_s)?;
        let step = (time_s - last).min(MAX_STEP_S);
        let usual = self.usual_s();
        self.pending_s += step;
        if self.is_repeat(step, usual) {
            if step < -MAX_REORDER_S {
                self.pending_s = 0.0;
            }
            self.repeats = self.repeats.saturating_add(1);
            return Some(Passed {
                seconds: usual.unwrap_or(0.0),
                intervals: 1.0,
            });
        }
        let seconds = self.advance();
        Some(Passed {
            seconds,
            intervals: usual.map_or(1.0, |usual| seconds / usual),
        })
    }

    /// Whether a frame this long after the one before it repeats its time.
    fn is_repeat(&self, step: f64, usual: Option<f64>) -> bool {
        let shortest = usual.map_or(MIN_SHORTEST_S, |u| (SHORTEST * u).min(MAX_SHORTEST_S));
        // Short steps that make a whole interval are a rate that rose.
        let is_pending = usual.is_none_or(|usual| self.pending_s < usual);
        self.pending_s < shortest || step < shortest && is_pending
    }

    /// Records an advance; returns its seconds less those that its repeats counted.
    fn advance(&mut self) -> f64 {
        let passed = std::mem::take(&mut self.pending_s);
        let repeats = f64::from(std::mem::take(&mut self.repeats));
        let interval = passed / (repeats + 1.0);
        if interval >= MIN_SHORTEST_S {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(interval);
        }
        let usual = self.usual_s().unwrap_or(interval);
        if repeats > 0.0 {
            (passed - repeats * usual).max(passed.min(usual))
        } else {
            passed
        }
    }

    /// The usual interval in seconds, over 0, once known.
    pub fn usual_s(&self) -> Option<f64> {
        let mut sorted = [0.0; REMEMBERED];
        let known = sorted.get_mut(..self.recent.len())?;
        known
            .iter_mut()
            .zip(&self.recent)
            .for_each(|(s, r)| *s = *r);
        known.sort_unstable_by(f64::total_cmp);
        known.get(known.len() / 2).copied()
    }

    /// Frames per second, once enough intervals are known.
    pub fn fps(&self) -> Option<f64> {
        let known = self.recent.len() == REMEMBERED;
        self.usual_s().filter(|_| known).map(|s| 1.0 / s)
    }
}

/// A clock in the steps of a [`Cadence`], for velocities.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SmoothClock {
    cadence: Cadence,
    now_s: f64,
}

impl SmoothClock {
    /// Seconds from the first to the latest frame.
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Records a frame's source time in seconds; returns the seconds since the first frame.
    pub fn next(&mut self, time_s: f64) -> f64 {
        self.now_s += self.cadence.next(time_s).map_or(0.0, |p| p.seconds);
        self.now_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fed(times: impl IntoIterator<Item = f64>) -> (Cadence, Option<Passed>) {
        let mut c = Cadence::default();
        let last = times.into_iter().map(|t| c.next(t)).last().flatten();
        (c, last)
    }

    #[test]
    fn an_outage_is_late_and_does_not_change_what_is_usual() {
        let steady = (0..20).map(|n| f64::from(n) / 10.0);
        let (c, last) = fed(steady.chain([601.9]));
        assert!(last.unwrap().is_late());
        assert!((c.usual_s().unwrap() - 0.1).abs() < 1e-9);
        assert!((c.fps().unwrap() - 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_slow_rhythm_is_not_an_outage() {
        let (_, last) = fed((0..20).map(|n| f64::from(n) * 5.0));
        assert!(!last.unwrap().is_late());
    }

    #[test]
    fn a_rhythm_that_changes_for_good_becomes_the_usual_one() {
        let quick = (0..20).map(|n| f64::from(n) / 25.0);
        let slow = (1..20).map(|n| 1.0 + f64::from(n) * 2.0);
        let (c, last) = fed(quick.chain(slow));
        assert!(!last.unwrap().is_late());
        assert!((c.usual_s().unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn no_rate_is_told_before_there_are_enough_frames() {
        assert_eq!(fed([0.0, 0.1, 0.2]).0.fps(), None);
    }

    #[test]
    fn repeated_times_share_the_time_to_the_next_advance() {
        for repeats in 1..8 {
            // A timeline sets repeated times apart by a microsecond.
            let at =
                |n: u32| f64::from(n / repeats * repeats) / 25.0 + f64::from(n % repeats) * 1e-6;
            let mut c = Cadence::default();
            for n in 0..80 {
                let passed = c.next(at(n));
                if n > repeats {
                    let seconds = passed.unwrap().seconds;
                    assert!((seconds - 0.04).abs() < 1e-4, "{repeats} {n}: {seconds}");
                }
            }
        }
    }

    #[test]
    fn burst_after_a_gap_makes_no_frame_shorter_than_usual() {
        let mut c = Cadence::default();
        let steady = (0..20).map(|n| f64::from(n) / 10.0);
        let burst = (0..8).map(|n| 2.9 + f64::from(n) * 1e-3);
        let after = (1..20).map(|n| 2.9 + f64::from(n) / 10.0);
        let steps: Vec<f64> = steady
            .chain(burst)
            .chain(after)
            .filter_map(|t| Some(c.next(t)?.seconds))
            .collect();
        assert!((steps[19] - 1.0).abs() < 1e-9, "the gap counts");
        let others = steps.iter().enumerate().filter(|(n, _)| *n != 19);
        assert!(
            others.map(|(_, s)| s).all(|s| (s - 0.1).abs() < 0.01),
            "{steps:?}"
        );
    }

    #[test]
    fn rate_that_rises_is_followed() {
        for fps in [10.0, 30.0, 120.0] {
            let slow = (0..20).map(|n| f64::from(n) * 0.2);
            let quick = (1..120).map(|n| 3.8 + f64::from(n) / fps);
            let (c, last) = fed(slow.chain(quick));
            assert!(
                (last.unwrap().seconds - 1.0 / fps).abs() < 1e-6,
                "{fps}: {last:?}"
            );
            assert!((c.usual_s().unwrap() * fps - 1.0).abs() < 1e-6, "{fps}");
        }
    }

    #[test]
    fn clock_that_is_set_back_goes_on_from_there() {
        let before = (0..20).map(|n| 5000.0 + f64::from(n) / 10.0);
        let after = (0..20).map(|n| f64::from(n) / 10.0);
        let (_, last) = fed(before.chain(after));
        assert!((last.unwrap().seconds - 0.1).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_time_is_harmless(times in proptest::collection::vec(proptest::num::f64::ANY, 0..40)) {
            let mut c = Cadence::default();
            for t in times {
                if let Some(p) = c.next(t) {
                    prop_assert!(p.seconds >= 0.0 && p.intervals >= 0.0);
                }
                prop_assert!(c.usual_s().is_none_or(|s| s > 0.0));
            }
        }

        /// No repeat, no frame out of order and no jitter makes a step far shorter than a frame.
        #[test]
        fn steps_of_a_steady_stream_stay_near_its_interval(
            fps in 4.0f64..60.0,
            repeats in 1usize..5,
            reorder in any::<bool>(),
            jitter in proptest::collection::vec(-0.3f64..0.3, 120),
        ) {
            let mut c = Cadence::default();
            let mut passed_s = 0.0;
            for n in 0..120 {
                let shown = n / repeats * repeats;
                let is_swapped = reorder && repeats == 1 && shown % 4 < 2;
                let shown = if is_swapped { shown ^ 1 } else { shown };
                let time = (shown as f64 + jitter[shown]) / fps;
                if let Some(passed) = c.next(time).filter(|_| n > 40) {
                    passed_s += passed.seconds;
                    prop_assert!(passed.seconds * fps > 0.2, "{} {:?}", n, passed);
                    // Out of order, jitter may hide the usual interval for some frames.
                    prop_assert!(reorder || !passed.is_late(), "{} {:?}", n, passed);
                }
            }
            let wanted_s = 79.0 / fps;
            let share = passed_s / wanted_s;
            prop_assert!(share > 0.8 && share < 1.5, "{}", share);
        }
    }
}
