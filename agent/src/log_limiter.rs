//! Limits how often one message is logged. Pure: callers pass `now`.

use std::time::{Duration, Instant};

/// Admits one message per period and counts the others.
#[derive(Debug)]
pub(crate) struct LogLimiter {
    period: Duration,
    next_at: Option<Instant>,
    suppressed: u64,
}

impl LogLimiter {
    /// Admits one message per `period`, the first one at once.
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            period,
            next_at: None,
            suppressed: 0,
        }
    }

    /// Returns the number of messages suppressed since the last one; `None` suppresses this one
    /// too.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.next_at.is_some_and(|next_at| now < next_at) {
            self.suppressed += 1;
            return None;
        }
        self.next_at = Some(now + self.period);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_admitted_once_per_period_and_counted() {
        let start = Instant::now();
        let mut limiter = LogLimiter::new(Duration::from_secs(10));
        let admitted: Vec<_> = (0..21)
            .filter_map(|second| limiter.admit(start + Duration::from_secs(second)))
            .collect();
        assert_eq!(admitted, [0, 9, 9]);
    }
}
