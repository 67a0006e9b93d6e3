//! The message about an event in words that only a newer runtime has.
//!
//! Invariant: it can be told from other events by its member `record`, which is the record as the runtime wrote it; nothing is made up for
//! what this version does not understand.

use serde::Serialize;
use serde_json::value::RawValue;
use watchkeeper_contract::event::Phase;
use watchkeeper_contract::id::{EventId, EventSeq, SourceId};
use watchkeeper_contract::rule::Severity;

use super::event::{TooLarge, is_level};
use super::{MAX_STORED, SCHEMA, encode};
use crate::fleet::mqtt::topics::Topics;
use crate::fleet::outbox::{Class, Draft};
use watchkeeper_client::NewerRecord;

/// On `cam/<source>/ev/<kind>` or `ev/<kind>`, QoS 1.
#[derive(Debug, Serialize)]
pub struct NewerEventMessage<'a> {
    /// [`SCHEMA`]; the record has its own.
    pub schema: u16,
    /// Identity over the event's life.
    pub id: EventId,
    /// Number in the journal.
    pub seq: EventSeq,
    /// UTC milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts: Option<i64>,
    /// Source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    /// Last level of the topic.
    pub kind: &'a str,
    /// Part of the event's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How much it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The record, to the byte.
    pub record: &'a RawValue,
}

impl<'a> NewerEventMessage<'a> {
    /// The message about `record`.
    #[must_use]
    pub fn of(record: &'a NewerRecord) -> Self {
        Self {
            schema: SCHEMA,
            id: record.id,
            seq: record.seq,
            ts: record.at.map(|at| at.unix_ms),
            cam: record.source.as_ref(),
            kind: level_of(record),
            phase: record.phase,
            severity: record.severity,
            record: &record.raw,
        }
    }
}

/// The condition of a rule, as in every other event of a rule: whoever asked for `ev/crosses` gets this one too. Else the kind.
fn level_of(record: &NewerRecord) -> &str {
    let condition = record.condition.as_deref().filter(|c| is_level(c));
    match condition.unwrap_or(&record.kind) {
        kind if is_level(kind) => kind,
        _ => "other",
    }
}

/// The message about `record`, ready for the outbox. Every kind that is not a rule's is assured; a severity that this version does not know
/// may be the greatest.
///
/// # Errors
/// [`TooLarge`] when it does not fit into [`MAX_STORED`].
pub fn newer_draft(record: &NewerRecord) -> Result<Draft, TooLarge> {
    let message = NewerEventMessage::of(record);
    let payload = encode(&message);
    if payload.len() > MAX_STORED {
        return Err(TooLarge {
            seq: record.seq,
            bytes: payload.len(),
        });
    }
    let severity = record.severity.unwrap_or(Severity::Critical);
    let is_ordinary = record.kind == "rule" && severity < Severity::Critical;
    Ok(Draft {
        class: match is_ordinary {
            true => Class::Event,
            false => Class::Assured,
        },
        severity,
        topic: Topics::event_below(record.source.as_ref(), message.kind),
        retain: false,
        seq: Some(record.seq),
        payload,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet::mqtt::payload::MAX_PAYLOAD;

    fn draft(kind: &str, severity: &str) -> Draft {
        let record = json!({
            "id": "01MB78QN00000000000000001A", "seq": 7, "severity": severity, "body": {"kind": kind},
        });
        let record = NewerRecord::read(&record.to_string()).expect("a record");
        newer_draft(&record).expect("fits")
    }

    #[test]
    fn a_kind_that_is_no_topic_level_does_not_reach_the_topic() {
        assert_eq!(draft("door_forced", "info").topic, "ev/door_forced");
        let odd = draft("a/#", "info");
        assert_eq!(odd.topic, "ev/other");
        let payload: Value = serde_json::from_slice(&odd.payload).expect("json");
        assert_eq!(payload["record"]["body"]["kind"], "a/#");
    }

    #[test]
    fn a_rules_event_with_one_new_word_is_told_where_its_condition_always_is() {
        let told = |body: Value| {
            let record = json!({"id": "01MB78QN00000000000000001A", "seq": 7, "source": "gate", "body": body});
            let record = NewerRecord::read(&record.to_string()).expect("a record");
            newer_draft(&record).expect("fits").topic
        };
        let crossing = json!({"kind": "rule", "condition": "crosses", "verdict": "ask_twice"});
        assert_eq!(told(crossing), "cam/gate/ev/crosses");
        let odd = json!({"kind": "rule", "condition": "a/#"});
        assert_eq!(told(odd), "cam/gate/ev/rule");
        let other = json!({"kind": "door_forced", "condition": "crosses"});
        assert_eq!(told(other), "cam/gate/ev/door_forced");
    }

    #[test]
    fn what_may_be_critical_is_not_dropped_for_something_else() {
        assert_eq!(draft("rule", "warning").class, Class::Event);
        assert_eq!(draft("rule", "catastrophic").class, Class::Assured);
        assert_eq!(draft("door_forced", "info").class, Class::Assured);
    }

    #[test]
    fn a_record_that_is_too_large_is_refused() {
        let kind = "x".repeat(MAX_PAYLOAD);
        let record = json!({"id": "01MB78QN00000000000000001A", "seq": 7, "body": {"kind": kind}});
        let record = NewerRecord::read(&record.to_string()).expect("a record");
        assert!(newer_draft(&record).is_err());
    }
}
