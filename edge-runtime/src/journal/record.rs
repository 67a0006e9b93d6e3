//! What the journal stores, apart from the live types.
//!
//! An event, format 1: format (2 bytes, big-endian), severity (1 byte, 2 = critical), hash (32 bytes), then the event
//! as canonical JSON without its hash. The text is stored and served as it was hashed, so that no number is ever
//! printed a second time in another way.

use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

use super::JournalError;
use super::chain::{self, Hash};

const FORMAT: u16 = 1;
const CRITICAL: u8 = 2;
const PREFIX: usize = 2 + 1 + 32;

/// One record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number.
    pub seq: EventSeq,
    hash: Hash,
    canonical: String,
}

impl StoredEvent {
    pub(crate) fn decode(seq: EventSeq, bytes: &[u8]) -> Result<Self, String> {
        let Some((prefix, json)) = bytes.split_at_checked(PREFIX) else {
            return Err(format!("{} bytes are too short for an event", bytes.len()));
        };
        let (Some(format), Some(hash)) =
            (prefix.first_chunk::<2>(), prefix[3..].first_chunk::<32>())
        else {
            return Err("the prefix is too short".to_owned());
        };
        let format = u16::from_be_bytes(*format);
        if format != FORMAT {
            return Err(format!("format {format} was written by another version"));
        }
        let canonical = std::str::from_utf8(json).map_err(|e| e.to_string())?;
        if !canonical.ends_with('}') {
            return Err("it is not a JSON object".to_owned());
        }
        Ok(Self {
            seq,
            hash: Hash(*hash),
            canonical: canonical.to_owned(),
        })
    }

    /// The text that was hashed.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Its hash.
    #[must_use]
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The event as JSON, hash included: the canonical text with the field `hash` put at its end.
    #[must_use]
    pub fn json(&self) -> String {
        let body = self.canonical.strip_suffix('}').unwrap_or(&self.canonical);
        format!("{body},\"hash\":\"{}\"}}", self.hash)
    }

    /// The event.
    ///
    /// # Errors
    /// When it was written in words that this version does not know.
    pub fn event(&self) -> Result<Event, JournalError> {
        serde_json::from_str(&self.json()).map_err(|e| JournalError::Unreadable {
            what: format!("event {}", self.seq),
            why: e.to_string(),
        })
    }
}

/// Stored form of `event` after the record with hash `previous`, and its own hash.
pub(crate) fn encode(event: &Event, previous: &Hash) -> (Vec<u8>, Hash) {
    let mut value = serde_json::to_value(event)
        .expect("an event is a struct with text keys, which always has a JSON form");
    if let Some(map) = value.as_object_mut() {
        map.remove("hash");
    }
    let canonical = chain::canonical(&value);
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

/// The same of a stored record.
pub(super) fn stored_as_critical(bytes: &[u8]) -> bool {
    bytes.get(2) == Some(&CRITICAL)
}

/// Where the journal stood with the last batch, format 1 as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadV1 {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) hash: Hash,
}

#[derive(Serialize, Deserialize)]
struct HeadOnDisk {
    format: u16,
    first: u64,
    last: u64,
    hash: String,
}

impl HeadV1 {
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&HeadOnDisk {
            format: FORMAT,
            first: self.first,
            last: self.last,
            hash: self.hash.to_string(),
        })
        .expect("numbers and text always have a JSON form")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, JournalError> {
        let unreadable = |why: String| JournalError::Unreadable {
            what: "the journal's head".to_owned(),
            why,
        };
        let disk: HeadOnDisk =
            serde_json::from_slice(bytes).map_err(|e| unreadable(e.to_string()))?;
        if disk.format != FORMAT {
            return Err(unreadable(format!(
                "format {} was written by another version",
                disk.format
            )));
        }
        let hash = Hash::parse(&disk.hash)
            .ok_or_else(|| unreadable(format!("{:?} is not a hash", disk.hash)))?;
        Ok(Self {
            first: disk.first,
            last: disk.last,
            hash,
        })
    }
}
