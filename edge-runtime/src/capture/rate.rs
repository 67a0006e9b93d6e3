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

/// Measures frames per second over the last few seconds.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Second since the start, and the frames in it.
    buckets: VecDeque<(u64, u32)>,
    start: Option<Instant>,
}

/// Seconds over which the rate is averaged.
pub(crate) const WINDOW_S: u64 = 5;

impl Meter {
    /// Counts a frame.
    pub(crate) fn count(&mut self, now: Instant) {
        self.count_many(now, 1);
    }

    /// Counts some frames.
    pub(crate) fn count_many(&mut self, now: Instant, frames: u64) {
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        let start = *self.start.get_or_insert(now);
        let second = now.saturating_duration_since(start).as_secs();
        match self.buckets.back_mut() {
            Some((s, n)) if *s == second => *n = n.saturating_add(frames),
            _ => self.buckets.push_back((second, frames)),
        }
        while self
            .buckets
            .front()
            .is_some_and(|(s, _)| s + WINDOW_S < second)
        {
            self.buckets.pop_front();
        }
    }

    /// Returns the rate over whole past seconds; in the first second, over the time so far.
    pub(crate) fn fps(&self, now: Instant) -> f64 {
        let Some(start) = self.start else {
            return 0.0;
        };
        let elapsed = now.saturating_duration_since(start);
        let second = elapsed.as_secs();
        let sum = |from: u64, to: u64| {
            let within = self.buckets.iter().filter(|(s, _)| (from..to).contains(s));
            // Summed as integers: an empty sum of floats is -0.
            within.map(|(_, n)| u64::from(*n)).sum::<u64>() as f64
        };
        if second == 0 {
            sum(0, 1) / elapsed.as_secs_f64().max(0.1)
        } else {
            let from = second.saturating_sub(WINDOW_S);
            sum(from, second) / (second - from) as f64
        }
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
    fn idle_meter_shows_positive_zero() {
        let start = Instant::now();
        let mut meter = Meter::default();
        meter.count(start);
        let fps = meter.fps(start + Duration::from_secs(3600));
        assert!(fps == 0.0 && fps.is_sign_positive(), "{fps}");
    }
}
