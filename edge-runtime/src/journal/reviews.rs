//! Index of the events that wait for a person, and of the assessments given.
//!
//! - An event waits while its verdict is `review` or `escalate` and nobody has answered.
//! - At most [`MAX_REVIEWS`] wait. Above that the least severe is given up, among equals the
//!   oldest, and counted.
//! - Pure: follows the records of the journal, so a restart builds the same index.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use watchkeeper_contract::assessment::{Assessment, AssessmentAnswer, Assessor, MAX_REVIEWS};
use watchkeeper_contract::event::{Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{ChannelId, EventId, PipelineId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::review_share::ReviewShares;

/// Fields of a record that the index follows.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Outline {
    id: EventId,
    phase: Phase,
    severity: Severity,
    decision: OutlineDecision,
    body: OutlineBody,
    at: Wall,
    #[serde(default)]
    pipeline: Option<PipelineId>,
    #[serde(default)]
    assessment: Option<Assessment>,
}

#[derive(Debug, Clone, Deserialize)]
struct OutlineDecision {
    verdict: Verdict,
}

#[derive(Debug, Clone, Deserialize)]
struct OutlineBody {
    kind: String,
    #[serde(default)]
    rule: String,
    #[serde(default)]
    on_act: Vec<ChannelId>,
}

impl Outline {
    pub(super) fn of(event: &Event) -> Self {
        let (kind, rule, on_act) = match &event.body {
            EventBody::Rule(rule) => (RULE, rule.rule.clone(), rule.on_act.clone()),
            EventBody::SourceOutage { .. }
            | EventBody::PipelineHeld { .. }
            | EventBody::PipelineFailed { .. }
            | EventBody::StepFailing { .. }
            | EventBody::Loss { .. } => ("", String::new(), Vec::new()),
        };
        Self {
            id: event.id,
            phase: event.phase,
            severity: event.severity,
            decision: OutlineDecision {
                verdict: event.decision.verdict,
            },
            body: OutlineBody {
                kind: kind.to_owned(),
                rule,
                on_act,
            },
            at: event.at,
            pipeline: event.pipeline.clone(),
            assessment: event.assessment.as_deref().cloned(),
        }
    }
}

/// Kind of the events that people review.
const RULE: &str = "rule";

/// Event that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    /// Number of its first record.
    seq: u64,
    severity: Severity,
}

/// Assessments of one event.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    /// Second opinion, with the number of its record.
    pub(super) opinion: Option<(u64, Assessment)>,
    /// Last answer of a person, with the number of its record.
    pub(super) person: Option<(u64, Assessment)>,
}

impl Given {
    /// Whether no record holds an assessment any more.
    fn is_empty(&self) -> bool {
        self.opinion.is_none() && self.person.is_none()
    }
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct Reviews {
    waiting: BTreeMap<EventId, Waiting>,
    given: BTreeMap<EventId, Given>,
    /// Events by the numbers of the records that the index names.
    by_seq: BTreeMap<u64, EventId>,
    /// Events with `on_act` that became certain by themselves after their first record.
    raised: BTreeSet<EventId>,
    given_up: u64,
    shares: ReviewShares,
}

impl Reviews {
    /// Adds record `seq` of the journal.
    pub(super) fn add(&mut self, seq: u64, record: Outline) {
        if record.body.kind != RULE {
            return;
        }
        if let (Phase::New, Some(pipeline)) = (record.phase, record.pipeline)
            && record.at.quality != TimeQuality::Unsynced
        {
            let is_doubtful = needs_review(record.decision.verdict);
            let rule = record.body.rule;
            self.shares
                .add(pipeline, rule, record.at.unix_ms, is_doubtful);
        }
        match (record.phase, record.assessment) {
            (Phase::Assessed, Some(assessment)) => {
                self.add_assessment(seq, record.id, record.decision.verdict, assessment);
            }
            (Phase::New, _) if needs_review(record.decision.verdict) => {
                let waiting = Waiting {
                    seq,
                    severity: record.severity,
                };
                self.waiting.insert(record.id, waiting);
                self.by_seq.insert(seq, record.id);
                self.give_up_surplus();
            }
            // The box became certain by itself.
            (Phase::Update | Phase::End, _) if !needs_review(record.decision.verdict) => {
                self.settle(record.id);
                if record.decision.verdict == Verdict::Act && !record.body.on_act.is_empty() {
                    self.raised.insert(record.id);
                    self.by_seq.insert(seq, record.id);
                }
            }
            _ => {}
        }
    }

    fn add_assessment(&mut self, seq: u64, id: EventId, verdict: Verdict, given: Assessment) {
        let is_settled = match &given.by {
            Assessor::Person(_) => given.answer != AssessmentAnswer::None,
            Assessor::SecondOpinion(_) => !needs_review(verdict),
        };
        if is_settled {
            self.settle(id);
        }
        let entry = self.given.entry(id).or_default();
        let slot = match &given.by {
            Assessor::Person(_) => &mut entry.person,
            Assessor::SecondOpinion(_) => &mut entry.opinion,
        };
        if let Some((old, _)) = slot.replace((seq, given)) {
            self.by_seq.remove(&old);
        }
        self.by_seq.insert(seq, id);
    }

    /// Removes an event from those that wait.
    fn settle(&mut self, id: EventId) {
        if let Some(waiting) = self.waiting.remove(&id) {
            self.by_seq.remove(&waiting.seq);
        }
    }

    fn give_up_surplus(&mut self) {
        while self.waiting.len() > MAX_REVIEWS {
            let least = self.waiting.iter().min_by_key(|(_, w)| (w.severity, w.seq));
            let Some(id) = least.map(|(id, _)| *id) else {
                return;
            };
            self.settle(id);
            self.given_up += 1;
        }
    }

    /// Forgets records that retention deleted.
    pub(super) fn remove_records(&mut self, dropped: &[u64]) {
        for seq in dropped {
            let Some(id) = self.by_seq.remove(seq) else {
                continue;
            };
            if self.waiting.get(&id).is_some_and(|w| w.seq == *seq) {
                self.waiting.remove(&id);
                self.given_up += 1;
            }
            self.raised.remove(&id);
            if let Some(given) = self.given.get_mut(&id) {
                given.opinion.take_if(|(of, _)| of == seq);
                given.person.take_if(|(of, _)| of == seq);
                if given.is_empty() {
                    self.given.remove(&id);
                }
            }
        }
    }

    /// Numbers of the first records of waiting events: the most severe first, then the oldest.
    pub(super) fn waiting(&self) -> Vec<u64> {
        let order = self.waiting.values().map(|w| (Reverse(w.severity), w.seq));
        let order: BTreeSet<_> = order.collect();
        order.into_iter().map(|(_, seq)| seq).collect()
    }

    /// Rules too many of whose events need a person.
    pub(super) fn shares(&self) -> &ReviewShares {
        &self.shares
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Events that left without an answer since the start.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Whether the event became certain after its first record, by itself or by a person.
    pub(super) fn is_raised(&self, id: EventId) -> bool {
        let person = self.given(id).and_then(|given| given.person.as_ref());
        let is_approved = person.is_some_and(|(_, a)| a.answer == AssessmentAnswer::Approve);
        is_approved || self.raised.contains(&id)
    }

    /// Assessments of an event that are in the journal.
    pub(super) fn given(&self, id: EventId) -> Option<&Given> {
        self.given.get(&id)
    }
}

/// Whether a person should look at an event with this verdict.
fn needs_review(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Review | Verdict::Escalate)
}
