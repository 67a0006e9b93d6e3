//! Share of each rule's events that need a person.
//!
//! - Counts the events of the last [`WINDOW_MS`] by the verdict of their first record.
//! - At most [`MAX_RULES`] rules, further ones are not counted; at most the last [`MAX_EVENTS`] of
//!   each.

use std::collections::{BTreeMap, VecDeque};

use watchkeeper_contract::id::PipelineId;

/// A day, in milliseconds.
const WINDOW_MS: i64 = 24 * 60 * 60 * 1000;
/// Fewest events of which a share is told.
const MIN_EVENTS: usize = 20;
/// Highest share that is as it should be.
const MAX_SHARE: f64 = 0.1;
const MAX_RULES: usize = 256;
const MAX_EVENTS: usize = 1000;

/// A rule too many of whose events need a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewShare {
    pub pipeline: PipelineId,
    pub rule: String,
    /// Events with the verdict `review` or `escalate`.
    pub doubtful: usize,
    /// All events, these included.
    pub events: usize,
}

impl ReviewShare {
    /// One sentence: how many, and what to do.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self {
            pipeline,
            rule,
            doubtful,
            events,
        } = self;
        format!(
            "pipeline {:?}: {doubtful} of {events} events of the rule {rule:?} in the last day need \
             a review, more than {:.0} %; answer them (`watchkeeper reviews`), or change the rule",
            pipeline.as_str(),
            MAX_SHARE * 100.0
        )
    }
}

/// Time of an event, and whether it needs a person.
type Counted = (i64, bool);

/// The latest events of each rule.
#[derive(Debug, Default)]
pub(super) struct ReviewShares {
    rules: BTreeMap<(PipelineId, String), VecDeque<Counted>>,
}

impl ReviewShares {
    /// Counts an event at `at_ms`, in milliseconds since 1970.
    pub(super) fn add(&mut self, pipeline: PipelineId, rule: String, at_ms: i64, doubtful: bool) {
        let key = (pipeline, rule);
        if self.rules.len() >= MAX_RULES && !self.rules.contains_key(&key) {
            return;
        }
        let events = self.rules.entry(key).or_default();
        events.push_back((at_ms, doubtful));
        if events.len() > MAX_EVENTS {
            events.pop_front();
        }
    }

    /// The rules whose share is too high at `now_ms`.
    pub(super) fn too_high(&self, now_ms: i64) -> Vec<ReviewShare> {
        let window = now_ms.saturating_sub(WINDOW_MS)..=now_ms;
        let share = |((pipeline, rule), events): (&(PipelineId, String), &VecDeque<Counted>)| {
            let recent = || events.iter().filter(|(at, _)| window.contains(at));
            let (all, doubtful) = (recent().count(), recent().filter(|(_, d)| *d).count());
            let is_high = all >= MIN_EVENTS && doubtful as f64 > MAX_SHARE * all as f64;
            is_high.then(|| ReviewShare {
                pipeline: pipeline.clone(),
                rule: rule.clone(),
                doubtful,
                events: all,
            })
        };
        self.rules.iter().filter_map(share).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    fn shares(doubtful: usize, certain: usize, at_ms: i64) -> ReviewShares {
        let mut shares = ReviewShares::default();
        for n in 0..doubtful + certain {
            let pipeline = PipelineId::new("gate").unwrap();
            shares.add(pipeline, "door".to_owned(), at_ms, n < doubtful);
        }
        shares
    }

    #[test]
    fn share_is_told_above_a_tenth_of_enough_recent_events() {
        let told = |doubtful, certain, at_ms| {
            let high = shares(doubtful, certain, at_ms).too_high(WINDOW_MS);
            high.first().map(|share| (share.doubtful, share.events))
        };
        assert_eq!(told(3, 17, WINDOW_MS), Some((3, 20)));
        assert_eq!(told(2, 18, WINDOW_MS), None, "a tenth");
        assert_eq!(told(19, 0, WINDOW_MS), None, "too few events");
        assert_eq!(told(3, 17, -1), None, "older than a day");
        assert_eq!(
            told(3, 17, WINDOW_MS + 1),
            None,
            "a clock that was set back"
        );
    }

    #[test]
    fn memory_is_bounded() {
        let shares = shares(2 * MAX_EVENTS, 0, 5);
        assert_eq!(shares.too_high(5)[0].events, MAX_EVENTS);
    }
}
