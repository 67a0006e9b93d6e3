//! Answers of people about events of rules, which calibrate and narrow the rules.
//!
//! - Holds the last answer about each event, at most [`MAX_RULE_ANSWERS`] of a rule and of
//!   [`MAX_RULES`] rules. The rule that was answered longest ago is evicted.
//! - Follows the records of the journal, so a restart builds the same index. An answer is
//!   forgotten with its record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::review::{
    Calibration, MAX_RULE_ANSWERS, PipelineAnswers, RuleAnswer, RuleAnswers,
};
use watchkeeper_engine::rules::calibration::fit;

use super::reviews::Outline;

const MAX_RULES: usize = 256;

/// Pipeline and name of a rule.
type RuleKey = (PipelineId, String);

#[derive(Debug, Default)]
struct Index {
    /// Answers with the numbers of their records, which rise.
    rules: BTreeMap<RuleKey, VecDeque<(u64, RuleAnswer)>>,
    /// Rules by the numbers of the records that they name.
    by_seq: BTreeMap<u64, RuleKey>,
}

/// Index of the answers in the journal.
#[derive(Debug, Default)]
pub struct Answers {
    index: Mutex<Index>,
    version: AtomicU64,
}

impl Answers {
    /// Follows record `seq` of the journal.
    pub(super) fn add(&self, seq: u64, record: &Outline) {
        let (Some(answer), Some(rule), Some(pipeline)) =
            (record.person_answer(), record.rule(), &record.pipeline)
        else {
            return;
        };
        let key = (pipeline.clone(), rule.to_owned());
        self.index.lock().add(seq, key, answer);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Replaces the index by one of all records.
    pub(super) fn replace(&self, read: Self) {
        *self.index.lock() = read.index.into_inner();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Forgets records that retention deleted.
    pub(super) fn remove_records(&self, dropped: &[u64]) {
        let mut index = self.index.lock();
        let removed = dropped.iter().filter(|seq| index.remove(**seq)).count();
        if removed > 0 {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Number of the latest change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Answers about events of a pipeline since `since_ms`, in milliseconds since 1970.
    /// `calibrates` says of a rule whether answers calibrate it.
    pub fn of_pipeline(
        &self,
        pipeline: &PipelineId,
        since_ms: i64,
        calibrates: &dyn Fn(&str) -> bool,
    ) -> PipelineAnswers {
        let index = self.index.lock();
        let rules = index.rules.iter().filter(|((of, _), _)| of == pipeline);
        let rules = rules.filter_map(|((_, rule), answers)| {
            let recent = answers.iter().map(|(_, answer)| answer);
            let recent = recent.filter(|answer| began_ms(answer) >= since_ms);
            let mut answers: Vec<RuleAnswer> = recent.cloned().collect();
            answers.sort_by_key(|answer| answer.event);
            let calibration = calibration(&answers).filter(|_| calibrates(rule));
            (!answers.is_empty()).then(|| RuleAnswers {
                rule: rule.clone(),
                answers,
                calibration,
            })
        });
        PipelineAnswers {
            pipeline: pipeline.clone(),
            rules: rules.collect(),
        }
    }

    /// Calibrations of the rules of a pipeline, by answers about events since `since_ms`.
    pub fn calibrations(
        &self,
        pipeline: &PipelineId,
        since_ms: i64,
    ) -> BTreeMap<String, Calibration> {
        let rules = self.of_pipeline(pipeline, since_ms, &|_| true).rules;
        let calibrated = rules.into_iter();
        calibrated
            .filter_map(|of| Some((of.rule, of.calibration?)))
            .collect()
    }
}

impl Index {
    fn add(&mut self, seq: u64, key: RuleKey, answer: RuleAnswer) {
        if self.rules.len() >= MAX_RULES && !self.rules.contains_key(&key) {
            self.remove_most_silent();
        }
        let answers = self.rules.entry(key.clone()).or_default();
        if let Some(nth) = answers
            .iter()
            .position(|(_, old)| old.event == answer.event)
        {
            self.by_seq.remove(&answers[nth].0);
            answers.remove(nth);
        }
        answers.push_back((seq, answer));
        if answers.len() > MAX_RULE_ANSWERS
            && let Some((oldest, _)) = answers.pop_front()
        {
            self.by_seq.remove(&oldest);
        }
        self.by_seq.insert(seq, key);
    }

    /// Whether the index held the answer of this record.
    fn remove(&mut self, seq: u64) -> bool {
        let Some(key) = self.by_seq.remove(&seq) else {
            return false;
        };
        if let Some(answers) = self.rules.get_mut(&key) {
            answers.retain(|(of, _)| *of != seq);
            if answers.is_empty() {
                self.rules.remove(&key);
            }
        }
        true
    }

    fn remove_most_silent(&mut self) {
        let last = |answers: &VecDeque<(u64, RuleAnswer)>| answers.back().map(|(seq, _)| *seq);
        let silent = self.rules.iter().min_by_key(|(_, answers)| last(answers));
        let Some(key) = silent.map(|(key, _)| key.clone()) else {
            return;
        };
        for (seq, _) in self.rules.remove(&key).into_iter().flatten() {
            self.by_seq.remove(&seq);
        }
    }
}

/// When the event of an answer began, in milliseconds since 1970: its id says so.
fn began_ms(answer: &RuleAnswer) -> i64 {
    i64::try_from(answer.event.0.timestamp_ms()).unwrap_or(i64::MAX)
}

fn calibration(answers: &[RuleAnswer]) -> Option<Calibration> {
    let answers = answers.iter();
    fit(answers.filter_map(|answer| Some((answer.raw_confidence?, answer.is_true))))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    /// The record of a person's answer about event `id`.
    fn record(id: u128, rule: &str, answer: &str) -> Outline {
        serde_json::from_value(json!({
            "id": ulid::Ulid::from(id << 80), "phase": "assessed", "severity": "info",
            "pipeline": "gate", "at": {"unix_ms": 99, "quality": "synced"},
            "decision": {"verdict": "discard", "raw_confidence": 0.75},
            "body": {"kind": "rule", "rule": rule, "score": 0.5, "bbox": [0.1, 0.2, 0.3, 0.4]},
            "assessment": {"by": {"kind": "person", "via": "chat"}, "answer": answer},
        }))
        .unwrap()
    }

    fn gate() -> PipelineId {
        PipelineId::new("gate").unwrap()
    }

    /// Whether each event of the rule `door` since `since_ms` was approved.
    fn answers(of: &Answers, since_ms: i64) -> Vec<bool> {
        let mut rules = of.of_pipeline(&gate(), since_ms, &|_| true).rules;
        rules.retain(|rule| rule.rule == "door");
        let answers = rules.into_iter().flat_map(|rule| rule.answers);
        answers.map(|answer| answer.is_true).collect()
    }

    #[test]
    fn last_answer_counts_until_record_of_event_is_deleted() {
        let index = Answers::default();
        for (seq, id, answer) in [(7, 2, "approve"), (8, 1, "reject"), (9, 2, "correct")] {
            index.add(seq, &record(id, "door", answer));
        }
        index.add(10, &record(3, "window", "approve"));
        assert_eq!(answers(&index, 0), [false, false]);
        assert_eq!(answers(&index, 2), [false], "of the later event");
        let version = index.version();
        index.remove_records(&[1, 7]);
        assert_eq!(index.version(), version);
        index.remove_records(&[9]);
        assert_eq!(answers(&index, 0), [false]);
        assert!(index.version() > version);
    }

    #[test]
    fn memory_is_bounded_by_answers_and_rules() {
        let index = Answers::default();
        for n in 0..=MAX_RULE_ANSWERS as u128 {
            index.add(n as u64, &record(n, "door", "approve"));
        }
        assert_eq!(answers(&index, 0).len(), MAX_RULE_ANSWERS);
        for n in 0..MAX_RULES as u64 {
            index.add(10_000 + n, &record(1, &format!("rule-{n}"), "approve"));
        }
        assert_eq!(answers(&index, 0), [false; 0]);
        let held = index.index.lock();
        assert_eq!(
            (held.rules.len(), held.by_seq.len()),
            (MAX_RULES, MAX_RULES)
        );
    }

    #[test]
    fn rule_is_calibrated_from_enough_answers_of_both_kinds() {
        let index = Answers::default();
        for n in 0..10 {
            let answer = if n % 2 == 0 { "approve" } else { "reject" };
            index.add(n, &record(u128::from(n), "door", answer));
        }
        let found = index.calibrations(&gate(), 0)["door"];
        assert_eq!((found.approved, found.rejected), (5, 5));
        assert!(index.calibrations(&gate(), 1).is_empty(), "four approved");
        let off = index.of_pipeline(&gate(), 0, &|_| false);
        assert_eq!(off.rules[0].calibration, None);
    }
}
