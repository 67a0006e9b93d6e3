//! Whether and when a failed call is retried.
//!
//! - A call has at most [`RetryRules::attempts`] attempts, none after its deadline and none sooner
//!   than the server asks for.
//! - The back-off doubles up to a ceiling with full jitter (M. Brooker, "Exponential Backoff And
//!   Jitter", AWS Architecture Blog, 2015); an overloaded provider gets at least half of it.

use std::time::{Duration, Instant};

use crate::attempt_error::{AttemptError, AttemptErrorKind, RetryAdvice};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryRules {
    /// Maximum attempts of one call, the first included.
    pub attempts: u32,
    /// First step of the back-off.
    pub first: Duration,
    /// Maximum step of the back-off.
    pub ceiling: Duration,
    /// Maximum pause that a server may ask for; the call is given up if it asks for more.
    pub max_pause: Duration,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self {
            attempts: 4,
            first: Duration::from_secs(1),
            ceiling: Duration::from_secs(60),
            max_pause: Duration::from_secs(300),
        }
    }
}

/// Decision after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Sends the request again after this pause.
    After(Duration),
    /// A request with a higher limit of output, at once.
    Larger,
    /// No attempt: it would fail again.
    GiveUp,
    /// No attempt: it would start after the deadline.
    TooLate,
}

/// The attempts of one call.
#[derive(Debug, Clone)]
pub struct Retry {
    rules: RetryRules,
    deadline: Instant,
    failed: u32,
    once_used: bool,
}

impl Retry {
    pub const fn new(rules: RetryRules, deadline: Instant) -> Self {
        Self {
            rules,
            deadline,
            failed: 0,
            once_used: false,
        }
    }

    /// Returns the number of failed attempts.
    pub const fn failed(&self) -> u32 {
        self.failed
    }

    /// Records that an attempt failed at `now`; `random` is uniform in 0..1.
    pub fn record_failure(
        &mut self,
        now: Instant,
        error: &AttemptError,
        random: f64,
    ) -> RetryDecision {
        self.failed = self.failed.saturating_add(1);
        let may = self.failed < self.rules.attempts;
        match error.retry_advice() {
            _ if !may => RetryDecision::GiveUp,
            RetryAdvice::Never => RetryDecision::GiveUp,
            RetryAdvice::Once | RetryAdvice::Larger
                if std::mem::replace(&mut self.once_used, true) =>
            {
                RetryDecision::GiveUp
            }
            RetryAdvice::Larger => self.in_time(now, Duration::ZERO, RetryDecision::Larger),
            RetryAdvice::Once => {
                self.in_time(now, Duration::ZERO, RetryDecision::After(Duration::ZERO))
            }
            RetryAdvice::Later => {
                let Some(pause) = self.pause(error, random) else {
                    return RetryDecision::GiveUp;
                };
                self.in_time(now, pause, RetryDecision::After(pause))
            }
        }
    }

    fn in_time(&self, now: Instant, pause: Duration, next: RetryDecision) -> RetryDecision {
        let begins = now.checked_add(pause);
        if begins.is_some_and(|begins| begins < self.deadline) {
            next
        } else {
            RetryDecision::TooLate
        }
    }

    fn pause(&self, error: &AttemptError, random: f64) -> Option<Duration> {
        let factor = 1_u32.checked_shl(self.failed - 1).unwrap_or(u32::MAX);
        let step = self
            .rules
            .first
            .saturating_mul(factor)
            .min(self.rules.ceiling);
        let random = random.clamp(0.0, 1.0);
        let own = match error.kind {
            AttemptErrorKind::Overloaded | AttemptErrorKind::RateLimited => {
                step / 2 + step.mul_f64(random / 2.0)
            }
            _ => step.mul_f64(random),
        };
        match error.retry_after {
            Some(asked) if asked > self.rules.max_pause => None,
            // A little later than asked for, so that a fleet does not return at once.
            Some(asked) => Some(asked.saturating_add(self.rules.first.mul_f64(random))),
            None => Some(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error(kind: AttemptErrorKind, retry_after: Option<u64>) -> AttemptError {
        AttemptError {
            retry_after: retry_after.map(Duration::from_secs),
            ..AttemptError::new(kind, "")
        }
    }

    fn retry(now: Instant) -> Retry {
        Retry::new(RetryRules::default(), now + Duration::from_secs(1_000))
    }

    #[test]
    fn permanent_error_is_not_retried() {
        let now = Instant::now();
        for kind in [
            AttemptErrorKind::WrongKey,
            AttemptErrorKind::Refused,
            AttemptErrorKind::BadRequest,
        ] {
            assert_eq!(
                retry(now).record_failure(now, &error(kind, None), 0.5),
                RetryDecision::GiveUp
            );
        }
    }

    #[test]
    fn server_advice_overrides_the_kind() {
        let now = Instant::now();
        let mut error = error(AttemptErrorKind::Server, None);
        error.should_retry = Some(false);
        assert_eq!(
            retry(now).record_failure(now, &error, 0.5),
            RetryDecision::GiveUp
        );
    }

    #[test]
    fn too_long_a_pause_ends_the_call() {
        let now = Instant::now();
        let mut long = retry(now);
        assert_eq!(
            long.record_failure(now, &error(AttemptErrorKind::RateLimited, Some(301)), 0.0),
            RetryDecision::GiveUp
        );
        let mut short = Retry::new(RetryRules::default(), now + Duration::from_secs(5));
        assert_eq!(
            short.record_failure(now, &error(AttemptErrorKind::RateLimited, Some(5)), 0.0),
            RetryDecision::TooLate
        );
    }

    #[test]
    fn truncated_call_gets_more_output_once() {
        let now = Instant::now();
        let mut retry = retry(now);
        let cut = error(AttemptErrorKind::TruncatedCall, None);
        assert_eq!(retry.record_failure(now, &cut, 0.5), RetryDecision::Larger);
        assert_eq!(retry.record_failure(now, &cut, 0.5), RetryDecision::GiveUp);
    }

    proptest! {
        #[test]
        fn attempts_and_pauses_stay_within_their_bounds(
            asked in prop::option::of(0_u64..400), random in 0.0..1.0_f64,
        ) {
            let now = Instant::now();
            let rules = RetryRules::default();
            let mut retry = retry(now);
            let error = error(AttemptErrorKind::Overloaded, asked);
            let mut made = 1;
            while let RetryDecision::After(pause) = retry.record_failure(now, &error, random) {
                made += 1;
                match asked {
                    Some(asked) => prop_assert!(pause >= Duration::from_secs(asked)),
                    None => prop_assert!(pause >= rules.first / 2 && pause <= rules.ceiling),
                }
            }
            prop_assert!(made <= rules.attempts);
            prop_assert_eq!(made == rules.attempts, asked.is_none_or(|a| a <= 300));
        }
    }
}
