//! Adds assessments to the journal, as records of their events.
//!
//! - A person's answer replaces an earlier one. The same answer again adds no record.
//! - An event gets one second opinion, or one result of its rule's chain. A repeated one adds no
//!   record.
//! - The raw confidence of every assessment is that of the event's `new` record, whichever record
//!   was named.

mod check;

use watchkeeper_contract::assessment::{Assessment, AssessmentAnswer, Assessor};
use watchkeeper_contract::event::{Decision, Event, EventBody, Evidence, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::review::{NewAssessment, Review, ReviewQueue};
use watchkeeper_contract::time::Wall;

pub use self::check::InvalidField;
pub(crate) use self::check::check as check_assessment;
use super::Journal;
use super::error::JournalError;
use super::loss::Stamp;

/// Source of a person's answer as evidence.
const PERSON: &str = "person";
/// Sources of a chain that are values of the event.
const READINGS: [&str; 2] = ["code", "text"];
/// Pages of records up to the named one in which the `new` record of its event is looked for.
const LOOKBACK_PAGES: usize = 16;

/// Why an assessment was refused.
#[derive(Debug, thiserror::Error)]
pub enum AssessError {
    #[error("there is no event {0}; `watchkeeper events` lists them")]
    Unknown(EventSeq),
    #[error("event {0} was not made by a rule, so there is nothing to assess")]
    NotOfRule(EventSeq),
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    #[error("record {seq} is not of event {event}; the number may be of another journal")]
    OtherEvent { seq: EventSeq, event: EventId },
    #[error("event {0} has a person's answer already")]
    Answered(EventId),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// An assessment in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessed {
    /// Journal record of the assessment, durable.
    pub event: Event,
    /// Whether this call added the record.
    pub is_new: bool,
}

impl Journal {
    /// Adds an assessment of the event that has the record `seq`; durable on return.
    ///
    /// # Errors
    /// When there is no such record, no rule made it, the request is invalid, or storing fails.
    pub fn assess(
        &self,
        seq: EventSeq,
        new: NewAssessment,
        stamp: &Stamp,
    ) -> Result<Assessed, AssessError> {
        check::check(&new)?;
        let _assessing = self.assessing.lock();
        let named = self.event(seq)?.ok_or(AssessError::Unknown(seq))?;
        if let Some(event) = new.event.filter(|event| *event != named.id) {
            return Err(AssessError::OtherEvent { seq, event });
        }
        if !matches!(named.body, EventBody::Rule(_)) {
            return Err(AssessError::NotOfRule(seq));
        }
        if let Some(event) = self.existing(named.id, &new.assessment)? {
            return Ok(Assessed {
                event,
                is_new: false,
            });
        }
        if new.only_if_unanswered && self.has_answer(named.id)? {
            return Err(AssessError::Answered(named.id));
        }
        if !new.assessment.fields.is_empty() {
            check::check_fields(&new.assessment.fields, &self.fields_of(&named)?)?;
        }
        let record = self.record(named, new, stamp)?;
        let mut appended = self.append(vec![record])?;
        let event = appended.pop().ok_or(AssessError::Unknown(seq))?;
        Ok(Assessed {
            event,
            is_new: true,
        })
    }

    /// Names of the values of an event that a person may enter. They are `code` and `text` where
    /// its chain reads them, and the fields that the result of its chain names.
    fn fields_of(&self, event: &Event) -> Result<Vec<String>, JournalError> {
        let chain = event
            .body
            .rule()
            .and_then(|rule| Some(&rule.decide.as_ref()?.chain));
        let read = chain.into_iter().flatten().cloned();
        let mut names: Vec<String> = read.filter(|name| READINGS.contains(&&**name)).collect();
        let given = self.writer()?.reviews.assessments(event.id).cloned();
        let opinion = given.and_then(|given| given.opinion);
        let opinion = opinion.map_or(Ok(None), |seq| self.event(EventSeq(seq)))?;
        if let Some(Assessor::Chain(details)) =
            opinion.and_then(|record| Some(record.assessment?.by))
        {
            names.extend(details.fields);
        }
        Ok(names)
    }

    fn has_answer(&self, id: EventId) -> Result<bool, JournalError> {
        let writer = self.writer()?;
        let given = writer.reviews.assessments(id);
        Ok(given.is_some_and(|given| given.person.is_some()))
    }

    /// The record that already holds this assessment.
    fn existing(&self, id: EventId, new: &Assessment) -> Result<Option<Event>, JournalError> {
        let found = {
            let writer = self.writer()?;
            let given = writer.reviews.assessments(id);
            given.and_then(|given| match &new.by {
                Assessor::Person(_) => given
                    .person
                    .as_ref()
                    .filter(|old| old.is_same(new))
                    .map(|old| old.seq),
                Assessor::SecondOpinion(_) | Assessor::Chain(_) => given.opinion,
            })
        };
        found.map_or(Ok(None), |seq| self.event(EventSeq(seq)))
    }

    /// Builds the record of an assessment of the event of record `named`. An opinion after a
    /// person's answer keeps what the person decided.
    fn record(
        &self,
        named: Event,
        new: NewAssessment,
        stamp: &Stamp,
    ) -> Result<Event, JournalError> {
        let (first, person) = {
            let reviews = &self.writer()?.reviews;
            let given = reviews.assessments(named.id);
            let person = given.and_then(|given| given.person.as_ref());
            (reviews.first(named.id), person.map(|person| person.seq))
        };
        let event = match first.filter(|first| *first != named.seq.0) {
            Some(first) => self.event(EventSeq(first))?.unwrap_or(named),
            None => named,
        };
        let decided = person.map_or(Ok(None), |seq| self.event(EventSeq(seq)))?;
        let NewAssessment {
            assessment,
            decision,
            links,
            event: _,
            only_if_unanswered: _,
        } = new;
        let raw_confidence = self.raw_confidence(&event)?;
        let (decision, evidence) = match (&assessment.by, decided) {
            (Assessor::Person(_), _) => (
                decide_by_person(&assessment),
                vec![evidence_of_person(&assessment, stamp.at)],
            ),
            (Assessor::SecondOpinion(_) | Assessor::Chain(_), Some(decided)) => {
                (decided.decision, decided.evidence)
            }
            (Assessor::SecondOpinion(_) | Assessor::Chain(_), None) => {
                let own = event.evidence.iter().cloned();
                (
                    decision.unwrap_or_else(|| event.decision.clone()),
                    own.chain(links).collect(),
                )
            }
        };
        let mut record = Event {
            seq: EventSeq(0),
            boot_id: stamp.boot_id.clone(),
            mono_ms: stamp.mono_ms,
            at: stamp.at,
            phase: Phase::Assessed,
            decision: Decision {
                raw_confidence,
                ..decision
            },
            evidence,
            media: Vec::new(),
            clip: None,
            hash: String::new(),
            ..event
        };
        // Only an approval notifies them; the writer knows whether something did before.
        if let EventBody::Rule(rule) = &mut record.body
            && assessment.answer != AssessmentAnswer::Approve
        {
            rule.on_act.clear();
        }
        record.assessment = Some(Box::new(assessment));
        Ok(record)
    }

    /// The events that wait for a person, at most `limit` of them.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn reviews(&self, limit: usize) -> Result<ReviewQueue, JournalError> {
        let (seqs, mut queue) = {
            let reviews = &self.writer()?.reviews;
            let queue = ReviewQueue {
                waiting: reviews.waiting_count() as u64,
                given_up: reviews.given_up(),
                reviews: Vec::new(),
            };
            (reviews.waiting(), queue)
        };
        for seq in seqs.into_iter().take(limit) {
            // Not durable yet, or deleted since.
            let Some(event) = self.event(EventSeq(seq))? else {
                continue;
            };
            let opinion = {
                let writer = self.writer()?;
                writer
                    .reviews
                    .assessments(event.id)
                    .and_then(|given| given.opinion)
            };
            let opinion = opinion.map_or(Ok(None), |seq| self.event(EventSeq(seq)))?;
            let (opinion, evidence) = opinion
                .map(|record| (record.assessment.map(|given| *given), record.evidence))
                .unwrap_or_default();
            queue.reviews.push(Review {
                event,
                opinion,
                evidence,
            });
        }
        Ok(queue)
    }

    /// The confidence of an event from its evidence alone when it began. Unknown where its `new`
    /// record is deleted or more than [`LOOKBACK_PAGES`] before this one.
    fn raw_confidence(&self, event: &Event) -> Result<Option<f64>, JournalError> {
        let of_new = |event: &Event| {
            let decision = &event.decision;
            decision.raw_confidence.or(Some(decision.confidence))
        };
        if event.phase == Phase::New {
            return Ok(of_new(event));
        }
        if event.phase == Phase::Assessed && event.decision.raw_confidence.is_some() {
            return Ok(event.decision.raw_confidence);
        }
        let is_new = |found: &Event| found.id == event.id && found.phase == Phase::New;
        let id = event.id.to_string();
        let new = self.find_back(event.seq, LOOKBACK_PAGES, &id, is_new)?;
        Ok(new.as_ref().and_then(of_new))
    }

    /// The durable record `seq`; `None` if there is none that this version can read.
    fn event(&self, seq: EventSeq) -> Result<Option<Event>, JournalError> {
        let page = self.read_after(EventSeq(seq.0.saturating_sub(1)), 1)?;
        let found = page.events.first().filter(|event| event.seq == seq);
        Ok(found.and_then(|event| event.event().ok()))
    }
}

/// A person's answer decides alone.
fn decide_by_person(assessment: &Assessment) -> Decision {
    let verdict = match assessment.answer {
        AssessmentAnswer::Approve => Verdict::Act,
        AssessmentAnswer::Correct if assessment.confirms_event() => Verdict::Record,
        AssessmentAnswer::Reject | AssessmentAnswer::Correct | AssessmentAnswer::None => {
            Verdict::Discard
        }
    };
    let reason = match (assessment.answer, &assessment.label) {
        (AssessmentAnswer::Approve, _) => "a person approved it".to_owned(),
        (_, Some(label)) => format!("a person corrected it: it was {label}"),
        (AssessmentAnswer::Correct, None) => {
            format!("a person entered {}", assessment.entered())
        }
        (_, None) => "a person rejected it".to_owned(),
    };
    Decision {
        verdict,
        confidence: f64::from(u8::from(assessment.confirms_event())),
        raw_confidence: None,
        reason,
        asks: None,
    }
}

fn evidence_of_person(assessment: &Assessment, at: Wall) -> Evidence {
    let confidence = f64::from(u8::from(assessment.confirms_event()));
    let note = assessment.note.clone().unwrap_or_default();
    let fields = &assessment.fields;
    Evidence {
        data: (!fields.is_empty()).then(|| serde_json::json!(fields)),
        at: Some(at),
        ..Evidence::new(PERSON, confidence, 1.0, note)
    }
}
