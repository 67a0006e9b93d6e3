//! Reviews in words: the events that wait for a person, and a person's answer.

use std::collections::BTreeMap;

use serde::Deserialize;
use watchkeeper_config::lookups::is_field_name;
use watchkeeper_contract::assessment::{
    Assessment, AssessmentAnswer, Assessor, ChainDetails, ChainResult, Person, Via,
};
use watchkeeper_contract::event::{Event, EventBody, Evidence, Media, MediaKind};
use watchkeeper_contract::model::ModelInfo;
use watchkeeper_contract::problem::nearest;
use watchkeeper_contract::review::{
    NewAssessment, PipelineAnswers, Review, ReviewQueue, RuleAnswers,
};
use watchkeeper_engine::rules::calibration;

use crate::wording::{counted, local_time};

/// Confidences of which the calibrated values are shown.
const CALIBRATION_EXAMPLES: [f64; 4] = [0.5, 0.7, 0.85, 0.95];

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReviewAnswer)]
pub struct PersonAnswer {
    pub answer: AssessmentAnswer,
    /// Class that the object really has; only with the answer `correct`, without `fields`.
    #[serde(default)]
    pub label: Option<String>,
    /// Values that the rule's chain reads, by name, such as `plate`; only with the answer
    /// `correct`, without `label`.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// Remark to keep in the journal, one line.
    #[serde(default)]
    pub note: Option<String>,
    /// Name of the person, which is not verified.
    #[serde(default, rename = "by")]
    pub name: Option<String>,
}

impl PersonAnswer {
    /// Returns the request to the runtime.
    pub fn into_request(self, via: Via) -> NewAssessment {
        let Self {
            answer,
            label,
            fields,
            note,
            name,
        } = self;
        NewAssessment {
            event: None,
            assessment: Assessment {
                by: Assessor::Person(Person { name, via }),
                answer,
                label,
                fields,
                note,
            },
            only_if_unanswered: false,
            decision: None,
            links: Vec::new(),
        }
    }
}

/// Parses values by name, such as `plate=AB 123 colour=red`. `None` if the text does not begin with
/// `NAME=`, or names a field twice.
pub fn parse_fields(text: &str) -> Option<BTreeMap<String, String>> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut last = None;
    for word in text.split_whitespace() {
        let begun = word.split_once('=').filter(|(name, _)| is_field_name(name));
        if let Some((name, value)) = begun {
            if fields.insert(name.to_owned(), value.to_owned()).is_some() {
                return None;
            }
            last = Some(name);
        } else {
            let value = fields.get_mut(last?)?;
            value.push(' ');
            value.push_str(word);
        }
    }
    Some(fields).filter(|fields| !fields.is_empty())
}

/// Returns a note about a class that no model here knows, with the nearest one.
pub fn unknown_class(class: &str, models: &[ModelInfo]) -> Option<String> {
    let known = || models.iter().flat_map(|m| &m.labels).map(String::as_str);
    if known().next().is_none() || known().any(|label| label == class) {
        return None;
    }
    let hint = match nearest(&class.to_lowercase(), known()) {
        Some(label) => {
            format!("; did you mean {label:?}? Correct the event again to change it")
        }
        None => String::new(),
    };
    Some(format!("no model here knows the class {class:?}{hint}"))
}

/// Describes the waiting events, one a line, with pictures, and second opinions or chains.
pub fn describe(queue: &ReviewQueue) -> Vec<String> {
    if queue.waiting == 0 {
        return vec!["No event waits for a review.".to_owned()];
    }
    let mut lines: Vec<String> = queue.reviews.iter().map(describe_review).collect();
    let left_out = queue.waiting.saturating_sub(queue.reviews.len() as u64);
    if left_out > 0 {
        lines.push(format!("{} more.", counted(left_out, "event")));
    }
    lines
}

fn describe_review(review: &Review) -> String {
    let event = &review.event;
    let camera = event.source.as_ref().map_or("", |source| source.as_str());
    let EventBody::Rule(rule) = &event.body else {
        // Only events of rules are reviewed.
        return format!("{:>8}", event.seq);
    };
    let mut text = format!(
        "{:>8}  {}  {camera}, {}: {} ({}, {} %)",
        event.seq,
        local_time(event.at.unix_ms),
        rule.rule,
        rule.reason,
        event.decision.verdict.name(),
        event.decision.percent()
    );
    if let Some(given) = &review.opinion {
        text.push_str(&match &given.by {
            Assessor::Chain(details) => {
                format!("; {}", describe_chain(details, &review.evidence))
            }
            Assessor::Person(_) | Assessor::SecondOpinion(_) => {
                format!("; second opinion: {}", describe_given(given))
            }
        });
    }
    if let Some(media) = event.media.last() {
        text.push_str(&format!("; picture {}", media.id));
    }
    text
}

/// Describes an assessment, such as `approved: "a person at the door"`. A second opinion settles
/// nothing, so it confirms or refutes.
pub(crate) fn describe_given(given: &Assessment) -> String {
    let is_opinion = matches!(given.by, Assessor::SecondOpinion(_));
    let answer = match (given.answer, &given.label) {
        (AssessmentAnswer::Approve, _) if is_opinion => "confirms".to_owned(),
        (AssessmentAnswer::Reject, _) if is_opinion => "refutes".to_owned(),
        (AssessmentAnswer::Approve, _) => "approved".to_owned(),
        (AssessmentAnswer::Reject, _) => "rejected".to_owned(),
        (AssessmentAnswer::Correct, Some(label)) => format!("corrected to {label}"),
        (AssessmentAnswer::Correct, None) => format!("corrected to {}", given.entered()),
        (AssessmentAnswer::None, _) => "no answer".to_owned(),
    };
    match given.note.as_deref() {
        Some(note) if !note.is_empty() => format!("{answer}: {note:?}"),
        _ => answer,
    }
}

/// Describes an assessment with the person who made it, such as `approved by "Ada"`.
pub fn describe_answer(given: &Assessment) -> String {
    let said = describe_given(given);
    match &given.by {
        Assessor::Person(Person {
            name: Some(name), ..
        }) => format!("{said} by {name:?}"),
        Assessor::Person(Person { name: None, .. }) => format!("{said} by a person"),
        Assessor::SecondOpinion(_) | Assessor::Chain(_) => said,
    }
}

/// Describes the record of an assessment, such as `approved by a person (act)`.
pub fn describe_record(event: &Event) -> String {
    let Some(given) = event.assessment.as_deref() else {
        return String::new();
    };
    let text = match &given.by {
        Assessor::Person(_) => describe_answer(given),
        Assessor::SecondOpinion(details) => match (&details.model, &given.note) {
            (Some(model), _) => {
                format!("second opinion of {model:?}: {}", describe_given(given))
            }
            (None, Some(why)) => format!("no second opinion: {why:?}"),
            (None, None) => "no second opinion".to_owned(),
        },
        Assessor::Chain(details) => describe_chain(details, &event.evidence),
    };
    if given.answer == AssessmentAnswer::Correct && !given.confirms_event() {
        // It happened, with another object: `discard` is said of what did not.
        return text;
    }
    format!("{text} ({})", event.decision.verdict.name())
}

/// Describes the result of a chain with its links, such as `decided by members 0.95: "row 7"`.
fn describe_chain(details: &ChainDetails, evidence: &[Evidence]) -> String {
    let of_chain = |link: &&Evidence| details.asked.contains(&link.source);
    let links = evidence.iter().filter(of_chain).map(|link| {
        let Evidence {
            source,
            confidence,
            note,
            ..
        } = link;
        match (link.failed, link.weight > 0.0) {
            (true, _) => format!("{source} failed: {note:?}"),
            (false, false) => format!("{source} has no answer: {note:?}"),
            (false, true) => format!("{source} {confidence:.2}: {note:?}"),
        }
    });
    let links = links.collect::<Vec<_>>().join(", ");
    match details.result {
        ChainResult::Decided => format!("decided by {links}"),
        ChainResult::Person => format!("left to a person after {links}"),
        ChainResult::Unknown => {
            let mut answered = evidence.iter().filter(of_chain);
            match answered.any(|link| link.weight > 0.0 && !link.failed) {
                true => format!(
                    "no source that can decide answered; what was only read or observed does not \
                     decide: {links}"
                ),
                false => format!("no source answered: {links}"),
            }
        }
    }
}

/// Describes how answers change the confidence of a pipeline's events, one rule a line.
pub fn describe_answers(answers: &PipelineAnswers) -> Vec<String> {
    if answers.rules.is_empty() {
        return vec![format!(
            "No event of {} has an answer since it was last replaced.",
            answers.pipeline
        )];
    }
    answers.rules.iter().map(describe_rule_answers).collect()
}

fn describe_rule_answers(of: &RuleAnswers) -> String {
    let approved = of.answers.iter().filter(|answer| answer.is_true).count();
    let rejected = of.answers.len() - approved;
    let head = format!("{}: {approved} approved, {rejected} rejected", of.rule);
    let Some(calibration) = &of.calibration else {
        return format!("{head}; not calibrated");
    };
    let examples = CALIBRATION_EXAMPLES.map(|raw| {
        let after = calibration::apply(calibration, raw);
        format!("{:.0} % becomes {:.0} %", raw * 100.0, after * 100.0)
    });
    format!("{head}; a confidence of {}", examples.join(", "))
}

/// The picture that shows an event best: the annotated one, if there is one.
pub fn best_picture(event: &Event) -> Option<&Media> {
    let pictures = event.media.iter();
    pictures.max_by_key(|media| media.kind == MediaKind::Annotated)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The words about an assessed event with this decision, evidence and assessment.
    fn described(decision: &Value, evidence: &Value, assessment: &Value) -> String {
        let event = json!({
            "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": 7, "boot_id": "b",
            "mono_ms": 0, "at": {"unix_ms": 0, "quality": "synced"}, "phase": "assessed",
            "source": "gate", "severity": "info",
            "body": {"kind": "rule", "rule": "door", "condition": "enters", "reason": "r",
                "tracks": [4], "frame": 120, "pts_s": 4.0},
            "decision": decision, "evidence": evidence, "assessment": assessment, "hash": "",
        });
        describe_record(&serde_json::from_value(event).unwrap())
    }

    fn unknown(text_weight: f64) -> String {
        let link = |source: &str, confidence: f64, weight: f64, note: &str| {
            json!({"source": source, "confidence": confidence, "weight": weight, "note": note,
                "at": {"unix_ms": 0, "quality": "synced"}, "took_ms": 1})
        };
        described(
            &json!({"verdict": "review", "confidence": 0.7, "reason": "r"}),
            &json!([
                link("text", 0.73, text_weight, "read \"car\""),
                link("members", 0.0, 0.0, "no row")
            ]),
            &json!({"by": {"kind": "chain", "result": "unknown",
                "asked": ["text", "members"], "cost_usd": 0.0, "took_s": 0.2}, "answer": "none"}),
        )
    }

    #[test]
    fn chain_that_only_read_says_that_this_does_not_decide() {
        let line = unknown(0.2);
        assert!(
            line.starts_with("no source that can decide answered"),
            "{line}"
        );
        assert!(line.contains("text 0.73"), "{line}");
        assert!(unknown(0.0).starts_with("no source answered: "));
    }

    #[test]
    fn review_says_why_a_source_of_its_chain_failed() {
        let at = json!({"unix_ms": 0, "quality": "synced"});
        let decision = json!({"verdict": "review", "confidence": 0.7, "reason": "r"});
        let queue = json!({"waiting": 1, "given_up": 0, "reviews": [{
            "event": {
                "schema": 1, "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "seq": 7, "boot_id": "b",
                "mono_ms": 0, "at": at, "phase": "new", "source": "gate", "severity": "info",
                "body": {"kind": "rule", "rule": "door", "condition": "enters", "reason": "r",
                    "tracks": [4], "frame": 120, "pts_s": 4.0},
                "decision": decision, "evidence": [], "hash": "",
            },
            "opinion": {"by": {"kind": "chain", "result": "unknown", "asked": ["members"],
                "cost_usd": 0.0, "took_s": 0.2}, "answer": "none"},
            "evidence": [{"source": "members", "confidence": 0.0, "weight": 0.0, "failed": true,
                "note": "no connection", "at": at, "took_ms": 1}],
        }]});
        let lines = describe(&serde_json::from_value(queue).unwrap());
        let why = "; no source answered: members failed: \"no connection\"";
        assert!(lines[0].ends_with(why), "{lines:?}");
    }

    #[test]
    fn corrected_event_is_not_called_discarded() {
        let answered = |given: Value| {
            let discard = json!({"verdict": "discard", "confidence": 0.0, "reason": "r"});
            described(&discard, &json!([]), &given)
        };
        let by = json!({"kind": "person", "via": "chat"});
        assert_eq!(
            answered(json!({"by": by, "answer": "correct", "label": "truck"})),
            "corrected to truck by a person"
        );
        assert_eq!(
            answered(json!({"by": by, "answer": "reject"})),
            "rejected by a person (discard)"
        );
    }

    #[test]
    fn class_that_no_model_knows_is_noted_with_the_nearest() {
        let model = serde_json::from_value(json!({
            "name": "yolox-nano", "task": "object-detection",
            "state": {"state": "absent"},
            "labels": ["car", "truck"],
        }));
        let Ok(model) = model else {
            panic!("{model:?}");
        };
        let models = [model];
        assert_eq!(unknown_class("truck", &models), None);
        let near = unknown_class("truk", &models);
        assert!(near.is_some_and(|note| note.contains("did you mean \"truck\"?")));
        let far = unknown_class("giraffe", &models);
        assert_eq!(
            far.as_deref(),
            Some("no model here knows the class \"giraffe\"")
        );
        assert_eq!(unknown_class("truk", &[]), None);
    }
}
