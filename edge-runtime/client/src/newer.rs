//! Journal records of a newer runtime, read in part: during an update the runtime may be newer than
//! its client.
//!
//! - Number, id and kind have the same meaning in every version; other fields are read if known.
//! - Invariant: [`NewerRecord::raw`] is the record unchanged, to the byte.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use watchkeeper_contract::event::Phase;
use watchkeeper_contract::id::{EventId, EventSeq, SourceId};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;

/// A record that this version knows only in part; unknown values are `None`.
#[derive(Debug, Clone)]
pub struct NewerRecord {
    pub seq: EventSeq,
    pub id: EventId,
    /// Kind of the event, as the runtime names it.
    pub kind: String,
    pub source: Option<SourceId>,
    pub phase: Option<Phase>,
    pub severity: Option<Severity>,
    pub at: Option<Wall>,
    /// Condition of a rule's event.
    pub condition: Option<String>,
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
    /// Parses a record; `None` without number, id or kind.
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
    fn known_fields_are_read_and_the_raw_record_is_kept() {
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
    fn text_without_number_id_or_kind_is_refused() {
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
