//! One record of the journal as it came over the socket, read as far as this version can.
//!
//! Invariant: each record is read by itself, in the stream as in a page, so one that this version does not know costs none of the others.

use serde::Deserialize;
use serde_json::value::RawValue;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;

use super::NewerRecord;

/// A record of the journal.
#[derive(Debug, Clone)]
pub enum JournalRecord {
    /// One that this version knows.
    Known(Box<Event>),
    /// One in words that only a newer runtime has.
    Newer(Box<NewerRecord>),
    /// One that can't be read at all.
    Unreadable {
        /// Its number.
        seq: EventSeq,
        /// What was wrong with it.
        cause: String,
    },
}

#[derive(Deserialize)]
struct Numbered {
    seq: EventSeq,
}

impl JournalRecord {
    /// Reads `text`. `number` is the record's where it tells none itself.
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

    /// The records of a page that begins after `after`. Numbers rise by one where nothing is missing, so one that tells none has the next.
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

    /// Its number.
    #[must_use]
    pub fn seq(&self) -> EventSeq {
        match self {
            Self::Known(event) => event.seq,
            Self::Newer(record) => record.seq,
            Self::Unreadable { seq, .. } => *seq,
        }
    }

    /// Its hash, where it has one.
    #[must_use]
    pub fn hash(&self) -> Option<&str> {
        match self {
            Self::Known(event) => Some(&event.hash),
            Self::Newer(record) => record.hash.as_deref(),
            Self::Unreadable { .. } => None,
        }
    }
}
