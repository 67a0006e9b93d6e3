//! Measures how many frames a pipeline could look at, and at how many it looks.

use std::time::Instant;

use watchkeeper_contract::pipeline::{DetectMode, LookRate, PipelineSpec, RateLimit};

use crate::capture::rate::Meter;
use crate::load::Grant;

/// Share of the wanted rate below which a pipeline counts as limited: rates are counted in whole
/// frames over five seconds.
const LIMITED_BELOW: f64 = 0.9;

/// Rates of one pipeline over the last seconds.
#[derive(Debug, Default)]
pub(super) struct LookMeter {
    offered: Meter,
    looked: Meter,
    /// Frames that the subscription had been offered at the last count.
    last_offered: u64,
}

impl LookMeter {
    /// Begins a subscription, which has been offered nothing.
    pub(super) fn begin(&mut self) {
        self.last_offered = 0;
    }

    /// Counts a frame that the pipeline took; its subscription has been offered `offered` in all.
    pub(super) fn count(&mut self, offered: u64, is_looked_at: bool, now: Instant) {
        let newer = offered.saturating_sub(self.last_offered);
        self.last_offered = offered;
        self.offered.count_many(now, newer);
        if is_looked_at {
            self.looked.count(now);
        }
    }

    /// Frames a second that the pipeline looks at.
    pub(super) fn looked_fps(&self, now: Instant) -> f64 {
        self.looked.fps(now)
    }

    /// Frames a second that it would look at.
    pub(super) fn wanted_fps(&self, spec: &PipelineSpec, now: Instant) -> f64 {
        wanted_fps(spec, self.offered.fps(now))
    }

    pub(super) fn rate(&self, spec: &PipelineSpec, grant: Grant, now: Instant) -> LookRate {
        let (wanted_fps, looked_fps) = (self.wanted_fps(spec, now), self.looked_fps(now));
        let is_hot = grant.is_paused || grant.max_fps.is_some_and(|most| most < wanted_fps);
        let limited_by = if is_hot {
            Some(RateLimit::Heat)
        } else {
            (looked_fps < wanted_fps * LIMITED_BELOW).then_some(RateLimit::Capacity)
        };
        LookRate {
            wanted_fps,
            looked_fps,
            limited_by,
        }
    }
}

/// Frames a second that a pipeline would look at: those of its source, within its own limits.
pub fn wanted_fps(spec: &PipelineSpec, offered_fps: f64) -> f64 {
    let periodic = match spec.detect {
        DetectMode::Periodic { every_s } => Some(1.0 / every_s),
        DetectMode::Always | DetectMode::OnMotion { .. } => None,
    };
    let limits = spec.target_fps.into_iter().chain(periodic);
    limits.fold(offered_fps, f64::min)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn spec(more: serde_json::Value) -> PipelineSpec {
        let mut spec = json!({"id": "p", "source": "s", "workflow": {}});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        serde_json::from_value(spec).expect("a specification")
    }

    /// Ten seconds of a camera of 20 frames a second, of which each `nth` is taken.
    fn measured(nth: u32) -> (LookMeter, Instant) {
        let (mut meter, start) = (LookMeter::default(), Instant::now());
        let frames = (0..200_u32).step_by(nth as usize);
        for n in frames {
            meter.count(
                u64::from(n + 1),
                true,
                start + Duration::from_millis(50) * n,
            );
        }
        (meter, start + Duration::from_secs(10))
    }

    #[test]
    fn overwritten_frames_show_as_limited_by_capacity() {
        let (meter, now) = measured(4);
        let rate = meter.rate(&spec(json!({})), Grant::default(), now);
        assert!((rate.wanted_fps - 20.0).abs() < 1.0, "{rate:?}");
        assert!((rate.looked_fps - 5.0).abs() < 0.5, "{rate:?}");
        assert_eq!(rate.limited_by, Some(RateLimit::Capacity));
    }

    #[test]
    fn pipeline_within_its_own_target_is_not_limited() {
        let (meter, now) = measured(4);
        for more in [
            json!({"target_fps": 5.0}),
            json!({"detect": {"mode": "periodic", "every_s": 0.2}}),
        ] {
            let rate = meter.rate(&spec(more), Grant::default(), now);
            assert_eq!(rate.limited_by, None, "{rate:?}");
            assert!((rate.wanted_fps - 5.0).abs() < f64::EPSILON, "{rate:?}");
        }
    }

    #[test]
    fn heat_is_named_before_capacity() {
        let (meter, now) = measured(4);
        let grant = Grant {
            max_fps: Some(10.0),
            ..Grant::default()
        };
        let rate = meter.rate(&spec(json!({})), grant, now);
        assert_eq!(rate.limited_by, Some(RateLimit::Heat));
    }
}
