//! Adds assessments to the journal, as records of their events.
//!
//! - A person's answer replaces an earlier one. The same answer again adds no record.
//! - An event gets one second opinion. A repeated one adds no record.

use watchkeeper_contract::assessment::{
    Assessment, AssessmentAnswer, Assessor, MAX_ASSESSMENT_LABEL, MAX_ASSESSMENT_TEXT,
    NewAssessment, Review, ReviewQueue,
};
use watchkeeper_contract::event::{Decision, Event, EventBody, Evidence, Phase, Verdict};
use watchkeeper_contract::id::EventSeq;

use super::Journal;
use super::error::JournalError;
use super::loss::Stamp;

/// Source of a person's answer as evidence.
const PERSON: &str = "person";

/// Why an assessment was refused.
#[derive(Debug, thiserror::Error)]
pub enum AssessError {
    #[error("the journal has no event {0}; `GET /v1/events` lists those that it has")]
    Unknown(EventSeq),
    #[error("event {0} was not made by a rule, so there is nothing to assess")]
    NotOfRule(EventSeq),
    /// A field of the request, with the reason.
    #[error("{field} {why}")]
    Invalid {
        field: &'static str,
        value: String,
        why: String,
    },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// An assessment in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessed {
    /// Its record.
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
        check(&new)?;
        let _assessing = self.assessing.lock();
        let event = self.event(seq)?.ok_or(AssessError::Unknown(seq))?;
        if !matches!(event.body, EventBody::Rule(_)) {
            return Err(AssessError::NotOfRule(seq));
        }
        if let Some(event) = self.existing(&event, &new.assessment)? {
            return Ok(Assessed {
                event,
                is_new: false,
            });
        }
        let is_raised = self.writer.lock().reviews.is_raised(event.id);
        let record = record(event, new, stamp, is_raised);
        let mut appended = self.append(vec![record])?;
        let event = appended.pop().ok_or(AssessError::Unknown(seq))?;
        Ok(Assessed {
            event,
            is_new: true,
        })
    }

    /// The record that already holds this assessment.
    fn existing(&self, event: &Event, new: &Assessment) -> Result<Option<Event>, JournalError> {
        let found = {
            let writer = self.writer.lock();
            let given = writer.reviews.given(event.id);
            given.and_then(|given| match &new.by {
                Assessor::Person(_) => given
                    .person
                    .as_ref()
                    .filter(|(_, old)| old.answer == new.answer && old.label == new.label)
                    .map(|(seq, _)| *seq),
                Assessor::SecondOpinion(_) => given.opinion.as_ref().map(|(seq, _)| *seq),
            })
        };
        found.map_or(Ok(None), |seq| self.event(EventSeq(seq)))
    }

    /// The events that wait for a person, at most `limit` of them.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn reviews(&self, limit: usize) -> Result<ReviewQueue, JournalError> {
        let (seqs, waiting, given_up) = {
            let reviews = &self.writer.lock().reviews;
            let waiting = reviews.waiting_count() as u64;
            (reviews.waiting(), waiting, reviews.given_up())
        };
        let mut queue = ReviewQueue {
            waiting,
            given_up,
            reviews: Vec::new(),
        };
        for seq in seqs.into_iter().take(limit) {
            // Not durable yet, or deleted since.
            let Some(event) = self.event(EventSeq(seq))? else {
                continue;
            };
            let writer = self.writer.lock();
            let given = writer.reviews.given(event.id);
            let opinion = given.and_then(|given| given.opinion.as_ref());
            queue.reviews.push(Review {
                opinion: opinion.map(|(_, assessment)| assessment.clone()),
                event,
            });
        }
        Ok(queue)
    }

    /// The durable record `seq`; `None` where there is none that this version can read.
    fn event(&self, seq: EventSeq) -> Result<Option<Event>, JournalError> {
        let page = self.read_after(EventSeq(seq.0.saturating_sub(1)), 1)?;
        let found = page.events.first().filter(|event| event.seq == seq);
        Ok(found.and_then(|event| event.event().ok()))
    }
}

/// Builds the record of an assessment. Its `on_act` names channels only where the approval is what
/// makes the event certain; `is_raised` says that something else did already.
fn record(mut event: Event, new: NewAssessment, stamp: &Stamp, is_raised: bool) -> Event {
    let is_approved = new.assessment.answer == AssessmentAnswer::Approve
        && matches!(new.assessment.by, Assessor::Person(_));
    let makes_certain = is_approved && !is_raised && event.decision.verdict != Verdict::Act;
    if let EventBody::Rule(rule) = &mut event.body
        && !makes_certain
    {
        rule.on_act.clear();
    }
    let NewAssessment {
        assessment,
        decision,
        evidence,
    } = new;
    let (decision, evidence) = match &assessment.by {
        Assessor::Person(_) => (
            decide_by_person(&event, &assessment),
            evidence_of_person(&assessment).into_iter().collect(),
        ),
        Assessor::SecondOpinion(_) => (
            decision.unwrap_or_else(|| event.decision.clone()),
            event.evidence.iter().cloned().chain(evidence).collect(),
        ),
    };
    Event {
        seq: EventSeq(0),
        boot_id: stamp.boot_id.clone(),
        mono_ms: stamp.mono_ms,
        at: stamp.at,
        phase: Phase::Assessed,
        decision,
        evidence,
        assessment: Some(Box::new(assessment)),
        media: Vec::new(),
        clip: None,
        hash: String::new(),
        ..event
    }
}

/// A person's answer decides alone.
fn decide_by_person(event: &Event, assessment: &Assessment) -> Decision {
    let (verdict, confidence, reason) = match (assessment.answer, &assessment.label) {
        (AssessmentAnswer::Approve, _) => (Verdict::Act, 1.0, "a person approved it".to_owned()),
        (AssessmentAnswer::Correct, Some(label)) => (
            Verdict::Discard,
            0.0,
            format!("a person corrected it: it was {label}"),
        ),
        (AssessmentAnswer::Reject | AssessmentAnswer::Correct, _) => {
            (Verdict::Discard, 0.0, "a person rejected it".to_owned())
        }
        (AssessmentAnswer::None, _) => (
            event.decision.verdict,
            event.decision.confidence,
            "a person could not decide".to_owned(),
        ),
    };
    Decision {
        verdict,
        confidence,
        reason,
        asks: None,
    }
}

fn evidence_of_person(assessment: &Assessment) -> Option<Evidence> {
    let confidence = match assessment.answer {
        AssessmentAnswer::Approve => 1.0,
        AssessmentAnswer::Reject | AssessmentAnswer::Correct => 0.0,
        AssessmentAnswer::None => return None,
    };
    Some(Evidence {
        source: PERSON.to_owned(),
        confidence,
        weight: 1.0,
        note: assessment.note.clone().unwrap_or_default(),
    })
}

/// Checks the fields of a request.
fn check(new: &NewAssessment) -> Result<(), AssessError> {
    let invalid = |field, value: String, why: &str| {
        Err(AssessError::Invalid {
            field,
            value,
            why: why.to_owned(),
        })
    };
    let given = &new.assessment;
    check_text(
        "assessment.note",
        given.note.as_deref(),
        MAX_ASSESSMENT_TEXT,
    )?;
    check_text(
        "assessment.label",
        given.label.as_deref(),
        MAX_ASSESSMENT_LABEL,
    )?;
    let corrects = given.answer == AssessmentAnswer::Correct;
    if corrects != given.label.is_some() {
        let label = given.label.clone().unwrap_or_default();
        let why = "belongs to the answer correct, which needs it: the class that it really was";
        return invalid("assessment.label", label, why);
    }
    match &given.by {
        Assessor::Person(person) => {
            check_text(
                "assessment.by.name",
                person.name.as_deref(),
                MAX_ASSESSMENT_TEXT,
            )?;
            if new.decision.is_some() || new.evidence.is_some() {
                let why = "follows from a person's answer; leave it and evidence out";
                return invalid("decision", String::new(), why);
            }
        }
        Assessor::SecondOpinion(_) => {
            if corrects {
                let why = "is a person's; a second opinion answers approve, reject or none";
                return invalid("assessment.answer", "correct".to_owned(), why);
            }
            let Some(decision) = &new.decision else {
                let why = "is required with a second opinion: what holds after it";
                return invalid("decision", String::new(), why);
            };
            let evidence = new.evidence.iter().map(|e| e.confidence);
            let mut shares = evidence.chain([decision.confidence]);
            if let Some(wrong) = shares.find(|share| !(0.0..=1.0).contains(share)) {
                return invalid("decision.confidence", wrong.to_string(), "must be 0 to 1");
            }
        }
    }
    Ok(())
}

fn check_text(field: &'static str, text: Option<&str>, most: usize) -> Result<(), AssessError> {
    let text = text.unwrap_or_default();
    let is_line = !text.chars().any(char::is_control);
    if is_line && text.chars().count() <= most {
        return Ok(());
    }
    Err(AssessError::Invalid {
        field,
        value: text.chars().take(most).collect(),
        why: format!("must be one line of at most {most} characters"),
    })
}
