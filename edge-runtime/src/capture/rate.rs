//! Frame rates: an upper bound, and a measurement for the status.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Limits the frame rate by presentation time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limiter {
    interval: Duration,
    due: Duration,
}

impl Limiter {
    /// Creates a limiter in frames per second; `None` without a positive number.
    pub(crate) fn new(max_fps: Option<f64>) -> Option<Self> {
        let interval = max_fps
            .filter(|fps| *fps > 0.0)
            .and_then(|fps| Duration::try_from_secs_f64(1.0 / fps).ok())?;
        Some(Self {
            interval,
            due: Duration::ZERO,
        })
    }

    /// Whether the frame at `pts` passes. Keeps the long-term rate: 25 limited to 10 gives 10, not
    /// 8.3.
    pub(crate) fn admit(&mut self, pts: Duration) -> bool {
        // Containers round times to microseconds or coarser; a slightly early frame is on time.
        let tolerance = self.interval / 100;
        if pts + tolerance < self.due {
            return false;
        }
        let next = self.due + self.interval;
        // A pause does not allow a burst afterwards.
        self.due = if next < pts {
            pts + self.interval
        } else {
            next
        };
        true
    }
}

/// Measures frames per second over the last few seconds, from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    buckets: VecDeque<Bucket>,
    start: Option<Instant>,
}

/// The frames of one second.
#[derive(Debug)]
struct Bucket {
    /// Seconds from the meter's start to this second.
    second: u64,
    frames: u64,
    /// Time of the last frame.
    last: Instant,
}

/// Seconds over which the rate is averaged.
const WINDOW_S: u64 = 5;

impl Meter {
    /// Counts a frame.
    pub(crate) fn count(&mut self, now: Instant) {
        let start = *self.start.get_or_insert(now);
        let second = now.saturating_duration_since(start).as_secs();
        match self.buckets.back_mut() {
            Some(bucket) if bucket.second == second => {
                (bucket.frames, bucket.last) = (bucket.frames + 1, now);
            }
            _ => self.buckets.push_back(Bucket {
                second,
                frames: 1,
                last: now,
            }),
        }
        while self
            .buckets
            .front()
            .is_some_and(|oldest| oldest.second + WINDOW_S < second)
        {
            self.buckets.pop_front();
        }
    }

    /// Returns the rate; in the first second, over the time so far.
    pub(crate) fn fps(&self, now: Instant) -> f64 {
        let Some(start) = self.start else {
            return 0.0;
        };
        let elapsed = now.saturating_duration_since(start);
        let mut recent = self
            .buckets
            .iter()
            .filter(|bucket| bucket.second + WINDOW_S >= elapsed.as_secs());
        let Some(first) = recent.next() else {
            return 0.0;
        };
        let (frames, last) = recent.fold((0, first.last), |(frames, _), bucket| {
            (frames + bucket.frames, bucket.last)
        });
        if frames == 0 {
            let covered = elapsed.as_secs_f64().clamp(0.1, WINDOW_S as f64);
            return first.frames as f64 / covered;
        }
        let span = last.saturating_duration_since(first.last).as_secs_f64();
        let silence = now.saturating_duration_since(last).as_secs_f64();
        // A frame that is late by more than its interval counts as missing.
        let span = match silence > 2.0 * span / frames as f64 {
            true => span + silence,
            false => span,
        };
        frames as f64 / span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(fps: f64, max_fps: f64, frames: u32) -> usize {
        let mut limiter = Limiter::new(Some(max_fps)).expect("a bound");
        (0..frames)
            .filter(|n| limiter.admit(Duration::from_secs_f64(f64::from(*n) / fps)))
            .count()
    }

    #[test]
    fn rate_limit_holds_in_the_long_run() {
        assert_eq!(admitted(30.0, 15.0, 300), 150);
        assert!((99..=101).contains(&admitted(25.0, 10.0, 250)));
        assert_eq!(admitted(10.0, 30.0, 100), 100);
    }

    #[test]
    fn pause_allows_no_burst() {
        let mut limiter = Limiter::new(Some(10.0)).expect("a bound");
        assert!(limiter.admit(Duration::ZERO));
        assert!(limiter.admit(Duration::from_secs(60)));
        assert!(!limiter.admit(Duration::from_millis(60_050)));
    }

    #[test]
    fn invalid_rate_is_no_limit() {
        for fps in [0.0, -1.0, f64::NAN, 1e-300] {
            assert!(Limiter::new(Some(fps)).is_none(), "{fps}");
        }
    }

    #[test]
    fn meter_averages_seconds_and_falls_to_zero() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        for n in 0..100u32 {
            meter.count(start + Duration::from_millis(100) * n);
        }
        assert!((meter.fps(start + Duration::from_secs(10)) - 10.0).abs() < 0.01);
        assert!(meter.fps(start + Duration::from_secs(60)).abs() < 0.01);
    }

    #[test]
    fn meter_shows_the_rate_of_a_camera_at_any_moment() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        for n in 0..200u32 {
            let now = start + Duration::from_millis(203) * n;
            meter.count(now);
            let fps = meter.fps(now + Duration::from_millis(100));
            assert!(n < 10 || (fps - 1.0 / 0.203).abs() < 0.01, "{n}: {fps}");
        }
    }

    #[test]
    fn idle_meter_shows_positive_zero() {
        let start = Instant::now();
        let mut meter = Meter::default();
        meter.count(start);
        let fps = meter.fps(start + Duration::from_secs(3600));
        assert!(fps == 0.0 && fps.is_sign_positive(), "{fps}");
    }
}
