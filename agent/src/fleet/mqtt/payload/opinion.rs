//! Message about a second opinion on an event, made from the record in which the journal has it.
//!
//! - Every event that asked for a second opinion gets one message, also without an answer.
//! - It has no number of its own in the journal: the record itself is published as an event.

use serde::{Deserialize as _, Serialize};
use watchkeeper_contract::assessment::Assessor;
use watchkeeper_contract::event::{Decision, Event, Evidence};
use watchkeeper_contract::id::{EventId, PipelineId, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::TimeQuality;

use super::event::kind_of;
use super::{SCHEMA, encode};
use crate::fleet::mqtt::topics::Topics;
use crate::fleet::outbox::{Class, Draft};
use crate::second_opinion::weigh::{EVENT_SEQ, SOURCE, outcome_of};
use crate::second_opinion::{Opinion, Outcome};

/// Message about a second opinion, on `cam/<source>/opinion/<kind>`, QoS 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpinionMessage<'a> {
    pub schema: u16,
    /// Identity of the event.
    pub id: EventId,
    /// Journal number of the record that asked; absent where a person had answered before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_seq: Option<u64>,
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
    /// Answer of the model; absent without one, and where a person had answered before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opinion: Option<Opinion>,
    /// The opinion as evidence; absent if it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<&'a Evidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// Cost of the answer in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl<'a> OpinionMessage<'a> {
    /// Builds the message about the opinion in `event`; `None` for a record without one.
    pub fn of(event: &'a Event) -> Option<Self> {
        let assessment = event.assessment.as_deref()?;
        let Assessor::SecondOpinion(details) = &assessment.by else {
            return None;
        };
        let link = event.evidence.iter().find(|link| link.source == SOURCE);
        let data = link.and_then(|link| link.data.as_ref());
        Some(Self {
            schema: SCHEMA,
            id: event.id,
            event_seq: data.and_then(|data| data.get(EVENT_SEQ)?.as_u64()),
            ts: event.at.unix_ms,
            ts_quality: event.at.quality,
            cam: event.source.as_ref(),
            pipeline: event.pipeline.as_ref(),
            kind: kind_of(event),
            severity: event.severity,
            rule: event.body.rule().map(|rule| rule.rule.as_str()),
            outcome: outcome_of(event),
            decision: &event.decision,
            opinion: data.and_then(|data| Opinion::deserialize(data).ok()),
            evidence: link.filter(|link| link.weight > 0.0),
            model: details.model.as_deref(),
            cost_usd: details.cost_usd,
        })
    }
}

/// Builds the outbox entry about the opinion in `event`; `None` for a record without one. A message
/// without an opinion may be dropped before events: there may be one for each doubtful event.
pub fn opinion_draft(event: &Event) -> Option<Draft> {
    let message = OpinionMessage::of(event)?;
    let (class, severity) = match message.model {
        Some(_) => (Class::Assured, event.severity),
        None => (Class::Event, Severity::Info),
    };
    Some(Draft {
        class,
        severity,
        topic: Topics::opinion_below(event.source.as_ref(), message.kind),
        retain: false,
        seq: None,
        payload: encode(&message),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use watchkeeper_contract::event::Verdict;

    use super::*;
    use crate::fleet::mqtt::payload::MAX_PAYLOAD;
    use crate::second_opinion::testing::{assessed, confirmation, doubtful};

    fn message(draft: &Draft) -> Value {
        serde_json::from_slice(&draft.payload).expect("json")
    }

    #[test]
    fn message_without_an_opinion_may_be_dropped() {
        let event = assessed(Err("the budget is used up"));
        let draft = opinion_draft(&event).expect("an opinion");
        assert_eq!(
            (draft.class, draft.severity),
            (Class::Event, Severity::Info)
        );
        assert_eq!(draft.topic, "cam/gate/opinion/crosses");
        assert!(draft.payload.len() < MAX_PAYLOAD);
        let message = message(&draft);
        assert_eq!(message["id"], event.id.to_string());
        assert_eq!(
            (&message["event_seq"], &message["outcome"]),
            (&7.into(), &"stands".into())
        );
        assert_eq!(message["decision"]["verdict"], "escalate");
        assert!(message["opinion"].is_null());
        assert!(message["evidence"].is_null());
    }

    #[test]
    fn message_is_made_from_the_record_alone() {
        let draft = opinion_draft(&assessed(Ok(confirmation(false)))).expect("an opinion");
        assert_eq!(
            (draft.class, draft.severity),
            (Class::Assured, Severity::Critical)
        );
        let told = message(&draft);
        assert_eq!(told["outcome"], "raised");
        assert_eq!(told["model"], "m");
        assert_eq!(told["opinion"]["text_seen"], "DOCK 3");
        assert_eq!(told["evidence"]["source"], SOURCE);
        // Its texts reach no other reader.
        let draft = opinion_draft(&assessed(Ok(confirmation(true)))).expect("an opinion");
        let told = message(&draft);
        assert_eq!(told["outcome"], "stands");
        assert_eq!(told["opinion"]["injection_suspected"], true);
        assert!(!told.to_string().contains("DOCK 3"), "{told}");
    }

    #[test]
    fn opinion_after_a_persons_answer_stands() {
        let mut event = assessed(Ok(confirmation(false)));
        event.decision.verdict = Verdict::Act;
        event.evidence.clear();
        let told = message(&opinion_draft(&event).expect("an opinion"));
        assert_eq!(told["outcome"], "stands");
    }

    #[test]
    fn record_without_an_opinion_makes_no_message() {
        assert_eq!(
            opinion_draft(&doubtful(1, 7, Severity::Critical)).map(|draft| draft.topic),
            None
        );
    }
}
