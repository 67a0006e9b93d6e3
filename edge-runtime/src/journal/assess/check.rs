//! Checks the fields of an assessment: what clients send is stored, published and shown.

use watchkeeper_contract::assessment::{
    AssessmentAnswer, Assessor, MAX_ASSESSMENT_LABEL, MAX_ASSESSMENT_TEXT, OpinionDetails,
};
use watchkeeper_contract::event::{Decision, Evidence, Verdict};
use watchkeeper_contract::review::NewAssessment;

/// Longest reason of a decision in characters.
const MAX_REASON: usize = 1000;
/// Longest name of a model, or checksum, in characters.
const MAX_NAME: usize = 200;

/// A wrong field of a request.
#[derive(Debug, thiserror::Error)]
#[error("{field} {why}")]
pub struct InvalidField {
    pub field: &'static str,
    pub value: String,
    /// What the value must be.
    pub why: String,
}

/// Checks a request.
///
/// # Errors
/// [`InvalidField`] for the first wrong field.
pub(super) fn check(new: &NewAssessment) -> Result<(), InvalidField> {
    let given = &new.assessment;
    line(
        "assessment.note",
        given.note.as_deref(),
        MAX_ASSESSMENT_TEXT,
    )?;
    line(
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
            line(
                "assessment.by.name",
                person.name.as_deref(),
                MAX_ASSESSMENT_TEXT,
            )?;
            if given.answer == AssessmentAnswer::None {
                let why = "is a second opinion's; a person answers approve, reject or correct";
                return invalid("assessment.answer", "none".to_owned(), why);
            }
            if new.decision.is_some() || new.evidence.is_some() {
                let why = "follows from a person's answer; leave it and evidence out";
                return invalid("decision", String::new(), why);
            }
            Ok(())
        }
        Assessor::SecondOpinion(details) => {
            if corrects {
                let why = "is a person's; a second opinion answers approve, reject or none";
                return invalid("assessment.answer", "correct".to_owned(), why);
            }
            check_details(details)?;
            check_decision(new.decision.as_ref())?;
            new.evidence.as_ref().map_or(Ok(()), check_evidence)
        }
    }
}

fn check_details(details: &OpinionDetails) -> Result<(), InvalidField> {
    line("assessment.by.model", details.model.as_deref(), MAX_NAME)?;
    let sum = details.picture_sha256.as_deref();
    line("assessment.by.picture_sha256", sum, MAX_NAME)?;
    share(
        "assessment.by.confidence",
        details.confidence.unwrap_or(0.0),
    )?;
    amount("assessment.by.cost_usd", details.cost_usd.unwrap_or(0.0))?;
    amount("assessment.by.took_s", details.took_s.unwrap_or(0.0))
}

fn check_decision(decision: Option<&Decision>) -> Result<(), InvalidField> {
    let Some(decision) = decision else {
        let why = "is required with a second opinion: what holds after it";
        return invalid("decision", String::new(), why);
    };
    if decision.verdict == Verdict::Act {
        let why = "must not be act: a second opinion makes no event certain";
        return invalid("decision.verdict", "act".to_owned(), why);
    }
    line("decision.reason", Some(&decision.reason), MAX_REASON)?;
    share("decision.confidence", decision.confidence)
}

fn check_evidence(evidence: &Evidence) -> Result<(), InvalidField> {
    line("evidence.source", Some(&evidence.source), MAX_NAME)?;
    line("evidence.note", Some(&evidence.note), MAX_ASSESSMENT_TEXT)?;
    share("evidence.confidence", evidence.confidence)?;
    amount("evidence.weight", evidence.weight)
}

fn invalid(field: &'static str, value: String, why: &str) -> Result<(), InvalidField> {
    Err(InvalidField {
        field,
        value,
        why: why.to_owned(),
    })
}

/// Checks a text of one line.
fn line(field: &'static str, text: Option<&str>, max_chars: usize) -> Result<(), InvalidField> {
    let text = text.unwrap_or_default();
    let is_line = !text.chars().any(char::is_control);
    if is_line && text.chars().count() <= max_chars {
        return Ok(());
    }
    let value = text.chars().filter(|c| !c.is_control());
    let why = format!("must be one line of at most {max_chars} characters");
    invalid(field, value.take(max_chars).collect(), &why)
}

/// Checks a number of `0.0..=1.0`.
fn share(field: &'static str, number: f64) -> Result<(), InvalidField> {
    match (0.0..=1.0).contains(&number) {
        true => Ok(()),
        false => invalid(field, number.to_string(), "must be 0 to 1"),
    }
}

/// Checks a number of 0 or more.
fn amount(field: &'static str, number: f64) -> Result<(), InvalidField> {
    match number.is_finite() && number >= 0.0 {
        true => Ok(()),
        false => invalid(field, number.to_string(), "must be 0 or more"),
    }
}
