//! Leaves a provider alone that fails all the time.
//!
//! Invariant: after [`BreakerRules::failures`] failures in a row nothing is sent for [`BreakerRules::rest`], then one call that finds out; a provider that refuses
//! the key or the account is left alone for [`BreakerRules::refusal_rest`], and so is a model that does not exist. A box is thus never blocked for ever
//! by what a person mended at the provider.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::fault::{Blame, FaultKind};

/// Most models about which something is remembered.
const MAX_MODELS: usize = 64;

/// The numbers of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRules {
    /// Failures in a row after which the provider is left alone.
    pub failures: u32,
    /// For how long.
    pub rest: Duration,
    /// For how long when it refuses.
    pub refusal_rest: Duration,
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self {
            failures: 5,
            rest: Duration::from_secs(300),
            refusal_rest: Duration::from_secs(3_600),
        }
    }
}

/// The provider is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resting {
    /// Why.
    pub because: FaultKind,
    /// For how much longer.
    pub remaining: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rest {
    until: Instant,
    because: FaultKind,
}

/// What is known about one provider's health.
#[derive(Debug, Clone)]
pub struct Breaker {
    rules: BreakerRules,
    failures: u32,
    rest: Option<Rest>,
    models: BTreeMap<String, Rest>,
}

impl Breaker {
    /// Nothing known yet.
    #[must_use]
    pub const fn new(rules: BreakerRules) -> Self {
        Self {
            rules,
            failures: 0,
            rest: None,
            models: BTreeMap::new(),
        }
    }

    /// Whether a call to `model` may be made at `now`. When a rest is over, this lets one call through and begins another rest, which
    /// that call's success ends: so a call that is never reported blocks nothing.
    ///
    /// # Errors
    /// While the provider is left alone.
    pub fn admit(&mut self, now: Instant, model: &str) -> Result<(), Resting> {
        let rest = self.rules.rest;
        for slot in [self.rest.as_mut(), self.models.get_mut(model)]
            .into_iter()
            .flatten()
        {
            let remaining = slot.until.saturating_duration_since(now);
            if !remaining.is_zero() {
                let because = slot.because;
                return Err(Resting { because, remaining });
            }
            slot.until = now + rest;
        }
        Ok(())
    }

    /// Whether the provider, or one of its models, is left alone at `now`; the longest rest.
    #[must_use]
    pub fn resting(&self, now: Instant) -> Option<Resting> {
        let rests = self.rest.iter().chain(self.models.values());
        let resting = rests.map(|rest| Resting {
            because: rest.because,
            remaining: rest.until.saturating_duration_since(now),
        });
        resting
            .filter(|resting| !resting.remaining.is_zero())
            .max_by_key(|resting| resting.remaining)
    }

    /// Takes in that an attempt was answered, usable or not.
    pub fn worked(&mut self, model: &str) {
        self.failures = 0;
        self.rest = None;
        self.models.remove(model);
    }

    /// Takes in that an attempt failed at `now`.
    pub fn failed(&mut self, now: Instant, model: &str, because: FaultKind) {
        let refused = Rest {
            until: now + self.rules.refusal_rest,
            because,
        };
        match because.blame() {
            Blame::None => self.worked(model),
            Blame::RefusesAll => self.rest = Some(refused),
            Blame::RefusesModel => {
                if self.models.len() >= MAX_MODELS {
                    self.models.clear();
                }
                self.models.insert(model.to_owned(), refused);
            }
            Blame::Fails => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= self.rules.failures {
                    let until = now + self.rules.rest;
                    self.rest = Some(Rest { until, because });
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
    fn after_five_failures_it_rests_five_minutes_then_one_call_finds_out() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..4 {
            breaker.failed(start, MODEL, FaultKind::Server);
        }
        assert_eq!(breaker.admit(start, MODEL), Ok(()));
        breaker.failed(start, MODEL, FaultKind::Unreachable);
        let resting = Resting {
            because: FaultKind::Unreachable,
            remaining: minutes(5),
        };
        assert_eq!(breaker.admit(start, MODEL), Err(resting));
        let later = start + minutes(5);
        assert_eq!(breaker.admit(later, MODEL), Ok(()));
        assert!(breaker.admit(later, MODEL).is_err(), "only one finds out");
        breaker.worked(MODEL);
        assert_eq!(breaker.admit(later, MODEL), Ok(()));
    }

    #[test]
    fn a_call_that_finds_out_and_is_never_heard_of_again_blocks_nothing_for_ever() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..5 {
            breaker.failed(start, MODEL, FaultKind::Server);
        }
        assert_eq!(breaker.admit(start + minutes(5), MODEL), Ok(()));
        assert_eq!(breaker.admit(start + minutes(10), MODEL), Ok(()));
    }

    #[test]
    fn a_wrong_key_stops_every_model_for_an_hour_and_a_missing_model_only_itself() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        breaker.failed(start, MODEL, FaultKind::NotFound);
        assert!(breaker.admit(start, MODEL).is_err());
        assert_eq!(breaker.admit(start, "other"), Ok(()));
        breaker.failed(start, "other", FaultKind::WrongKey);
        assert!(breaker.admit(start + minutes(59), "third").is_err());
        assert_eq!(breaker.admit(start + minutes(60), "third"), Ok(()));
    }

    #[test]
    fn a_refusal_of_the_model_is_no_failure_of_the_provider() {
        let start = Instant::now();
        let mut breaker = Breaker::new(BreakerRules::default());
        for _ in 0..4 {
            breaker.failed(start, MODEL, FaultKind::Server);
        }
        breaker.failed(start, MODEL, FaultKind::Refused);
        breaker.failed(start, MODEL, FaultKind::Server);
        assert_eq!(breaker.admit(start, MODEL), Ok(()));
    }
}
