//! Stored spans of coverage.
//!
//! - At most [`MAX_SPANS`] spans; the oldest are deleted first, and the end of the last deleted one
//!   is known ([`CoverageRecords::since_ms`]).
//! - A damaged or newer record is left out: that time counts as not watched.
//! - Format 1 is JSON, as in the HTTP API v1.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_contract::coverage::CoverageSpan;
use watchkeeper_store::{Batch, Keyspace, Page, Store, log_key, log_seq, pages};

use super::error::JournalError;
use super::keyspaces::META;
use super::record::{FORMAT, check_json_format};

const COVERAGE: Keyspace = Keyspace::new("coverage");
/// Key in [`META`] of what was deleted.
const DELETED: &[u8] = b"coverage";
/// Records read from the store at a time.
const PAGE: usize = 512;
/// Stored spans: for eight pipelines that are interrupted ten times a day, three months.
const MAX_SPANS: usize = 10_000;

/// Stored spans of coverage.
#[derive(Debug)]
pub struct CoverageRecords {
    store: Arc<dyn Store>,
    /// Stored spans, read at the first append. One append at a time.
    stored: Mutex<Option<Stored>>,
    max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    /// Number of the next span.
    next: u64,
    count: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct SpanV1 {
    format: u16,
    #[serde(flatten)]
    span: CoverageSpan,
}

#[derive(Debug, Serialize, Deserialize)]
struct DeletedV1 {
    format: u16,
    /// Latest end of a deleted span.
    to_ms: i64,
}

impl CoverageRecords {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            stored: Mutex::new(None),
            max: MAX_SPANS,
        }
    }

    /// Stores spans; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn append(&self, spans: &[CoverageSpan]) -> Result<(), JournalError> {
        let mut stored = self.stored.lock();
        let before = match *stored {
            Some(before) => before,
            None => self.count()?,
        };
        let mut batch = Batch::new();
        for (number, span) in (before.next..).zip(spans) {
            let record = SpanV1 {
                format: FORMAT,
                span: span.clone(),
            };
            batch = batch.put(COVERAGE, &log_key(number), &encode(&record)?);
        }
        let surplus = (before.count + spans.len()).saturating_sub(self.max);
        let deleted: Vec<_> = self.numbered().take(surplus).collect::<Result<_, _>>()?;
        for (seq, _) in &deleted {
            batch = batch.delete(COVERAGE, &log_key(*seq));
        }
        let ends = deleted.iter().filter_map(|(_, span)| span.as_ref());
        if let Some(to_ms) = ends.map(|span| span.to.unix_ms).max() {
            let record = DeletedV1 {
                format: FORMAT,
                to_ms: to_ms.max(self.since_ms()?.unwrap_or(i64::MIN)),
            };
            batch = batch.put(META, DELETED, &encode(&record)?);
        }
        self.store.write(batch)?;
        *stored = Some(Stored {
            next: before.next + spans.len() as u64,
            count: before.count + spans.len() - deleted.len(),
        });
        Ok(self.store.sync()?)
    }

    fn count(&self) -> Result<Stored, JournalError> {
        let empty = Stored { next: 1, count: 0 };
        self.numbered().try_fold(empty, |stored, record| {
            let (next, count) = (record?.0 + 1, stored.count + 1);
            Ok(Stored { next, count })
        })
    }

    /// All readable spans, in the order in which they were stored. One page of them is in memory
    /// at a time: each has the rules of its pipeline.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn spans(&self) -> impl Iterator<Item = Result<CoverageSpan, JournalError>> {
        self.numbered()
            .filter_map(|record| record.map(|(_, span)| span).transpose())
    }

    /// End of the last deleted span, in milliseconds since 1970; `None` if none was deleted.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn since_ms(&self) -> Result<Option<i64>, JournalError> {
        let Some(bytes) = self.store.get(META, DELETED)? else {
            return Ok(None);
        };
        let record: Option<DeletedV1> = serde_json::from_slice(&bytes).ok();
        // An unreadable record may stand for any time.
        Ok(Some(record.map_or(i64::MAX, |record| record.to_ms)))
    }

    /// The records with their numbers, rising; unreadable ones without a span.
    fn numbered(&self) -> impl Iterator<Item = Result<NumberedSpan, JournalError>> {
        pages(&*self.store, COVERAGE, PAGE).flat_map(|page| match page {
            Ok(page) => spans_of(page).map(Ok).collect(),
            Err(error) => vec![Err(error.into())],
        })
    }
}

/// Number of a record, and its span if it is readable.
type NumberedSpan = (u64, Option<CoverageSpan>);

fn spans_of(page: Page) -> impl Iterator<Item = NumberedSpan> {
    for bad in &page.corrupt {
        tracing::error!(key = ?log_seq(&bad.key), why = bad.why, "a record of coverage is damaged");
    }
    page.entries.into_iter().filter_map(|entry| {
        let record = check_json_format(&entry.value, FORMAT)
            .ok()
            .and_then(|()| serde_json::from_slice::<SpanV1>(&entry.value).ok());
        Some((log_seq(&entry.key)?, record.map(|record| record.span)))
    })
}

fn encode(record: &impl Serialize) -> Result<Vec<u8>, JournalError> {
    serde_json::to_vec(record).map_err(|error| JournalError::Unreadable {
        what: "a record of coverage".to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_contract::coverage::{SpanEnd, Watched};
    use watchkeeper_contract::id::{PipelineId, SourceId};
    use watchkeeper_contract::time::{TimeQuality, Wall};
    use watchkeeper_store::{FaultyStore, MemoryStore};

    use super::*;

    fn span(from: i64) -> CoverageSpan {
        let at = |unix_ms| Wall {
            unix_ms,
            quality: TimeQuality::Synced,
        };
        CoverageSpan {
            from: at(from),
            to: at(from + 5),
            frames: 2,
            end: SpanEnd::Paused,
            watch: Watched {
                source: SourceId::new("yard").unwrap(),
                pipeline: PipelineId::new("p").unwrap(),
                renames_classes: false,
                rules: Vec::new(),
            },
        }
    }

    fn starts(records: &CoverageRecords) -> Vec<i64> {
        let from = |span: Result<CoverageSpan, JournalError>| span.unwrap().from.unix_ms;
        records.spans().map(from).collect()
    }

    #[test]
    fn oldest_spans_are_deleted_and_their_end_is_known() {
        let records = CoverageRecords {
            max: 3,
            ..CoverageRecords::new(Arc::new(MemoryStore::new()))
        };
        records.append(&[span(10), span(20)]).unwrap();
        assert_eq!(records.since_ms().unwrap(), None);
        records.append(&[span(30), span(40)]).unwrap();
        assert_eq!(starts(&records), [20, 30, 40]);
        assert_eq!(records.since_ms().unwrap(), Some(15));
        records.append(&[span(50)]).unwrap();
        assert_eq!(starts(&records), [30, 40, 50]);
        assert_eq!(records.since_ms().unwrap(), Some(25));
    }

    #[test]
    fn later_append_reads_no_stored_span() {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        let records = CoverageRecords::new(Arc::clone(&store) as _);
        records.append(&[span(10)]).unwrap();
        store.reads.blow_at(1);
        records.append(&[span(20)]).unwrap();
        store.reads.repair();
        assert_eq!(starts(&records), [10, 20]);
    }

    #[test]
    fn record_of_a_newer_version_is_left_out_and_kept() {
        let store = Arc::new(MemoryStore::new());
        let newer = br#"{"format":2}"#;
        let batch = Batch::new().put(COVERAGE, &log_key(7), newer);
        store.write(batch).unwrap();
        let records = CoverageRecords::new(Arc::clone(&store) as _);
        records.append(&[span(10)]).unwrap();
        assert_eq!(starts(&records), [10]);
        assert_eq!(store.get(COVERAGE, &log_key(7)).unwrap().unwrap(), newer);
        assert!(store.get(COVERAGE, &log_key(8)).unwrap().is_some());
    }
}
