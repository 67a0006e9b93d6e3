//! The message that says what a second opinion makes of an event.
//!
//! Invariant: there is one for every event that was to be asked about, also where nobody answered; it carries no number of the journal, because the journal has no record of it.

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
use crate::second_opinion::{Answer, Case, Opinion, Outcome};

/// On `cam/<source>/opinion/<kind>`, QoS 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpinionMessage<'a> {
    /// [`SCHEMA`].
    pub schema: u16,
    /// Identity of the event.
    pub id: EventId,
    /// Number of the record that asked.
    pub event_seq: EventSeq,
    /// UTC milliseconds at which it came to this.
    pub ts: i64,
    /// Quality of `ts`.
    pub ts_quality: TimeQuality,
    /// Source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    /// Pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<&'a PipelineId>,
    /// Last level of the topic.
    pub kind: &'a str,
    /// How much the event matters.
    pub severity: Severity,
    /// Rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// What came of it.
    pub outcome: Outcome,
    /// What holds now and why.
    pub decision: &'a Decision,
    /// What the model said; absent where nobody answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opinion: Option<&'a Opinion>,
    /// The opinion as a link of the chain of evidence; absent where it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<&'a Evidence>,
    /// Which model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// What it cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl<'a> OpinionMessage<'a> {
    /// The message about what came of `case`.
    #[must_use]
    pub fn of(
        case: &'a Case,
        answer: &'a Result<Answer, String>,
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
            evidence: weighed.evidence.as_ref(),
            model: answer.map(|a| a.model.as_str()),
            cost_usd: answer.map(|a| a.cost.dollars()),
        }
    }
}

/// The message, ready for the outbox. A word without an opinion may be dropped before events are: there may be as many as there are doubtful events.
#[must_use]
pub fn opinion_draft(
    case: &Case,
    answer: &Result<Answer, String>,
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
    fn a_word_without_an_opinion_names_its_event_and_gives_way_to_events() {
        let case = Case::of(&doubtful(1, 7, Severity::Critical));
        let answer = Err("the budget is used up".to_owned());
        let now = Wall {
            unix_ms: 5,
            quality: TimeQuality::Synced,
        };
        let draft = opinion_draft(&case, &answer, &weigh(&case, &answer), now);
        assert_eq!(
            (draft.class, draft.severity),
            (Class::Event, Severity::Info)
        );
        assert_eq!(draft.topic, "cam/gate/opinion/crosses");
        assert!(draft.payload.len() < MAX_PAYLOAD);
        let told: serde_json::Value = serde_json::from_slice(&draft.payload).expect("json");
        assert_eq!(told["id"], case.event.id.to_string());
        assert_eq!(
            (&told["event_seq"], &told["outcome"]),
            (&7.into(), &"stands".into())
        );
        assert_eq!(told["decision"]["verdict"], "escalate");
        assert!(told["opinion"].is_null());
    }
}
