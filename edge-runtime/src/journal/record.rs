//! The records of the journal on disk.
//!
//! An event, format 1: format (2 bytes, big-endian), severity (1 byte, 2 = critical), hash (32
//! bytes), then the event as canonical JSON without its hash. This text is stored and served as it
//! was hashed, so that a number is never printed in two ways.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::canonical::canonical;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;
use watchkeeper_store::BadRecord;

use super::chain::{self, Hash};
use super::error::JournalError;

/// Version of events and of the head that this build reads and writes.
pub(super) const FORMAT: u16 = 1;
const CRITICAL: u8 = 2;
const PREFIX: usize = 2 + 1 + 32;

/// One record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: EventSeq,
    hash: Hash,
    canonical: String,
}

impl StoredEvent {
    pub(crate) fn decode(seq: EventSeq, bytes: &[u8]) -> Result<Self, BadRecord> {
        let damaged = |why: String| BadRecord::Damaged(why);
        let Some((format, rest)) = bytes.split_first_chunk::<2>() else {
            return Err(damaged("the record has no format".to_owned()));
        };
        check_format(u16::from_be_bytes(*format), FORMAT)?;
        let Some((hash, json)) = rest.get(1..).and_then(<[u8]>::split_first_chunk::<32>) else {
            let why = format!("{} bytes are too short for an event", bytes.len());
            return Err(damaged(why));
        };
        let canonical = std::str::from_utf8(json).map_err(|e| damaged(e.to_string()))?;
        if !canonical.ends_with('}') {
            return Err(damaged("the record is not a JSON object".to_owned()));
        }
        Ok(Self {
            seq,
            hash: Hash(*hash),
            canonical: canonical.to_owned(),
        })
    }

    /// The text that was hashed.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The event as JSON: the canonical text with the field `hash` appended.
    pub fn json(&self) -> String {
        let body = self.canonical.strip_suffix('}').unwrap_or(&self.canonical);
        format!("{body},\"hash\":\"{}\"}}", self.hash)
    }

    /// Parses the event.
    ///
    /// # Errors
    /// When it has values that this version does not know.
    pub fn event(&self) -> Result<Event, JournalError> {
        serde_json::from_str(&self.json()).map_err(|e| JournalError::Unreadable {
            what: format!("event {}", self.seq),
            why: e.to_string(),
        })
    }
}

/// Only the format: a record of another format may have any other field.
#[derive(Deserialize)]
struct FormatOnly {
    format: u16,
}

/// Checks the field `format` of a JSON record before anything else is read. `newest` is the newest
/// format of its kind that this build reads.
pub(super) fn check_json_format(bytes: &[u8], newest: u16) -> Result<(), BadRecord> {
    let found: FormatOnly =
        serde_json::from_slice(bytes).map_err(|e| BadRecord::Damaged(e.to_string()))?;
    check_format(found.format, newest)
}

fn check_format(found: u16, newest: u16) -> Result<(), BadRecord> {
    match found {
        0 => Err(BadRecord::Damaged("format 0 was never written".to_owned())),
        found if found <= newest => Ok(()),
        newer => Err(BadRecord::Newer(newer)),
    }
}

/// The stored form of `event` after the record with hash `previous`, and its own hash.
pub(crate) fn encode(event: &Event, previous: &Hash) -> (Vec<u8>, Hash) {
    let mut value = serde_json::to_value(event)
        .expect("an event is a struct with text keys, which always has a JSON form");
    if let Some(map) = value.as_object_mut() {
        map.remove("hash");
    }
    let canonical = canonical(&value);
    let hash = chain::link(previous, &canonical);
    let mut out = Vec::with_capacity(PREFIX + canonical.len());
    out.extend_from_slice(&FORMAT.to_be_bytes());
    out.push(match event.severity {
        Severity::Info => 0,
        Severity::Warning => 1,
        Severity::Critical => CRITICAL,
    });
    out.extend_from_slice(&hash.0);
    out.extend_from_slice(canonical.as_bytes());
    (out, hash)
}

/// Whether retention keeps `event` longer.
pub(super) fn is_critical(event: &Event) -> bool {
    event.severity == Severity::Critical
}

/// Like [`is_critical`], for a stored record.
pub(super) fn stored_as_critical(bytes: &[u8]) -> bool {
    bytes.get(2) == Some(&CRITICAL)
}

/// The head as of the last batch, format 1 as JSON. It is also the mark of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadV1 {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) hash: Hash,
    /// Highest number that retention deleted; zero for none.
    pub(super) dropped: u64,
    /// Number of stored records.
    pub(super) records: u64,
}

#[derive(Serialize, Deserialize)]
struct HeadOnDisk {
    format: u16,
    first: u64,
    last: u64,
    hash: String,
    #[serde(default)]
    dropped: u64,
    #[serde(default)]
    records: u64,
}

impl HeadV1 {
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&HeadOnDisk {
            format: FORMAT,
            first: self.first,
            last: self.last,
            hash: self.hash.to_string(),
            dropped: self.dropped,
            records: self.records,
        })
        .expect("numbers and text always have a JSON form")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadRecord> {
        check_json_format(bytes, FORMAT)?;
        let disk: HeadOnDisk =
            serde_json::from_slice(bytes).map_err(|e| BadRecord::Damaged(e.to_string()))?;
        let hash = Hash::parse(&disk.hash)
            .ok_or_else(|| BadRecord::Damaged(format!("{:?} is not a hash", disk.hash)))?;
        Ok(Self {
            first: disk.first,
            last: disk.last,
            hash,
            dropped: disk.dropped,
            records: disk.records,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn head_of_any_numbers_fits_the_mark_of_a_store() {
        let head = HeadV1 {
            first: u64::MAX,
            last: u64::MAX,
            hash: Hash::ZERO,
            dropped: u64::MAX,
            records: u64::MAX,
        };
        let bytes = head.encode();
        assert!(bytes.len() <= watchkeeper_store::MAX_MARK_BYTES);
        assert_eq!(HeadV1::decode(&bytes).unwrap(), head);
    }
}
