//! Rate of requests: a bucket of tokens that fills evenly within a minute. Sans-IO.

use std::time::{Duration, Instant};

const MINUTE_S: f64 = 60.0;

/// Requests that may be sent.
#[derive(Debug)]
pub(super) struct Rate {
    per_minute: f64,
    /// May be negative: requests that wait have taken theirs.
    tokens: f64,
    filled_at: Option<Instant>,
}

impl Rate {
    pub(super) fn new(per_minute: u32) -> Self {
        let per_minute = f64::from(per_minute.max(1));
        Self {
            per_minute,
            tokens: per_minute,
            filled_at: None,
        }
    }

    /// Takes a token and returns the wait until it is there; `None` if that is over `max_wait`.
    pub(super) fn take(&mut self, now: Instant, max_wait: Duration) -> Option<Duration> {
        let since = self.filled_at.replace(now).unwrap_or(now);
        let filled = now.duration_since(since).as_secs_f64() * self.per_minute / MINUTE_S;
        self.tokens = (self.tokens + filled).min(self.per_minute);
        let missing = (1.0 - self.tokens).max(0.0);
        let wait = Duration::from_secs_f64(missing * MINUTE_S / self.per_minute);
        if wait > max_wait {
            return None;
        }
        self.tokens -= 1.0;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_over_the_rate_wait_and_then_are_refused() {
        let start = Instant::now();
        let mut rate = Rate::new(12);
        let most = Duration::from_secs(10);
        for _ in 0..12 {
            assert_eq!(rate.take(start, most), Some(Duration::ZERO));
        }
        assert_eq!(rate.take(start, most), Some(Duration::from_secs(5)));
        assert_eq!(rate.take(start, most), Some(Duration::from_secs(10)));
        assert_eq!(rate.take(start, most), None);
        assert!(rate.take(start + Duration::from_secs(60), most).is_some());
    }
}
