//! A record of the journal in words that only a newer runtime has: what can be told of it all the same.
//!
//! While a box is updated its runtime may be newer than its agent. Invariant: the record is carried to the byte as it came, and only what has
//! the same meaning in every version is read: the number, the identity, the kind; of the rest what this version understands.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use watchkeeper_contract::event::Phase;
use watchkeeper_contract::id::{EventId, EventSeq, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;

/// A record that this version knows only in part.
#[derive(Debug, Clone)]
pub struct NewerRecord {
    /// Position in the journal.
    pub seq: EventSeq,
    /// Identity over the event's life.
    pub id: EventId,
    /// What happened, in the runtime's word.
    pub kind: String,
    /// Which source it is about, where it names one.
    pub source: Option<SourceId>,
    /// Part of its life, where this version knows it.
    pub phase: Option<Phase>,
    /// How much it matters, where this version knows the word.
    pub severity: Option<Severity>,
    /// When it happened, where that is readable.
    pub at: Option<Wall>,
    /// Of a rule's event its condition, where it has one.
    pub condition: Option<String>,
    /// Its hash, where it has one.
    pub hash: Option<String>,
    /// The record as the runtime wrote it.
    pub raw: Box<RawValue>,
}

#[derive(Deserialize)]
struct Parts {
    id: EventId,
    seq: EventSeq,
    body: Body,
    #[serde(default)]
    source: Value,
    #[serde(default)]
    phase: Value,
    #[serde(default)]
    severity: Value,
    #[serde(default)]
    at: Value,
    #[serde(default)]
    hash: Value,
}

#[derive(Deserialize)]
struct Body {
    kind: String,
    #[serde(default)]
    condition: Value,
}

impl NewerRecord {
    /// Reads `text`; `None` where number, identity or kind are missing: that is no record.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let parts: Parts = serde_json::from_str(text).ok()?;
        Some(Self {
            seq: parts.seq,
            id: parts.id,
            condition: match parts.body.kind == "rule" {
                true => known(parts.body.condition),
                false => None,
            },
            kind: parts.body.kind,
            source: known(parts.source),
            phase: known(parts.phase),
            severity: known(parts.severity),
            at: known(parts.at),
            hash: known(parts.hash),
            raw: RawValue::from_string(text.to_owned()).ok()?,
        })
    }
}

fn known<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_version_knows_is_read_and_the_rest_is_carried() {
        let text = r#"{"schema":2, "id":"01MB78QN00000000000000001A","seq":7,"source":"gate","phase":"paused",
            "severity":"warning","body":{"kind":"door_forced","door":3.10}}"#;
        let record = NewerRecord::read(text).expect("a record");
        assert_eq!(
            (record.seq, record.kind.as_str()),
            (EventSeq(7), "door_forced")
        );
        assert_eq!(record.source, SourceId::new("gate").ok());
        assert_eq!(record.severity, Some(Severity::Warning));
        assert_eq!((record.phase, record.at), (None, None));
        assert_eq!(record.raw.get(), text);
    }

    #[test]
    fn what_has_no_number_identity_or_kind_is_no_record() {
        for text in [
            "nonsense",
            r#"{"schema":99}"#,
            r#"{"seq":7,"body":{"kind":"x"}}"#,
            r#"{"id":"01MB78QN00000000000000001A","body":{"kind":"x"}}"#,
            r#"{"id":"01MB78QN00000000000000001A","seq":7,"body":{}}"#,
        ] {
            assert!(NewerRecord::read(text).is_none(), "{text}");
        }
    }
}
