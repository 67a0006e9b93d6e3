//! A second opinion in the form in which the runtime's journal records it.

use std::collections::BTreeMap;

use watchkeeper_contract::assessment::{Assessment, AssessmentAnswer, Assessor, OpinionDetails};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_evidence::source::one_line;

use super::verdict::Stance;
use super::weigh::Weighed;
use super::{Answer, NoAnswer, clean_picture};

/// Builds the assessment of `event`; without an answer it says why there is none.
pub fn new_assessment(
    event: &Event,
    answer: &Result<Answer, NoAnswer>,
    weighed: &Weighed,
) -> NewAssessment {
    let (stance, note) = match answer {
        Err(no) => (AssessmentAnswer::None, no.why.as_str()),
        // It does not count, whatever it says.
        Ok(answer) if answer.opinion.injection_suspected => {
            (AssessmentAnswer::None, weighed.decision.reason.as_str())
        }
        Ok(answer) => {
            let stance = match answer.opinion.verdict {
                Stance::Confirm => AssessmentAnswer::Approve,
                Stance::Refute => AssessmentAnswer::Reject,
                Stance::Abstain => AssessmentAnswer::None,
            };
            (stance, answer.opinion.seen.as_str())
        }
    };
    NewAssessment {
        event: Some(event.id),
        assessment: Assessment {
            by: Assessor::SecondOpinion(Box::new(details(event, answer.as_ref().ok()))),
            answer: stance,
            label: None,
            fields: BTreeMap::new(),
            note: Some(one_line(note)),
        },
        only_if_unanswered: false,
        decision: Some(weighed.decision.clone()),
        links: vec![weighed.link.clone()],
    }
}

fn details(event: &Event, answer: Option<&Answer>) -> OpinionDetails {
    let asked = answer.filter(|answer| answer.shared_from.is_none());
    OpinionDetails {
        model: answer.map(|answer| answer.model.clone()),
        confidence: answer.map(|answer| answer.opinion.confidence),
        picture_sha256: asked
            .and(clean_picture(event))
            .map(|file| file.sha256.clone()),
        cost_usd: answer.map(|answer| answer.cost.dollars()),
        took_s: asked.map(|answer| answer.took.as_secs_f64()),
        shared_from: answer.and_then(|answer| answer.shared_from),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use watchkeeper_contract::rule::Severity;
    use watchkeeper_llm::money::Money;

    use super::super::testing::{doubtful, opinion};
    use super::super::weigh::weigh;
    use super::*;

    fn answer(injection: bool) -> Result<Answer, NoAnswer> {
        Ok(Answer {
            opinion: opinion(json!({
                "verdict": "confirm", "confidence": 0.9, "seen": "a person", "text_seen": "",
                "injection_suspected": injection,
            })),
            model: "m".to_owned(),
            cost: Money::ZERO,
            took: Duration::from_millis(1500),
            shared_from: None,
        })
    }

    fn assess(answer: &Result<Answer, NoAnswer>) -> NewAssessment {
        let event = doubtful(1, 1, Severity::Warning);
        let at = event.at;
        new_assessment(&event, answer, &weigh(&event, answer, at))
    }

    #[test]
    fn answer_names_model_picture_cost_and_time() {
        let new = assess(&answer(false));
        assert_eq!(new.assessment.answer, AssessmentAnswer::Approve);
        assert_eq!(new.assessment.note.as_deref(), Some("a person"));
        let Assessor::SecondOpinion(details) = new.assessment.by else {
            panic!("{:?}", new.assessment);
        };
        assert_eq!(
            (details.model.as_deref(), details.cost_usd, details.took_s),
            (Some("m"), Some(0.0), Some(1.5))
        );
        assert!(details.picture_sha256.is_some());
    }

    #[test]
    fn missing_or_uncounted_answer_approves_nothing() {
        let suspect = assess(&answer(true)).assessment;
        assert_eq!(suspect.answer, AssessmentAnswer::None);
        assert!(
            suspect
                .note
                .is_some_and(|note| note.contains("speaks to the model"))
        );
        let missing = assess(&Err("the budget\nis used up".into())).assessment;
        assert_eq!(missing.note.as_deref(), Some("the budget is used up"));
    }
}
