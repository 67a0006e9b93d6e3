//! Decides by its time whether a frame is looked at.
//!
//! - `detect = periodic` holds for every source.
//! - `target_fps` and the rate that heat leaves hold for cameras, and for recordings at their own
//!   pace, which drop late frames anyway. In other recordings every frame counts.

use std::time::Duration;

use watchkeeper_contract::pipeline::{DetectMode, PipelineSpec};
use watchkeeper_vision::frame::Frame;

use crate::capture::rate::Limiter;

/// The limits of one pipeline.
#[derive(Debug)]
pub(super) struct Pace {
    every_s: Option<f64>,
    last_run_s: Option<f64>,
    target_fps: Option<f64>,
    /// The lower one of `target_fps` and the granted rate.
    limit_fps: Option<f64>,
    limiter: Option<Limiter>,
    /// Whether a recording is limited too.
    drops_late: bool,
}

impl Pace {
    pub(super) fn new(spec: &PipelineSpec) -> Self {
        Self {
            every_s: match spec.detect {
                DetectMode::Periodic { every_s } => Some(every_s),
                DetectMode::Always | DetectMode::OnMotion { .. } => None,
            },
            last_run_s: None,
            target_fps: spec.target_fps,
            limit_fps: spec.target_fps,
            limiter: Limiter::new(spec.target_fps),
            drops_late: false,
        }
    }

    /// Sets the rate that is granted, in frames a second, and whether late frames are dropped.
    pub(super) fn limit(&mut self, granted_fps: Option<f64>, drops_late: bool) {
        self.drops_late = drops_late;
        let limits = self.target_fps.into_iter().chain(granted_fps);
        let limit = limits.reduce(f64::min);
        if limit != self.limit_fps {
            self.limit_fps = limit;
            self.limiter = Limiter::new(limit);
        }
    }

    /// Whether the frame of source time `now` is looked at.
    pub(super) fn admit(&mut self, frame: &Frame, now: Duration) -> bool {
        let is_limited = !frame.recorded || self.drops_late;
        let limiter = self.limiter.as_mut().filter(|_| is_limited);
        if limiter.is_some_and(|limiter| !limiter.admit(now)) {
            return false;
        }
        let Some(every) = self.every_s else {
            return true;
        };
        let time_s = now.as_secs_f64();
        // A tolerance of a millisecond keeps "every second" on the frame of that second.
        let due = self
            .last_run_s
            .is_none_or(|last| time_s - last >= every - 1e-3 || time_s < last);
        if due {
            self.last_run_s = Some(time_s);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_vision::frame::testing::rgb_frame;

    use super::*;

    /// Frames of ten seconds at 20 frames a second that are looked at.
    fn looked(pace: &mut Pace, recorded: bool) -> usize {
        let frame = Frame {
            recorded,
            ..rgb_frame(4, 4, [0; 3])
        };
        let times = (0..200).map(|n| Duration::from_millis(50) * n);
        times.filter(|now| pace.admit(&frame, *now)).count()
    }

    fn pace(target_fps: f64) -> Pace {
        let spec = json!({"id": "p", "source": "s", "workflow": {}, "target_fps": target_fps});
        Pace::new(&serde_json::from_value(spec).expect("a specification"))
    }

    #[test]
    fn camera_is_looked_at_with_the_lower_rate() {
        let mut pace = pace(10.0);
        assert_eq!(looked(&mut pace, false), 100);
        pace.limit(Some(2.0), true);
        assert_eq!(looked(&mut pace, false), 20);
        pace.limit(Some(15.0), true);
        assert_eq!(looked(&mut pace, false), 100);
    }

    #[test]
    fn every_frame_of_a_recording_is_looked_at() {
        let mut pace = pace(1.0);
        pace.limit(Some(1.0), false);
        assert_eq!(looked(&mut pace, true), 200);
    }

    #[test]
    fn recording_at_its_own_pace_is_limited_as_a_camera() {
        let mut pace = pace(5.0);
        pace.limit(None, true);
        assert_eq!(looked(&mut pace, true), 50);
    }
}
