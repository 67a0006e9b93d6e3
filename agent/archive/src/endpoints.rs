//! Which endpoint of a tier is asked next. Sans-IO.
//!
//! - Endpoints take turns, or begin at the one that a key belongs to.
//! - One that failed is marked down: 1 s, then twice as long, at most 60 s. Then it gets one try.
//! - A request tries at most [`MAX_TRIES`] endpoints, so that it ends soon.

use std::time::{Duration, Instant};

use crate::tier::EndpointHealth;

/// Endpoints that one request tries.
pub const MAX_TRIES: usize = 2;

const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
struct State {
    failures: u32,
    down_until: Option<Instant>,
    error: Option<String>,
}

/// Health of the endpoints of one tier, by their place in its configuration.
#[derive(Debug)]
pub struct Endpoints {
    states: Vec<State>,
    next: usize,
}

impl Endpoints {
    pub fn new(count: usize) -> Self {
        Self {
            states: vec![State::default(); count],
            next: 0,
        }
    }

    /// Returns the endpoints to try in this order, those that are down left out. Without `key` the
    /// endpoints take turns; with one, the first is always that of the key.
    pub fn candidates(&mut self, now: Instant, key: Option<u64>) -> Vec<usize> {
        let count = self.states.len();
        if count == 0 {
            return Vec::new();
        }
        let first = match key.and_then(|key| usize::try_from(key % count as u64).ok()) {
            Some(first) => first,
            None => {
                self.next = (self.next + 1) % count;
                self.next
            }
        };
        let up = self.up(now);
        let order = (0..count).map(|step| (first + step) % count);
        order.filter(|at| up.contains(at)).take(MAX_TRIES).collect()
    }

    /// Returns all endpoints that are not down, in the order of the configuration.
    pub fn up(&self, now: Instant) -> Vec<usize> {
        let states = self.states.iter().enumerate();
        let up = states.filter(|(_, state)| state.down_until.is_none_or(|until| until <= now));
        up.map(|(at, _)| at).collect()
    }

    /// Records that an endpoint answered.
    pub fn succeeded(&mut self, at: usize) {
        if let Some(state) = self.states.get_mut(at) {
            *state = State::default();
        }
    }

    /// Records that an endpoint failed. Returns whether it was up before.
    pub fn failed(&mut self, at: usize, now: Instant, why: &str) -> bool {
        let Some(state) = self.states.get_mut(at) else {
            return false;
        };
        let factor = 2_u32.saturating_pow(state.failures.min(16));
        state.down_until = Some(now + MIN_BACKOFF.saturating_mul(factor).min(MAX_BACKOFF));
        state.failures = state.failures.saturating_add(1);
        state.error = Some(why.to_owned());
        state.failures == 1
    }

    /// Returns the status of each endpoint; `names` are in the order of the configuration.
    pub fn health(&self, names: &[String]) -> Vec<EndpointHealth> {
        let named = names.iter().zip(&self.states);
        let health = named.map(|(name, state)| EndpointHealth {
            endpoint: name.clone(),
            is_up: state.failures == 0,
            failures: state.failures,
            error: state.error.clone(),
        });
        health.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_take_turns_and_failed_ones_are_left_out() {
        let now = Instant::now();
        let mut endpoints = Endpoints::new(3);
        assert_eq!(endpoints.candidates(now, None), [1, 2]);
        assert_eq!(endpoints.candidates(now, None), [2, 0]);
        assert!(endpoints.failed(0, now, "refused"));
        assert!(!endpoints.failed(0, now, "refused"));
        assert_eq!(endpoints.up(now), [1, 2]);
        assert_eq!(endpoints.candidates(now, None), [1, 2]);
        assert_eq!(endpoints.candidates(now, Some(3)), [1, 2]);
        assert_eq!(endpoints.candidates(now, Some(5)), [2, 1]);
    }

    #[test]
    fn backoff_doubles_to_its_bound_and_ends_with_success() {
        let start = Instant::now();
        let mut endpoints = Endpoints::new(1);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            endpoints.failed(0, start, "no answer");
            let at = |seconds| start + Duration::from_secs(seconds);
            assert!(endpoints.candidates(at(seconds - 1), None).is_empty());
            assert_eq!(endpoints.candidates(at(seconds), None), [0]);
        }
        endpoints.succeeded(0);
        assert_eq!(endpoints.candidates(start, None), [0]);
        assert!(endpoints.health(&["a:1".to_owned()])[0].is_up);
    }

    #[test]
    fn tier_without_endpoints_has_no_candidates() {
        assert!(
            Endpoints::new(0)
                .candidates(Instant::now(), None)
                .is_empty()
        );
    }
}
