//! Records of the journal, parsed as far as this version can.
//!
//! Invariant: each record is parsed by itself, so an unknown one does not lose the others.

use serde::Deserialize;
use serde_json::value::RawValue;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;

use super::NewerRecord;

#[derive(Debug, Clone)]
pub enum JournalRecord {
    Known(Box<Event>),
    /// Kind or fields are those of a newer runtime.
    Newer(Box<NewerRecord>),
    Unreadable {
        seq: EventSeq,
        cause: String,
    },
}

#[derive(Deserialize)]
struct Numbered {
    seq: EventSeq,
}

impl JournalRecord {
    /// Parses a record; `number` is that of an unreadable one.
    pub(super) fn read(text: &str, number: EventSeq) -> Self {
        let error = match serde_json::from_str(text) {
            Ok(event) => return Self::Known(Box::new(event)),
            Err(error) => error,
        };
        if let Some(record) = NewerRecord::read(text) {
            return Self::Newer(Box::new(record));
        }
        let seq = serde_json::from_str(text).map_or(number, |record: Numbered| record.seq);
        let cause = error.to_string();
        Self::Unreadable { seq, cause }
    }

    /// Parses a page that starts after `after`. An unreadable record gets the next number.
    pub(super) fn read_page(page: &[Box<RawValue>], after: EventSeq) -> Vec<Self> {
        let mut last = after;
        let mut records = Vec::with_capacity(page.len());
        for raw in page {
            let record = Self::read(raw.get(), EventSeq(last.0.saturating_add(1)));
            last = record.seq();
            records.push(record);
        }
        records
    }

    pub fn seq(&self) -> EventSeq {
        match self {
            Self::Known(event) => event.seq,
            Self::Newer(record) => record.seq,
            Self::Unreadable { seq, .. } => *seq,
        }
    }

    pub fn hash(&self) -> Option<&str> {
        match self {
            Self::Known(event) => Some(&event.hash),
            Self::Newer(record) => record.hash.as_deref(),
            Self::Unreadable { .. } => None,
        }
    }
}
