//! Index of the events that wait for a person, of the assessments given, and of the
//! events that notified the channels in `on_act`.
//!
//! - An event waits while its verdict is `review` or `escalate` and nobody has answered.
//! - At most [`MAX_REVIEWS`] wait. Above that the least severe is given up, among equals the
//!   oldest, and counted.
//! - An event notifies the channels in `on_act` once.
//! - Pure; follows the records of the journal, so a restart builds the same index. An entry is
//!   forgotten with its record, so the journal bounds it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use watchkeeper_contract::assessment::{Assessment, AssessmentAnswer, Assessor};
use watchkeeper_contract::event::{Clip, Event, Phase, Verdict};
use watchkeeper_contract::id::{ChannelId, EventId, PipelineId};
use watchkeeper_contract::review::{MAX_REVIEWS, RuleAnswer};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;

/// Kind of the events that people review.
const RULE: &str = "rule";

/// Fields of a record that the indices of the journal follow.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Outline {
    pub(super) id: EventId,
    pub(super) phase: Phase,
    pub(super) severity: Severity,
    decision: OutlineDecision,
    body: OutlineBody,
    pub(super) at: Wall,
    #[serde(default)]
    pub(super) pipeline: Option<PipelineId>,
    #[serde(default)]
    assessment: Option<Assessment>,
    #[serde(default)]
    pub(super) clip: Option<Clip>,
}

#[derive(Debug, Clone, Deserialize)]
struct OutlineDecision {
    verdict: Verdict,
    #[serde(default)]
    raw_confidence: Option<f64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct OutlineBody {
    kind: String,
    #[serde(default)]
    rule: String,
    #[serde(default)]
    on_act: Vec<ChannelId>,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    bbox: Option<[f64; 4]>,
}

impl Outline {
    pub(super) fn of(event: &Event) -> Self {
        let body = event.body.rule().map(|rule| OutlineBody {
            kind: RULE.to_owned(),
            rule: rule.rule.clone(),
            on_act: rule.on_act.clone(),
            score: rule.score,
            bbox: rule.bbox,
        });
        Self {
            id: event.id,
            phase: event.phase,
            severity: event.severity,
            decision: OutlineDecision {
                verdict: event.decision.verdict,
                raw_confidence: event.decision.raw_confidence,
            },
            body: body.unwrap_or_default(),
            at: event.at,
            pipeline: event.pipeline.clone(),
            assessment: event.assessment.as_deref().cloned(),
            clip: event.clip.clone(),
        }
    }

    /// Name of the rule that made the event.
    pub(super) fn rule(&self) -> Option<&str> {
        (self.body.kind == RULE).then_some(&self.body.rule)
    }

    /// Whether a person should look at the event.
    pub(super) fn is_doubtful(&self) -> bool {
        matches!(self.decision.verdict, Verdict::Review | Verdict::Escalate)
    }

    /// Whether the record notifies the channels in `on_act`.
    fn notifies(&self) -> bool {
        let is_certain = self.decision.verdict == Verdict::Act && self.phase != Phase::Clip;
        is_certain && !self.body.on_act.is_empty()
    }

    /// The answer of a person that the record adds.
    pub(super) fn person_answer(&self) -> Option<RuleAnswer> {
        let given = self.assessment.as_ref()?;
        matches!(given.by, Assessor::Person(_)).then(|| RuleAnswer {
            event: self.id,
            is_true: given.confirms_event(),
            raw_confidence: self.decision.raw_confidence,
            score: self.body.score,
            bbox: self.body.bbox,
        })
    }

    /// Whether a second opinion or the result of a chain is what the record adds.
    pub(super) fn is_opinion(&self) -> bool {
        let by = self.assessment.as_ref().map(|given| &given.by);
        matches!(by, Some(Assessor::SecondOpinion(_) | Assessor::Chain(_)))
    }
}

/// Event that waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    /// Number of its first record.
    seq: u64,
    severity: Severity,
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PersonAnswer {
    /// Number of its record.
    pub(super) seq: u64,
    answer: AssessmentAnswer,
    label: Option<String>,
    fields: BTreeMap<String, String>,
}

impl PersonAnswer {
    fn of(seq: u64, given: &Assessment) -> Self {
        Self {
            seq,
            answer: given.answer,
            label: given.label.clone(),
            fields: given.fields.clone(),
        }
    }

    /// Whether `given` is the answer that is recorded already.
    pub(super) fn is_same(&self, given: &Assessment) -> bool {
        *self == Self::of(self.seq, given)
    }
}

/// Assessments of one event.
#[derive(Debug, Clone, Default)]
pub(super) struct Assessments {
    /// Number of the record of its second opinion, or of the result of its chain.
    pub(super) opinion: Option<u64>,
    /// The last answer of a person.
    pub(super) person: Option<PersonAnswer>,
}

/// Index of the events that wait for a person, and of the given assessments.
#[derive(Debug, Default)]
pub(super) struct Reviews {
    waiting: BTreeMap<EventId, Waiting>,
    given: BTreeMap<EventId, Assessments>,
    /// First records of events with channels in `on_act`.
    first: BTreeMap<EventId, u64>,
    /// Events that notified these channels, with their latest record: the entry must outlive it.
    notified: BTreeMap<EventId, u64>,
    /// Events by the numbers of the records that the index names.
    by_seq: BTreeMap<u64, EventId>,
    given_up: u64,
}

impl Reviews {
    /// Adds record `seq` of the journal.
    pub(super) fn add(&mut self, seq: u64, record: &Outline) {
        if record.rule().is_none() {
            return;
        }
        let id = record.id;
        match (record.phase, &record.assessment) {
            (Phase::Assessed, Some(assessment)) => {
                self.add_assessment(seq, id, record.is_doubtful(), assessment);
            }
            (Phase::New, _) => {
                if !record.body.on_act.is_empty() {
                    self.first.insert(id, seq);
                    self.by_seq.insert(seq, id);
                }
                if record.is_doubtful() {
                    let severity = record.severity;
                    self.waiting.insert(id, Waiting { seq, severity });
                    self.by_seq.insert(seq, id);
                    self.give_up_surplus();
                }
            }
            // The box became certain by itself.
            (Phase::Update | Phase::End, _) if !record.is_doubtful() => {
                self.waiting.remove(&id);
            }
            _ => {}
        }
        if record.notifies() || self.notified.contains_key(&id) {
            self.notified.insert(id, seq);
            self.by_seq.insert(seq, id);
        }
    }

    fn add_assessment(&mut self, seq: u64, id: EventId, is_doubtful: bool, given: &Assessment) {
        let entry = self.given.entry(id).or_default();
        let is_settled = match &given.by {
            Assessor::Person(_) => {
                entry.person = Some(PersonAnswer::of(seq, given));
                true
            }
            Assessor::SecondOpinion(_) | Assessor::Chain(_) => {
                entry.opinion = Some(seq);
                !is_doubtful
            }
        };
        self.by_seq.insert(seq, id);
        if is_settled {
            self.waiting.remove(&id);
        }
    }

    fn give_up_surplus(&mut self) {
        while self.waiting.len() > MAX_REVIEWS {
            let least = self.waiting.iter().min_by_key(|(_, w)| (w.severity, w.seq));
            let Some(id) = least.map(|(id, _)| *id) else {
                return;
            };
            self.waiting.remove(&id);
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
            for named in [&mut self.first, &mut self.notified] {
                if named.get(&id) == Some(seq) {
                    named.remove(&id);
                }
            }
            if let Some(given) = self.given.get_mut(&id) {
                given.opinion.take_if(|of| of == seq);
                given.person.take_if(|of| of.seq == *seq);
                if given.opinion.is_none() && given.person.is_none() {
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

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// Events that left without an answer.
    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Whether a record of this phase may notify the channels in `on_act`: none did, and a person
    /// has not decided before the box.
    pub(super) fn may_notify(&self, id: EventId, phase: Phase) -> bool {
        let is_of_box = matches!(phase, Phase::Update | Phase::End);
        let is_decided = self
            .assessments(id)
            .is_some_and(|given| given.person.is_some());
        !(self.notified.contains_key(&id) || (is_of_box && is_decided))
    }

    /// Number of the first record of an event with channels in `on_act`.
    pub(super) fn first(&self, id: EventId) -> Option<u64> {
        self.first.get(&id).copied()
    }

    /// Assessments of an event that are in the journal.
    pub(super) fn assessments(&self, id: EventId) -> Option<&Assessments> {
        self.given.get(&id)
    }
}
