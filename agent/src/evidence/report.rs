//! The assessment that the runtime records as the result of a chain or a second opinion.
//!
//! - Only a decided chain approves; any other leaves the event to a person.
//! - Its texts are one line, without control characters.

use std::collections::BTreeMap;
use std::time::Duration;

use watchkeeper_assistant::wording::single_line;
use watchkeeper_contract::assessment::{
    Assessment, AssessmentAnswer, Assessor, ChainDetails, ChainResult, MAX_ASSESSMENT_TEXT,
};
use watchkeeper_contract::event::{Decision, Event};
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_contract::time::Wall;
use watchkeeper_evidence::chain::{Chain, Final};
use watchkeeper_llm::money::Money;

use super::on_disk::StoredChain;
use crate::second_opinion::weigh::{Weighed, weigh};
use crate::second_opinion::{Answer, NoAnswer, assessment};

/// A second opinion with its effect.
#[derive(Debug)]
pub(super) struct WeighedOpinion {
    pub event: Event,
    pub answer: Result<Answer, NoAnswer>,
    pub weighed: Weighed,
}

impl WeighedOpinion {
    /// Weighs the answer of `stored` against the latest decision of the box.
    pub(super) fn of(stored: &StoredChain, now: Wall) -> Self {
        let event = stored.event.clone();
        let answer = stored.answer.clone();
        let answer = answer.ok_or_else(|| no_answer(&stored.chain));
        Self {
            weighed: weigh(&event, &answer, now),
            event,
            answer,
        }
    }

    pub(super) fn new_assessment(&self) -> NewAssessment {
        assessment::new_assessment(&self.event, &self.answer, &self.weighed)
    }
}

/// Why the model, the only source of `chain`, gave no answer.
fn no_answer(chain: &Chain) -> NoAnswer {
    let Some((cause, result)) = chain.failure() else {
        return chain.given_up().unwrap_or("no answer").into();
    };
    let cost = result.cost_usd.and_then(Money::from_dollars);
    NoAnswer {
        why: cause.to_owned(),
        cost,
        // Without a known cost the agent ended before it was answered.
        took: cost.map(|_| Duration::from_millis(result.took_ms)),
    }
}

/// Builds the assessment of `event` with the final state of its chain.
pub(super) fn new_assessment(event: &Event, chain: &Chain, done: &Final) -> NewAssessment {
    let (cost_usd, took_ms) = chain.spent();
    let details = ChainDetails {
        result: done.result,
        asked: chain.asked(),
        fields: chain.field_names().to_vec(),
        cost_usd,
        took_s: took_ms as f64 / 1000.0,
    };
    let answer = match done.result {
        ChainResult::Decided => AssessmentAnswer::Approve,
        ChainResult::Person | ChainResult::Unknown => AssessmentAnswer::None,
    };
    let reason = single_line(&done.reason);
    NewAssessment {
        event: Some(event.id),
        assessment: Assessment {
            by: Assessor::Chain(Box::new(details)),
            answer,
            label: None,
            fields: BTreeMap::new(),
            note: Some(reason.chars().take(MAX_ASSESSMENT_TEXT).collect()),
        },
        only_if_unanswered: false,
        decision: Some(Decision {
            verdict: done.verdict,
            confidence: done.confidence,
            raw_confidence: None,
            reason,
            asks: None,
        }),
        links: chain.links(),
    }
}
