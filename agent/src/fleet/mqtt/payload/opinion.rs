//! Message about a second opinion on an event.
//!
//! - Every event that asked for a second opinion gets one message, also without an answer.
//! - It has no journal number: the runtime records the opinion afterwards, in phase `assessed`.

use serde::Serialize;
use watchkeeper_contract::event::{Decision, Evidence};
use watchkeeper_contract::id::{EventId, EventSeq, PipelineId, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::event::kind_of;
use super::{SCHEMA, encode};
use crate::fleet::mqtt::topics::Topics;
use crate::fleet::outbox::{Class, Draft};
use crate::second_opinion::weigh::Weighed;
use crate::second_opinion::{Answer, Case, NoAnswer, Opinion, Outcome};

/// Message about a second opinion, on `cam/<source>/opinion/<kind>`, QoS 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpinionMessage<'a> {
    pub schema: u16,
    /// Identity of the event.
    pub id: EventId,
    /// Journal number of the record that asked.
    pub event_seq: EventSeq,
    /// UTC milliseconds of the outcome.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<&'a PipelineId>,
    /// Last level of the topic.
    pub kind: &'a str,
    /// Severity of the event.
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// Effect on the event's verdict.
    pub outcome: Outcome,
    /// Verdict that holds now, with its reason.
    pub decision: &'a Decision,
    /// Answer of the model; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opinion: Option<&'a Opinion>,
    /// The opinion as evidence; absent where it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<&'a Evidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// Cost of the answer in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl<'a> OpinionMessage<'a> {
    /// Builds the message about the outcome of `case`.
    pub fn of(
        case: &'a Case,
        answer: &'a Result<Answer, NoAnswer>,
        weighed: &'a Weighed,
        now: Wall,
    ) -> Self {
        let answer = answer.as_ref().ok();
        let event = &case.event;
        Self {
            schema: SCHEMA,
            id: event.id,
            event_seq: event.seq,
            ts: now.unix_ms,
            ts_quality: now.quality,
            cam: event.source.as_ref(),
            pipeline: event.pipeline.as_ref(),
            kind: kind_of(event),
            severity: event.severity,
            rule: case.rule(),
            outcome: weighed.outcome,
            decision: &weighed.decision,
            opinion: answer.map(|a| &a.opinion),
            evidence: (weighed.link.weight > 0.0).then_some(&weighed.link),
            model: answer.map(|a| a.model.as_str()),
            cost_usd: answer.map(|a| a.cost.dollars()),
        }
    }
}

/// Builds the outbox entry. A message without an opinion may be dropped before events: there may be
/// one for each doubtful event.
pub fn opinion_draft(
    case: &Case,
    answer: &Result<Answer, NoAnswer>,
    weighed: &Weighed,
    now: Wall,
) -> Draft {
    let message = OpinionMessage::of(case, answer, weighed, now);
    let (class, severity) = match answer {
        Ok(_) => (Class::Assured, case.event.severity),
        Err(_) => (Class::Event, Severity::Info),
    };
    Draft {
        class,
        severity,
        topic: Topics::opinion_below(case.event.source.as_ref(), message.kind),
        retain: false,
        seq: None,
        payload: encode(&message),
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::time::TimeQuality;

    use super::*;
    use crate::fleet::mqtt::payload::MAX_PAYLOAD;
    use crate::second_opinion::testing::doubtful;
    use crate::second_opinion::weigh::weigh;

    #[test]
    fn message_without_an_opinion_may_be_dropped() {
        let case = Case::of(&doubtful(1, 7, Severity::Critical));
        let answer = Err("the budget is used up".into());
        let now = Wall {
            unix_ms: 5,
            quality: TimeQuality::Synced,
        };
        let draft = opinion_draft(&case, &answer, &weigh(&case, &answer, now), now);
        assert_eq!(
            (draft.class, draft.severity),
            (Class::Event, Severity::Info)
        );
        assert_eq!(draft.topic, "cam/gate/opinion/crosses");
        assert!(draft.payload.len() < MAX_PAYLOAD);
        let message: serde_json::Value = serde_json::from_slice(&draft.payload).expect("json");
        assert_eq!(message["id"], case.event.id.to_string());
        assert_eq!(
            (&message["event_seq"], &message["outcome"]),
            (&7.into(), &"stands".into())
        );
        assert_eq!(message["decision"]["verdict"], "escalate");
        assert!(message["opinion"].is_null());
    }
}
