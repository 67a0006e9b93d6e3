//! Frame rates: an upper bound, and a measurement for people.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Lets frames through at no more than a given rate, by presentation time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limiter {
    interval: Duration,
    due: Duration,
}

impl Limiter {
    /// A bound in frames per second; none when it is absent or not a positive number.
    pub(super) fn new(max_fps: Option<f64>) -> Option<Self> {
        let interval = max_fps
            .filter(|fps| *fps > 0.0)
            .and_then(|fps| Duration::try_from_secs_f64(1.0 / fps).ok())?;
        Some(Self {
            interval,
            due: Duration::ZERO,
        })
    }

    /// Whether the frame at `pts` goes through. Keeps the long-term rate: 25 limited to 10 gives 10, not 8.3.
    pub(super) fn admit(&mut self, pts: Duration) -> bool {
        // Times are rounded to microseconds and less by containers; a frame that is a little early is on time.
        let tolerance = self.interval / 100;
        if pts + tolerance < self.due {
            return false;
        }
        let next = self.due + self.interval;
        // Far behind means a pause, which earns nothing.
        self.due = if next < pts {
            pts + self.interval
        } else {
            next
        };
        true
    }
}

/// Frames per second over the last few seconds.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Second since the start, and frames in it.
    buckets: VecDeque<(u64, u32)>,
    start: Option<Instant>,
}

/// Seconds that are looked back.
const WINDOW: u64 = 5;

impl Meter {
    /// Counts a frame.
    pub(super) fn count(&mut self, now: Instant) {
        let start = *self.start.get_or_insert(now);
        let second = now.saturating_duration_since(start).as_secs();
        match self.buckets.back_mut() {
            Some((s, n)) if *s == second => *n += 1,
            _ => self.buckets.push_back((second, 1)),
        }
        while self
            .buckets
            .front()
            .is_some_and(|(s, _)| s + WINDOW < second)
        {
            self.buckets.pop_front();
        }
    }

    /// The rate now; whole past seconds only, except in the first one.
    pub(super) fn fps(&self, now: Instant) -> f64 {
        let Some(start) = self.start else {
            return 0.0;
        };
        let elapsed = now.saturating_duration_since(start);
        let second = elapsed.as_secs();
        let sum = |from: u64, to: u64| {
            let within = self.buckets.iter().filter(|(s, _)| (from..to).contains(s));
            // In whole numbers: the sum of no floating-point number is -0.
            within.map(|(_, n)| u64::from(*n)).sum::<u64>() as f64
        };
        if second == 0 {
            sum(0, 1) / elapsed.as_secs_f64().max(0.1)
        } else {
            let from = second.saturating_sub(WINDOW);
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
    fn the_bound_is_met_in_the_long_run_also_when_the_rates_do_not_divide() {
        assert_eq!(admitted(30.0, 15.0, 300), 150);
        assert!((99..=101).contains(&admitted(25.0, 10.0, 250)));
        assert_eq!(admitted(10.0, 30.0, 100), 100);
    }

    #[test]
    fn a_pause_does_not_earn_a_burst() {
        let mut limiter = Limiter::new(Some(10.0)).expect("a bound");
        assert!(limiter.admit(Duration::ZERO));
        assert!(limiter.admit(Duration::from_secs(60)));
        assert!(!limiter.admit(Duration::from_millis(60_050)));
    }

    #[test]
    fn nonsense_is_no_bound() {
        for fps in [0.0, -1.0, f64::NAN, 1e-300] {
            assert!(Limiter::new(Some(fps)).is_none(), "{fps}");
        }
    }

    #[test]
    fn the_meter_shows_the_rate_of_the_last_seconds_and_falls_to_zero() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        for n in 0..100u32 {
            meter.count(start + Duration::from_millis(100) * n);
        }
        assert!((meter.fps(start + Duration::from_secs(10)) - 10.0).abs() < 0.01);
        assert!(meter.fps(start + Duration::from_secs(60)).abs() < 0.01);
    }

    #[test]
    fn a_meter_that_has_run_down_says_nought() {
        let start = Instant::now();
        let mut meter = Meter::default();
        meter.count(start);
        let fps = meter.fps(start + Duration::from_secs(3600));
        assert!(fps == 0.0 && fps.is_sign_positive(), "{fps}");
    }
}
