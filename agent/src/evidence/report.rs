//! The assessment that the runtime records as the result of a chain.
//!
//! - Only a decided chain approves; any other leaves the event to a person.
//! - Its texts are one line, without control characters.

use std::collections::BTreeMap;

use watchkeeper_contract::assessment::{
    Assessment, AssessmentAnswer, Assessor, ChainDetails, ChainResult, MAX_ASSESSMENT_TEXT,
};
use watchkeeper_contract::event::{Decision, Event};
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_evidence::chain::{Chain, Final};

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
    let line = done.reason.chars().filter(|c| !c.is_control());
    let reason: String = line.collect();
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
