//! Measures how many frames a pipeline could look at, and at how many it looks.

use std::time::Instant;

use watchkeeper_contract::pipeline::{DetectMode, LookRate, PipelineSpec, RateLimit};

use crate::capture::rate::Meter;
use crate::load::Grant;

/// Share of the wanted rate below which a pipeline counts as limited.
const LIMITED_BELOW: f64 = 0.9;

/// Lowest wanted rate of which a meter sees enough looks.
const MIN_MEASURED_FPS: f64 = 0.5;

/// Rates of one pipeline over the last seconds.
#[derive(Debug, Default)]
pub(super) struct LookMeter {
    looked: Meter,
    /// Rate of the source at the last frame.
    offered_fps: f64,
}

impl LookMeter {
    /// Counts a frame that the pipeline took from a source of this rate.
    pub(super) fn count(&mut self, offered_fps: f64, is_looked_at: bool, now: Instant) {
        self.offered_fps = offered_fps;
        if is_looked_at {
            self.looked.count(now);
        }
    }

    /// Frames a second that the pipeline looks at.
    pub(super) fn looked_fps(&self, now: Instant) -> f64 {
        self.looked.fps(now)
    }

    /// Frames a second that it would look at; its source offers `offered_fps`, `None` without a
    /// subscription.
    pub(super) fn wanted_fps(
        &self,
        spec: &PipelineSpec,
        grant: Grant,
        offered_fps: Option<f64>,
    ) -> f64 {
        // Heat ends the subscription, not the wish.
        let last = grant.is_paused.then_some(self.offered_fps);
        wanted_fps(spec, offered_fps.or(last).unwrap_or_default())
    }

    pub(super) fn rate(
        &self,
        spec: &PipelineSpec,
        grant: Grant,
        offered_fps: Option<f64>,
        now: Instant,
    ) -> LookRate {
        let wanted_fps = self.wanted_fps(spec, grant, offered_fps);
        let looked_fps = self.looked_fps(now);
        let is_hot = grant.is_paused || grant.max_fps.is_some_and(|most| most < wanted_fps);
        let limited_by = if is_hot {
            Some(RateLimit::Heat)
        } else {
            let is_limited = looked_fps < wanted_fps * LIMITED_BELOW;
            (is_limited && wanted_fps >= MIN_MEASURED_FPS).then_some(RateLimit::Capacity)
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
        for n in (0..200_u32).step_by(nth as usize) {
            meter.count(20.0, true, start + Duration::from_millis(50) * n);
        }
        (meter, start + Duration::from_secs(10))
    }

    #[test]
    fn overwritten_frames_show_as_limited_by_capacity() {
        let (meter, now) = measured(4);
        let rate = meter.rate(&spec(json!({})), Grant::default(), Some(20.0), now);
        assert!((rate.looked_fps - 5.0).abs() < 0.01, "{rate:?}");
        assert_eq!(rate.limited_by, Some(RateLimit::Capacity));
    }

    #[test]
    fn pipeline_within_its_own_target_is_not_limited() {
        let (meter, now) = measured(4);
        for more in [
            json!({"target_fps": 5.0}),
            json!({"detect": {"mode": "periodic", "every_s": 0.2}}),
        ] {
            let rate = meter.rate(&spec(more), Grant::default(), Some(20.0), now);
            assert_eq!(rate.limited_by, None, "{rate:?}");
            assert!((rate.wanted_fps - 5.0).abs() < f64::EPSILON, "{rate:?}");
        }
    }

    #[test]
    fn rare_looks_are_not_limited_between_two_of_them() {
        let (meter, now) = measured(200);
        let spec = spec(json!({"detect": {"mode": "periodic", "every_s": 50.0}}));
        let rate = meter.rate(&spec, Grant::default(), Some(20.0), now);
        assert_eq!((rate.looked_fps, rate.limited_by), (0.0, None), "{rate:?}");
    }

    #[test]
    fn heat_is_named_before_capacity() {
        let (meter, now) = measured(4);
        let grant = Grant {
            max_fps: Some(10.0),
            ..Grant::default()
        };
        let rate = meter.rate(&spec(json!({})), grant, Some(20.0), now);
        assert_eq!(rate.limited_by, Some(RateLimit::Heat));
    }

    #[test]
    fn pipeline_paused_by_heat_still_wants_the_frames_of_its_camera() {
        let (meter, now) = measured(1);
        let later = now + Duration::from_secs(60);
        let rate = |grant| meter.rate(&spec(json!({})), grant, None, later);
        let hot = Grant {
            is_paused: true,
            ..Grant::default()
        };
        let paused = rate(hot);
        assert_eq!(
            (paused.wanted_fps, paused.limited_by),
            (20.0, Some(RateLimit::Heat))
        );
        let left = rate(Grant::default());
        assert_eq!((left.wanted_fps, left.limited_by), (0.0, None));
    }
}
