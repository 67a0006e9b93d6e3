//! Measures how many frames a pipeline could look at, and at how many it looks.

use std::time::{Duration, Instant};

use watchkeeper_contract::pipeline::{DetectMode, LookRate, PipelineSpec, RateLimit};

use crate::capture::rate::{Meter, WINDOW_S};
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
    /// When frames were last counted, and the rate of the offered ones then.
    last: Option<(Instant, f64)>,
}

impl LookMeter {
    /// Begins a subscription, which has been offered nothing.
    pub(super) fn begin(&mut self) {
        (self.last_offered, self.last) = (0, None);
    }

    /// Counts a frame that the pipeline took; its subscription has been offered `offered` in all.
    pub(super) fn count(&mut self, offered: u64, is_looked_at: bool, now: Instant) {
        let newer = offered.saturating_sub(self.last_offered);
        self.last_offered = offered;
        self.offered.count_many(now, newer);
        self.last = Some((now, self.offered.fps(now)));
        if is_looked_at {
            self.looked.count(now);
        }
    }

    /// Frames a second that the pipeline looks at.
    pub(super) fn looked_fps(&self, now: Instant) -> f64 {
        self.looked.fps(now)
    }

    /// Frames a second that it would look at; its subscription has been offered `offered`, `None`
    /// without a subscription.
    pub(super) fn wanted_fps(
        &self,
        spec: &PipelineSpec,
        grant: Grant,
        offered: Option<u64>,
        now: Instant,
    ) -> f64 {
        let since = |at: Instant| now.saturating_duration_since(at);
        wanted_fps(
            spec,
            match (self.last, offered) {
                (Some((_, fps)), None) if grant.is_paused => fps,
                // It took none for so long that the meter knows none; its source offered some.
                (Some((at, _)), Some(all)) if since(at) > Duration::from_secs(WINDOW_S) => {
                    all.saturating_sub(self.last_offered) as f64 / since(at).as_secs_f64()
                }
                _ => self.offered.fps(now),
            },
        )
    }

    pub(super) fn rate(
        &self,
        spec: &PipelineSpec,
        grant: Grant,
        offered: Option<u64>,
        now: Instant,
    ) -> LookRate {
        let wanted_fps = self.wanted_fps(spec, grant, offered, now);
        let looked_fps = self.looked_fps(now);
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
        let rate = meter.rate(&spec(json!({})), Grant::default(), Some(197), now);
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
            let rate = meter.rate(&spec(more), Grant::default(), Some(197), now);
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
        let rate = meter.rate(&spec(json!({})), grant, Some(200), now);
        assert_eq!(rate.limited_by, Some(RateLimit::Heat));
    }

    #[test]
    fn pipeline_without_frames_still_wants_those_of_its_camera() {
        let (meter, now) = measured(1);
        let later = now + Duration::from_secs(60);
        let rate = |grant, offered| meter.rate(&spec(json!({})), grant, offered, later);
        let blocked = rate(Grant::default(), Some(200 + 60 * 20));
        assert!((blocked.wanted_fps - 20.0).abs() < 1.0, "{blocked:?}");
        assert_eq!(blocked.limited_by, Some(RateLimit::Capacity));
        let hot = Grant {
            is_paused: true,
            ..Grant::default()
        };
        let paused = rate(hot, None);
        assert!((paused.wanted_fps - 20.0).abs() < 1.0, "{paused:?}");
        assert_eq!(paused.limited_by, Some(RateLimit::Heat));
        for offered in [Some(200), None] {
            let silent = rate(Grant::default(), offered);
            assert!(silent.wanted_fps < 1.0, "{silent:?}");
        }
    }
}
