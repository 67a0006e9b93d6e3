//! Grace period: how long a track may be out of sight before it counts as gone.
//!
//! A fixed time bridges missed boxes at high frame rates. At low ones, such as a look every five
//! seconds, the grace is a few intervals long.
//!
//! - Never shorter than configured.
//! - An outage does not extend the grace that judges it.

use serde::{Deserialize, Serialize};

use crate::track::Cadence;

/// Seconds for which a track may be out of sight, or a condition false, before its visit or event
/// ends, at high frame rates.
pub const GRACE_S: f64 = 2.0;
/// The grace in usual intervals, when longer than the fixed time: two frames may miss an object,
/// not three. This matches [`ByteTrack`](crate::track::ByteTrack) with a buffer shorter than an
/// interval; the half tolerates jitter.
const INTERVALS: f64 = 3.5;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Grace {
    least_s: f64,
    cadence: Cadence,
}

impl Grace {
    /// A grace of at least `least_s` seconds.
    pub fn new(least_s: f64) -> Self {
        Self {
            least_s: least_s.max(0.0),
            cadence: Cadence::default(),
        }
    }

    /// Usual seconds between two frames; `None` before the second frame.
    pub fn usual_s(&self) -> Option<f64> {
        self.cadence.usual_s()
    }

    /// Records a frame's source time in seconds; returns the grace in seconds for tracks of earlier
    /// frames.
    pub fn next(&mut self, time_s: f64) -> f64 {
        let before = self.cadence.usual_s();
        self.cadence.next(time_s);
        // The first interval counts as usual: the second frame of a slow stream is not an outage.
        let usual_s = before.or_else(|| self.cadence.usual_s());
        usual_s.map_or(self.least_s, |usual| self.least_s.max(INTERVALS * usual))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: impl IntoIterator<Item = f64>) -> f64 {
        let mut grace = Grace::new(2.0);
        times
            .into_iter()
            .map(|t| grace.next(t))
            .last()
            .unwrap_or(0.0)
    }

    #[test]
    fn quick_frames_have_the_fixed_grace() {
        assert_eq!(after((0..50).map(|n| f64::from(n) / 25.0)), 2.0);
    }

    #[test]
    fn slow_frames_have_a_few_intervals_from_the_second_on() {
        assert_eq!(after([0.0]), 2.0);
        assert_eq!(after([0.0, 5.0]), 17.5);
        assert_eq!(after((0..20).map(|n| f64::from(n) * 5.0)), 17.5);
    }

    #[test]
    fn an_outage_is_judged_by_what_was_usual_before_it() {
        assert_eq!(after([0.0, 1.0, 120.0]), 3.5);
        assert_eq!(after([0.0, 0.1, 0.2, 600.0]), 2.0);
    }
}
