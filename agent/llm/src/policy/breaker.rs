//! Circuit breaker: suspends a provider that keeps failing.
//!
//! - After [`BreakerRules::failures`] failures in a row nothing is sent for
//!   [`BreakerRules::pause`]; then one call probes the provider.
//! - A provider that refuses the key or the account is suspended for
//!   [`BreakerRules::refusal_pause`], and so is a model that does not exist.
//! - No suspension is final: the operator may fix the cause at the provider.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::attempt_error::{AttemptErrorKind, Blame};

/// Maximum models with their own suspension.
const MAX_MODELS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRules {
    /// Failures in a row after which the provider is suspended.
    pub failures: u32,
    pub pause: Duration,
    /// Pause after a refusal that only the operator can resolve.
    pub refusal_pause: Duration,
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self {
            failures: 5,
            pause: Duration::from_secs(300),
            refusal_pause: Duration::from_secs(3_600),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerOpen {
    pub because: AttemptErrorKind,
    pub remaining: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BreakerPause {
    until: Instant,
    because: AttemptErrorKind,
}

/// Circuit breaker of one provider.
#[derive(Debug, Clone)]
pub struct Breaker {
    rules: BreakerRules,
    failures: u32,
    pause: Option<BreakerPause>,
    models: BTreeMap<String, BreakerPause>,
}

impl Breaker {
    pub const fn new(rules: BreakerRules) -> Self {
        Self {
            rules,
            failures: 0,
            pause: None,
            models: BTreeMap::new(),
        }
    }

    /// Admits a call to `model` at `now`. After a pause it admits one call and starts another
    /// pause, which that call's success ends: a call that is never reported blocks nothing.
    ///
    /// # Errors
    /// While the provider or the model is suspended.
    pub fn admit(&mut self, now: Instant, model: &str) -> Result<(), BreakerOpen> {
        let pause = self.rules.pause;
        for slot in [self.pause.as_mut(), self.models.get_mut(model)]
            .into_iter()
            .flatten()
        {
            let remaining = slot.until.saturating_duration_since(now);
            if !remaining.is_zero() {
                let because = slot.because;
                return Err(BreakerOpen { because, remaining });
            }
            slot.until = now + pause;
        }
        Ok(())
    }

    /// Takes back an admission of `admitted` whose call was not made: the next call probes instead.
    pub(crate) fn withdraw(&mut self, admitted: Instant, model: &str) {
        let probing = admitted + self.rules.pause;
        let pauses = [self.pause.as_mut(), self.models.get_mut(model)];
        let pauses = pauses.into_iter().flatten();
        for pause in pauses.filter(|pause| pause.until == probing) {
            pause.until = admitted;
        }
    }

    /// Returns the longest suspension of the provider or one of its models at `now`.
    pub fn open_at(&self, now: Instant) -> Option<BreakerOpen> {
        let pauses = self.pause.iter().chain(self.models.values());
        let open = pauses.map(|pause| BreakerOpen {
            because: pause.because,
            remaining: pause.until.saturating_duration_since(now),
        });
        open.filter(|open| !open.remaining.is_zero())
            .max_by_key(|open| open.remaining)
    }

    /// Records that an attempt was answered, usable or not.
    pub(crate) fn record_success(&mut self, model: &str) {
        self.failures = 0;
        self.pause = None;
        self.models.remove(model);
    }

    /// Records that an attempt failed at `now`.
    pub fn record_failure(&mut self, now: Instant, model: &str, because: AttemptErrorKind) {
        let refused = BreakerPause {
            until: now + self.rules.refusal_pause,
            because,
        };
        match because.blame() {
            Blame::None => self.record_success(model),
            Blame::RefusesAll => self.pause = Some(refused),
            Blame::RefusesModel => {
                if self.models.len() >= MAX_MODELS {
                    self.models.clear();
                }
                self.models.insert(model.to_owned(), refused);
            }
            Blame::Fails => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= self.rules.failures {
                    let until = now + self.rules.pause;
                    self.pause = Some(BreakerPause { until, because });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "m";

    fn minutes(n: u64) -> Duration {
        Duration::from_secs(60 * n)
    }

    #[test]
    fn five_failures_suspend_five_minutes_then_one_call_probes() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..4 {
            breaker.record_failure(start, MODEL, AttemptErrorKind::Server);
        }
        assert_eq!(breaker.admit(start, MODEL), Ok(()));
        breaker.record_failure(start, MODEL, AttemptErrorKind::Unreachable);
        let open = BreakerOpen {
            because: AttemptErrorKind::Unreachable,
            remaining: minutes(5),
        };
        assert_eq!(breaker.admit(start, MODEL), Err(open));
        let later = start + minutes(5);
        assert_eq!(breaker.admit(later, MODEL), Ok(()));
        assert!(breaker.admit(later, MODEL).is_err(), "only one probes");
        breaker.record_success(MODEL);
        assert_eq!(breaker.admit(later, MODEL), Ok(()));
    }

    #[test]
    fn probe_that_is_never_reported_blocks_for_one_pause_only() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..5 {
            breaker.record_failure(start, MODEL, AttemptErrorKind::Server);
        }
        assert_eq!(breaker.admit(start + minutes(5), MODEL), Ok(()));
        assert_eq!(breaker.admit(start + minutes(10), MODEL), Ok(()));
    }

    #[test]
    fn withdrawn_probe_is_left_to_the_next_call() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..5 {
            breaker.record_failure(start, MODEL, AttemptErrorKind::Server);
        }
        let later = start + minutes(5);
        assert_eq!(breaker.admit(later, MODEL), Ok(()));
        breaker.withdraw(later, MODEL);
        assert_eq!(breaker.admit(later, MODEL), Ok(()));
        breaker.record_failure(later, MODEL, AttemptErrorKind::WrongKey);
        breaker.withdraw(later, MODEL);
        assert!(breaker.admit(later, MODEL).is_err(), "a newer refusal");
    }

    #[test]
    fn wrong_key_suspends_all_models_missing_model_only_itself() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        breaker.record_failure(start, MODEL, AttemptErrorKind::NotFound);
        assert!(breaker.admit(start, MODEL).is_err());
        assert_eq!(breaker.admit(start, "other"), Ok(()));
        breaker.record_failure(start, "other", AttemptErrorKind::WrongKey);
        assert!(breaker.admit(start + minutes(59), "third").is_err());
        assert_eq!(breaker.admit(start + minutes(60), "third"), Ok(()));
    }

    #[test]
    fn refusal_of_the_model_resets_the_provider_s_failures() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..4 {
            breaker.record_failure(start, MODEL, AttemptErrorKind::Server);
        }
        breaker.record_failure(start, MODEL, AttemptErrorKind::Refused);
        breaker.record_failure(start, MODEL, AttemptErrorKind::Server);
        assert_eq!(breaker.admit(start, MODEL), Ok(()));
    }
}
