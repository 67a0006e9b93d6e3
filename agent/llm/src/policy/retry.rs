//! Whether and when a failed call is made again.
//!
//! Invariant: a call is made at most [`RetryRules::attempts`] times, never after its deadline, and never sooner than the server asked for.
//! The back-off doubles up to a ceiling with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015); an overloaded
//! provider gets at least half of it.

use std::time::{Duration, Instant};

use crate::fault::{Again, Fault, FaultKind};

/// The numbers of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryRules {
    /// Most attempts of one call, the first included.
    pub attempts: u32,
    /// First step of the back-off.
    pub first: Duration,
    /// Longest step of the back-off.
    pub ceiling: Duration,
    /// Longest pause a server may ask for; if it asks for more the call is given up.
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

/// What is to be done after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The same request, after this long.
    After(Duration),
    /// A request with room for more output, at once.
    Larger,
    /// Nothing: it will not get better.
    GiveUp,
    /// Nothing: the next attempt would begin after the deadline.
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
    /// None made yet.
    #[must_use]
    pub const fn new(rules: RetryRules, deadline: Instant) -> Self {
        Self {
            rules,
            deadline,
            failed: 0,
            once_used: false,
        }
    }

    /// Attempts that failed.
    #[must_use]
    pub const fn failed(&self) -> u32 {
        self.failed
    }

    /// Takes in that an attempt failed at `now`; `random` is uniform in 0..1.
    pub fn failed_at(&mut self, now: Instant, fault: &Fault, random: f64) -> Next {
        self.failed = self.failed.saturating_add(1);
        let may = self.failed < self.rules.attempts;
        match fault.again() {
            _ if !may => Next::GiveUp,
            Again::Never => Next::GiveUp,
            Again::Once | Again::Larger if std::mem::replace(&mut self.once_used, true) => {
                Next::GiveUp
            }
            Again::Larger => self.in_time(now, Duration::ZERO, Next::Larger),
            Again::Once => self.in_time(now, Duration::ZERO, Next::After(Duration::ZERO)),
            Again::Later => {
                let Some(pause) = self.pause(fault, random) else {
                    return Next::GiveUp;
                };
                self.in_time(now, pause, Next::After(pause))
            }
        }
    }

    fn in_time(&self, now: Instant, pause: Duration, next: Next) -> Next {
        let begins = now.checked_add(pause);
        if begins.is_some_and(|begins| begins < self.deadline) {
            next
        } else {
            Next::TooLate
        }
    }

    fn pause(&self, fault: &Fault, random: f64) -> Option<Duration> {
        let factor = 1_u32.checked_shl(self.failed - 1).unwrap_or(u32::MAX);
        let step = self
            .rules
            .first
            .saturating_mul(factor)
            .min(self.rules.ceiling);
        let random = random.clamp(0.0, 1.0);
        let own = match fault.kind {
            FaultKind::Overloaded | FaultKind::RateLimited => step / 2 + step.mul_f64(random / 2.0),
            _ => step.mul_f64(random),
        };
        match fault.retry_after {
            Some(asked) if asked > self.rules.max_pause => None,
            // A little later than asked for, so that a fleet does not come back at once.
            Some(asked) => Some(asked.saturating_add(self.rules.first.mul_f64(random))),
            None => Some(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(kind: FaultKind, retry_after: Option<u64>) -> Fault {
        Fault {
            retry_after: retry_after.map(Duration::from_secs),
            ..Fault::new(kind, "")
        }
    }

    fn retry(now: Instant) -> Retry {
        Retry::new(RetryRules::default(), now + Duration::from_secs(1_000))
    }

    #[test]
    fn what_will_not_get_better_is_not_tried_again() {
        let now = Instant::now();
        for kind in [
            FaultKind::WrongKey,
            FaultKind::Refused,
            FaultKind::BadRequest,
        ] {
            assert_eq!(
                retry(now).failed_at(now, &fault(kind, None), 0.5),
                Next::GiveUp
            );
        }
    }

    #[test]
    fn the_server_s_word_goes_before_the_kind() {
        let now = Instant::now();
        let mut said = fault(FaultKind::Server, None);
        said.server_says_again = Some(false);
        assert_eq!(retry(now).failed_at(now, &said, 0.5), Next::GiveUp);
    }

    #[test]
    fn a_pause_longer_than_is_allowed_or_than_there_is_time_ends_the_call() {
        let now = Instant::now();
        let mut long = retry(now);
        assert_eq!(
            long.failed_at(now, &fault(FaultKind::RateLimited, Some(301)), 0.0),
            Next::GiveUp
        );
        let mut short = Retry::new(RetryRules::default(), now + Duration::from_secs(5));
        assert_eq!(
            short.failed_at(now, &fault(FaultKind::RateLimited, Some(5)), 0.0),
            Next::TooLate
        );
    }

    #[test]
    fn a_truncated_call_gets_more_room_once() {
        let now = Instant::now();
        let mut retry = retry(now);
        let cut = fault(FaultKind::TruncatedCall, None);
        assert_eq!(retry.failed_at(now, &cut, 0.5), Next::Larger);
        assert_eq!(retry.failed_at(now, &cut, 0.5), Next::GiveUp);
    }

    proptest! {
        #[test]
        fn attempts_are_bounded_pauses_are_in_bounds_and_never_shorter_than_asked_for(
            asked in prop::option::of(0_u64..400), random in 0.0..1.0_f64,
        ) {
            let now = Instant::now();
            let rules = RetryRules::default();
            let mut retry = retry(now);
            let fault = fault(FaultKind::Overloaded, asked);
            let mut made = 1;
            while let Next::After(pause) = retry.failed_at(now, &fault, random) {
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
