//! Cache of a service's answers, for a limited time.
//!
//! - At most `entries` answers; the oldest is dropped first.
//! - Failures are not kept.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::source::SourceAnswer;

/// Answers by value.
#[derive(Debug)]
pub(super) struct Cache {
    entries: usize,
    kept_for: Duration,
    answers: BTreeMap<String, (Instant, SourceAnswer)>,
    /// Values in the order in which they were stored.
    order: VecDeque<String>,
}

impl Cache {
    pub(super) fn new(entries: usize, kept_for: Duration) -> Self {
        Self {
            entries,
            kept_for,
            answers: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn get(&self, value: &str, now: Instant) -> Option<SourceAnswer> {
        let (at, answer) = self.answers.get(value)?;
        (now.duration_since(*at) < self.kept_for).then(|| answer.clone())
    }

    pub(super) fn put(&mut self, value: &str, answer: SourceAnswer, now: Instant) {
        if self.entries == 0 || self.kept_for.is_zero() {
            return;
        }
        let is_known = self
            .answers
            .insert(value.to_owned(), (now, answer))
            .is_some();
        if is_known {
            self.order.retain(|known| known != value);
        }
        self.order.push_back(value.to_owned());
        while self.answers.len() > self.entries
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire_and_the_oldest_makes_room() {
        let start = Instant::now();
        let mut cache = Cache::new(2, Duration::from_secs(10));
        for name in ["a", "b", "c"] {
            cache.put(name, SourceAnswer::no_answer(name), start);
        }
        assert_eq!(cache.get("a", start), None);
        assert_eq!(cache.get("c", start), Some(SourceAnswer::no_answer("c")));
        assert_eq!(cache.get("c", start + Duration::from_secs(10)), None);
    }
}
