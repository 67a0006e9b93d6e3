//! The usual interval between frames, and how late a frame is.
//!
//! Nominal rates do not show an outage: a slow box, or a pipeline that looks every two seconds,
//! sees fewer frames than the camera makes. So the usual interval is the median of the latest ones,
//! which one outage does not change.
//!
//! - Pure; remembers [`REMEMBERED`] intervals.
//! - Time that stands still or goes back counts as no time.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Remembered intervals; odd, so that the median is one of them.
pub const REMEMBERED: usize = 9;
/// Usual intervals after which frames are missing. Cameras jitter by one or two, and a box under
/// load drops two or three.
pub const LATE: f64 = 4.0;

/// Time between two frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passed {
    /// In source time.
    pub seconds: f64,
    /// In usual intervals; 1 while the usual one is unknown.
    pub intervals: f64,
}

impl Passed {
    /// Whether frames are missing in between.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.intervals > LATE
    }
}

/// The rhythm of a stream of frames.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Cadence {
    last_s: Option<f64>,
    recent: VecDeque<f64>,
}

impl Cadence {
    /// Records a frame's source time in seconds; `None` for the first frame.
    pub fn next(&mut self, time_s: f64) -> Option<Passed> {
        if !time_s.is_finite() {
            return None;
        }
        let last = self.last_s.replace(time_s)?;
        let seconds = (time_s - last).max(0.0);
        let intervals = self.usual_s().map_or(1.0, |usual| seconds / usual);
        if seconds > 0.0 {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(seconds);
        }
        Some(Passed { seconds, intervals })
    }

    /// The usual interval in seconds, over 0, once known.
    #[must_use]
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
    #[must_use]
    pub fn fps(&self) -> Option<f64> {
        let known = self.recent.len() == REMEMBERED;
        self.usual_s().filter(|_| known).map(|s| 1.0 / s)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
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
    }
}
