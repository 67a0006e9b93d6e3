//! Share of each rule's events that need a person.
//!
//! - Counts the events of the last [`WINDOW_MS`]. An event needs a person while its verdict is
//!   `review` or `escalate`, and if a person answered. It needs none if a second opinion or the box
//!   settled it.
//! - At most [`MAX_RULES`] rules, of which the one that is silent longest is evicted, and the last
//!   [`MAX_EVENTS`] events of each.

use std::collections::{BTreeMap, VecDeque};

use watchkeeper_contract::event::Phase;
use watchkeeper_contract::id::{EventId, PipelineId};
use watchkeeper_contract::review::ReviewShare;
use watchkeeper_contract::time::TimeQuality;

use super::reviews::Outline;

/// A day, in milliseconds.
const WINDOW_MS: i64 = 24 * 60 * 60 * 1000;
/// Fewest events of which the share is reported.
const MIN_EVENTS: usize = 20;
/// Highest share that is not reported.
const MAX_SHARE: f64 = 0.1;
const MAX_RULES: usize = 256;
const MAX_EVENTS: usize = 1000;

/// One sentence: how many events need a person, and what to do.
pub fn describe(share: &ReviewShare) -> String {
    let ReviewShare {
        pipeline,
        rule,
        doubtful,
        events,
    } = share;
    format!(
        "pipeline {:?}: {doubtful} of {events} events of the rule {rule:?} in the last day need \
         a person, more than {:.0} %; change its place, its classes or its gates",
        pipeline.as_str(),
        MAX_SHARE * 100.0
    )
}

#[derive(Debug)]
struct Counted {
    id: EventId,
    at_ms: i64,
    is_doubtful: bool,
    /// Whether a person answered.
    is_answered: bool,
}

/// The latest events of each rule.
#[derive(Debug, Default)]
pub(super) struct ReviewShares {
    rules: BTreeMap<(PipelineId, String), VecDeque<Counted>>,
}

impl ReviewShares {
    /// Follows a record of the journal.
    pub(super) fn add(&mut self, record: &Outline) {
        let (Some(rule), Some(pipeline)) = (record.rule(), &record.pipeline) else {
            return;
        };
        let key = (pipeline.clone(), rule.to_owned());
        match record.phase {
            Phase::New if record.at.quality != TimeQuality::Unsynced => {
                if self.rules.len() >= MAX_RULES && !self.rules.contains_key(&key) {
                    self.remove_most_silent();
                }
                let events = self.rules.entry(key).or_default();
                events.push_back(Counted {
                    id: record.id,
                    at_ms: record.at.unix_ms,
                    is_doubtful: record.is_doubtful(),
                    is_answered: false,
                });
                if events.len() > MAX_EVENTS {
                    events.pop_front();
                }
            }
            Phase::Update | Phase::End | Phase::Assessed => self.settle(&key, record),
            Phase::New | Phase::Clip => {}
        }
    }

    fn settle(&mut self, key: &(PipelineId, String), record: &Outline) {
        let events = self.rules.get_mut(key).into_iter().flatten();
        if let Some(counted) = events.rev().find(|counted| counted.id == record.id) {
            counted.is_answered |= record.phase == Phase::Assessed && !record.is_opinion();
            if !counted.is_answered {
                counted.is_doubtful &= record.is_doubtful();
            }
        }
    }

    fn remove_most_silent(&mut self) {
        let last = |events: &VecDeque<Counted>| events.back().map(|counted| counted.at_ms);
        let silent = self.rules.iter().min_by_key(|(_, events)| last(events));
        if let Some(key) = silent.map(|(key, _)| key.clone()) {
            self.rules.remove(&key);
        }
    }

    /// The rules of a pipeline whose share is too high at `now_ms`. Events before `since_ms` are
    /// not counted.
    pub(super) fn too_high(
        &self,
        pipeline: &PipelineId,
        since_ms: i64,
        now_ms: i64,
    ) -> Vec<ReviewShare> {
        let window = since_ms.max(now_ms.saturating_sub(WINDOW_MS))..=now_ms;
        let rules = self.rules.iter().filter(|((of, _), _)| of == pipeline);
        let share = |((_, rule), events): (&(PipelineId, String), &VecDeque<Counted>)| {
            let recent = events.iter().filter(|c| window.contains(&c.at_ms));
            let (mut all, mut doubtful) = (0, 0);
            for counted in recent {
                all += 1;
                doubtful += usize::from(counted.is_doubtful);
            }
            let is_high = all >= MIN_EVENTS && doubtful as f64 > MAX_SHARE * all as f64;
            is_high.then(|| ReviewShare {
                pipeline: pipeline.clone(),
                rule: rule.clone(),
                doubtful: doubtful as u64,
                events: all as u64,
            })
        };
        rules.filter_map(share).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    /// A record of event `id` of the rule `rule` at `at_ms`.
    fn record(id: u128, rule: &str, phase: &str, verdict: &str, at_ms: i64) -> Outline {
        serde_json::from_value(json!({
            "id": ulid::Ulid::from(id), "phase": phase, "severity": "info", "pipeline": "gate",
            "at": {"unix_ms": at_ms, "quality": "synced"}, "decision": {"verdict": verdict},
            "body": {"kind": "rule", "rule": rule},
            "assessment": (phase == "assessed")
                .then(|| json!({"by": {"kind": "person", "via": "chat"}, "answer": "reject"})),
        }))
        .unwrap()
    }

    fn shares(doubtful: u128, certain: u128, at_ms: i64) -> ReviewShares {
        let mut shares = ReviewShares::default();
        for n in 0..doubtful + certain {
            let verdict = if n < doubtful { "review" } else { "act" };
            shares.add(&record(n, "door", "new", verdict, at_ms));
        }
        shares
    }

    fn found(shares: &ReviewShares, since_ms: i64, now_ms: i64) -> Option<(u64, u64)> {
        let gate = PipelineId::new("gate").unwrap();
        let high = shares.too_high(&gate, since_ms, now_ms);
        high.first().map(|share| (share.doubtful, share.events))
    }

    #[test]
    fn share_is_reported_above_a_tenth_of_enough_recent_events() {
        let of = |doubtful, certain, at_ms| {
            found(&shares(doubtful, certain, at_ms), i64::MIN, WINDOW_MS)
        };
        assert_eq!(of(3, 17, WINDOW_MS), Some((3, 20)));
        assert_eq!(of(2, 18, WINDOW_MS), None, "a tenth");
        assert_eq!(of(19, 0, WINDOW_MS), None, "too few events");
        assert_eq!(of(3, 17, -1), None, "older than a day");
        assert_eq!(of(3, 17, WINDOW_MS + 1), None, "a clock that was set back");
        assert_eq!(
            found(&shares(3, 17, 5), 6, WINDOW_MS),
            None,
            "before the rule"
        );
    }

    #[test]
    fn event_that_the_box_settles_needs_nobody() {
        let mut shares = shares(3, 17, 5);
        shares.add(&record(1, "door", "update", "act", 6));
        assert_eq!(found(&shares, 0, 9), None);
        shares.add(&record(2, "door", "assessed", "discard", 6));
        shares.add(&record(2, "door", "end", "act", 6));
        shares.add(&record(50, "door", "new", "escalate", 7));
        assert_eq!(found(&shares, 0, 9), Some((3, 21)));
    }

    #[test]
    fn memory_is_bounded_and_the_most_silent_rule_gives_way() {
        let mut shares = shares(2 * MAX_EVENTS as u128, 0, 5);
        assert_eq!(
            found(&shares, 0, 9),
            Some((MAX_EVENTS as u64, MAX_EVENTS as u64))
        );
        for n in 0..MAX_RULES as u128 {
            let name = format!("rule-{n}");
            shares.add(&record(n, &name, "new", "act", 6));
        }
        assert_eq!(shares.rules.len(), MAX_RULES);
        assert_eq!(found(&shares, 0, 9), None);
    }
}
