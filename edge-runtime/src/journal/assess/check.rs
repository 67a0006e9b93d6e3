//! Checks the fields of an assessment: what clients send is stored, published and shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use watchkeeper_contract::assessment::{
    AssessmentAnswer, Assessor, ChainDetails, ChainResult, MAX_ASSESSMENT_FIELDS,
    MAX_ASSESSMENT_LABEL, MAX_ASSESSMENT_TEXT, OpinionDetails,
};
use watchkeeper_contract::event::{
    Decision, Evidence, MAX_EVIDENCE_DATA, MAX_READING_CHARS, Verdict,
};
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_contract::rule::{MAX_CHAIN, MAX_SOURCE_NAME};

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
    /// Requirement for the value.
    pub why: String,
}

/// Checks a request.
///
/// # Errors
/// [`InvalidField`] for the first wrong field.
pub(crate) fn check(new: &NewAssessment) -> Result<(), InvalidField> {
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
    let corrections = [given.label.is_some(), !given.fields.is_empty()];
    if corrections.into_iter().map(usize::from).sum::<usize>() != usize::from(corrects) {
        let label = given.label.clone().unwrap_or_default();
        let why = "belongs to the answer correct, which needs it, the class that it really was, \
                   or fields";
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
            if new.decision.is_some() || !new.links.is_empty() {
                let why = "follows from a person's answer; leave it and links out";
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
            let decision = check_decision(new.decision.as_ref())?;
            if decision.verdict == Verdict::Act {
                let why = "must not be act: a second opinion makes no event certain";
                return invalid("decision.verdict", "act".to_owned(), why);
            }
            check_links(&new.links, 1)
        }
        Assessor::Chain(details) => {
            let decision = check_decision(new.decision.as_ref())?;
            check_chain(given.answer, details, decision, &new.links)
        }
    }
}

/// Checks the values that a person enters, of the names `known` of the event.
///
/// # Errors
/// [`InvalidField`] with the names that may be entered.
pub(super) fn check_fields(
    fields: &BTreeMap<String, String>,
    known: &[String],
) -> Result<(), InvalidField> {
    const FIELD: &str = "assessment.fields";
    if fields.len() > MAX_ASSESSMENT_FIELDS {
        let why = format!("must be at most {MAX_ASSESSMENT_FIELDS}");
        return invalid(FIELD, fields.len().to_string(), &why);
    }
    for (name, value) in fields {
        if !known.contains(name) {
            let why = match known {
                [] => "names a value, but no chain has read values of the event".to_owned(),
                known => format!(
                    "names a value that the rule's chain does not read; it reads {}",
                    known.join(", ")
                ),
            };
            return invalid(FIELD, name.chars().take(MAX_NAME).collect(), &why);
        }
        line(FIELD, Some(value), MAX_READING_CHARS)?;
        if value.trim().is_empty() {
            return invalid(FIELD, name.clone(), "must not be blank");
        }
    }
    check_data(FIELD, &json!(fields))
}

fn check_data(field: &'static str, data: &Value) -> Result<(), InvalidField> {
    let bytes = data.to_string().len();
    if bytes <= MAX_EVIDENCE_DATA {
        return Ok(());
    }
    let why = format!("must be at most {MAX_EVIDENCE_DATA} bytes of JSON");
    invalid(field, format!("{bytes} bytes"), &why)
}

/// Checks the result of a chain: it never discards, acts only if a link answered, and approves only
/// what it decided.
fn check_chain(
    answer: AssessmentAnswer,
    details: &ChainDetails,
    decision: &Decision,
    links: &[Evidence],
) -> Result<(), InvalidField> {
    let may_answer = match details.result {
        ChainResult::Decided => answer == AssessmentAnswer::Approve,
        ChainResult::Person | ChainResult::Unknown => answer == AssessmentAnswer::None,
    };
    if !may_answer {
        let why = "must be approve where the chain decided, and none otherwise";
        return invalid("assessment.answer", format!("{answer:?}"), why);
    }
    let has_answer = links.iter().any(|link| !link.failed && link.weight > 0.0);
    let is_certain = matches!(decision.verdict, Verdict::Act | Verdict::Record);
    if is_certain != (details.result == ChainResult::Decided) || (is_certain && !has_answer) {
        let why = "must be act or record where links decided it, and review or escalate otherwise";
        return invalid("decision.verdict", format!("{:?}", decision.verdict), why);
    }
    if decision.verdict == Verdict::Discard {
        let why = "must not be discard: what a chain leaves open a person decides";
        return invalid("decision.verdict", "discard".to_owned(), why);
    }
    if details.asked.len() > MAX_CHAIN {
        let why = format!("must be at most {MAX_CHAIN}");
        return invalid("assessment.by.asked", details.asked.len().to_string(), &why);
    }
    for name in &details.asked {
        line("assessment.by.asked", Some(name), MAX_SOURCE_NAME)?;
    }
    if details.fields.len() > MAX_CHAIN * MAX_ASSESSMENT_FIELDS {
        let value = details.fields.len().to_string();
        return invalid("assessment.by.fields", value, "are too many");
    }
    for name in &details.fields {
        line("assessment.by.fields", Some(name), MAX_ASSESSMENT_LABEL)?;
    }
    amount("assessment.by.cost_usd", details.cost_usd)?;
    amount("assessment.by.took_s", details.took_s)?;
    check_links(links, MAX_CHAIN)
}

fn check_links(links: &[Evidence], most: usize) -> Result<(), InvalidField> {
    if links.len() > most {
        let why = format!("must be at most {most}");
        return invalid("links", links.len().to_string(), &why);
    }
    links.iter().try_for_each(check_evidence)
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

fn check_decision(decision: Option<&Decision>) -> Result<&Decision, InvalidField> {
    let Some(decision) = decision else {
        return Err(InvalidField {
            field: "decision",
            value: String::new(),
            why: "is required with a second opinion or a chain: what holds after it".to_owned(),
        });
    };
    line("decision.reason", Some(&decision.reason), MAX_REASON)?;
    share("decision.confidence", decision.confidence)?;
    Ok(decision)
}

fn check_evidence(evidence: &Evidence) -> Result<(), InvalidField> {
    line("evidence.source", Some(&evidence.source), MAX_NAME)?;
    line("evidence.note", Some(&evidence.note), MAX_ASSESSMENT_TEXT)?;
    share("evidence.confidence", evidence.confidence)?;
    amount("evidence.cost_usd", evidence.cost_usd.unwrap_or(0.0))?;
    if evidence.failed && evidence.confidence > 0.0 {
        let value = evidence.confidence.to_string();
        return invalid("evidence.confidence", value, "must be 0 where it failed");
    }
    if let Some(data) = &evidence.data {
        check_data("evidence.data", data)?;
    }
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
