//! Message about a journal record that only a newer runtime understands.
//!
//! - Its member `record`, the record as the runtime wrote it, distinguishes it from other events.
//! - Members that this version does not understand are absent, never guessed.

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

/// Message about a newer record, on `cam/<source>/ev/<kind>` or `ev/<kind>`, QoS 1.
#[derive(Debug, Serialize)]
pub struct NewerEventMessage<'a> {
    /// Version of the message; the record has its own.
    pub schema: u16,
    /// Identity over the event's life.
    pub id: EventId,
    /// Journal number of the record.
    pub seq: EventSeq,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cam: Option<&'a SourceId>,
    /// Last level of the topic.
    pub kind: &'a str,
    /// Phase of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The record, byte for byte.
    pub record: &'a RawValue,
}

impl<'a> NewerEventMessage<'a> {
    /// Builds the message about `record`.
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

/// Condition of a rule, so that subscribers of `ev/crosses` get newer records too; else the kind.
fn level_of(record: &NewerRecord) -> &str {
    let condition = record.condition.as_deref().filter(|c| is_level(c));
    match condition.unwrap_or(&record.kind) {
        kind if is_level(kind) => kind,
        _ => "other",
    }
}

/// Builds the outbox entry of `record`. Only events of rules may be dropped. An unknown severity
/// counts as critical.
///
/// # Errors
/// Returns [`TooLarge`] when the message exceeds [`MAX_STORED`].
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
            "id": "01MB78QN00000000000000001A", "seq": 7, "severity": severity,
            "body": {"kind": kind},
        });
        let record = NewerRecord::read(&record.to_string()).expect("a record");
        newer_draft(&record).expect("fits")
    }

    #[test]
    fn invalid_kind_is_not_used_in_the_topic() {
        assert_eq!(draft("door_forced", "info").topic, "ev/door_forced");
        let odd = draft("a/#", "info");
        assert_eq!(odd.topic, "ev/other");
        let payload: Value = serde_json::from_slice(&odd.payload).expect("json");
        assert_eq!(payload["record"]["body"]["kind"], "a/#");
    }

    #[test]
    fn newer_event_of_a_rule_keeps_the_topic_of_its_condition() {
        let topic = |body: Value| {
            let record = json!({
                "id": "01MB78QN00000000000000001A", "seq": 7, "source": "gate", "body": body,
            });
            let record = NewerRecord::read(&record.to_string()).expect("a record");
            newer_draft(&record).expect("fits").topic
        };
        let crossing = json!({"kind": "rule", "condition": "crosses", "verdict": "ask_twice"});
        assert_eq!(topic(crossing), "cam/gate/ev/crosses");
        let odd = json!({"kind": "rule", "condition": "a/#"});
        assert_eq!(topic(odd), "cam/gate/ev/rule");
        let other = json!({"kind": "door_forced", "condition": "crosses"});
        assert_eq!(topic(other), "cam/gate/ev/door_forced");
    }

    #[test]
    fn record_that_may_be_critical_is_assured() {
        assert_eq!(draft("rule", "warning").class, Class::Event);
        assert_eq!(draft("rule", "catastrophic").class, Class::Assured);
        assert_eq!(draft("door_forced", "info").class, Class::Assured);
    }

    #[test]
    fn too_large_record_is_refused() {
        let kind = "x".repeat(MAX_PAYLOAD);
        let record = json!({"id": "01MB78QN00000000000000001A", "seq": 7, "body": {"kind": kind}});
        let record = NewerRecord::read(&record.to_string()).expect("a record");
        assert!(newer_draft(&record).is_err());
    }
}
