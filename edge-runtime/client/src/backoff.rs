//! Exponential back-off with jitter. Sans-IO: callers add the delay to their own `now`.
//!
//! - A delay is at most the ceiling and at least half of the nominal step.
//! - The same seed gives the same delays.
//! - The jitter is "equal" (half fixed, half random): it spreads a fleet after a common outage, but
//!   never retries at once. M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
//!   2015.

use std::time::Duration;

/// Back-off that doubles from a first step up to a ceiling.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    ceiling: Duration,
    attempts: u32,
    rng: fastrand::Rng,
}

impl Backoff {
    /// Creates a back-off with nominal steps `first`, `2 × first`, … up to `ceiling`.
    pub fn new(first: Duration, ceiling: Duration, seed: u64) -> Self {
        Self {
            first,
            ceiling: ceiling.max(first),
            attempts: 0,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns the delay before the next attempt; each call counts as one failure.
    pub fn next_delay(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        let nominal = self.first.saturating_mul(factor).min(self.ceiling);
        self.attempts = self.attempts.saturating_add(1);
        nominal / 2 + nominal.mul_f64(self.rng.f64() / 2.0)
    }

    /// Number of failures since the last success.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns to the first step, after a success.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reset_returns_to_the_first_step() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), 7);
        for _ in 0..5 {
            backoff.next_delay();
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_secs(1));
    }

    proptest! {
        #[test]
        fn delay_is_between_half_the_step_and_the_ceiling(seed: u64, n in 0_u32..80) {
            let first = Duration::from_millis(500);
            let ceiling = Duration::from_secs(30);
            let mut backoff = Backoff::new(first, ceiling, seed);
            for i in 0..n {
                let nominal = first.saturating_mul(1_u32.checked_shl(i).unwrap_or(u32::MAX)).min(ceiling);
                let delay = backoff.next_delay();
                prop_assert!(delay >= nominal / 2, "{delay:?} < {nominal:?}/2");
                prop_assert!(delay <= ceiling);
            }
        }

        #[test]
        fn same_seed_gives_the_same_delays(seed: u64) {
            let make = || Backoff::new(Duration::from_millis(100), Duration::from_secs(5), seed);
            let (mut a, mut b) = (make(), make());
            for _ in 0..20 {
                prop_assert_eq!(a.next_delay(), b.next_delay());
            }
        }
    }
}
