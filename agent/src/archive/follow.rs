//! The task that indexes events: a reader of the journal with its own cursor.
//!
//! - References and cursor are one batch: a record is indexed once, over crashes too.
//! - A runtime that is away delays it. A new journal is read from its start.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use watchkeeper_archive::{Archive, ArchiveError};
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;

use super::journal::{Reference, references};
use crate::journal_tail::JournalTail;

/// Records of one batch.
const MAX_BATCH: usize = 1_000;
/// Time in which the records of one batch come.
const BATCH_TIME: Duration = Duration::from_millis(200);
/// Pause after a failure of the disk.
const RETRY: Duration = Duration::from_secs(10);

/// Indexes events without end.
pub(super) async fn index_events(runtime: &RuntimeClient, archive: &Archive) {
    loop {
        let Err(error) = follow(runtime, archive).await;
        tracing::warn!(%error, "archive: events are not indexed; retrying");
        tokio::time::sleep(RETRY).await;
    }
}

/// Follows the journal until the archive fails.
async fn follow(runtime: &RuntimeClient, archive: &Archive) -> Result<Infallible, ArchiveError> {
    let stored = EventSeq(archive.cursor().await?);
    let mut journal = JournalTail::new("archive", runtime.clone(), Some(stored));
    let read = |record: Option<Box<Event>>| -> Vec<Reference> {
        record.as_deref().map(references).unwrap_or_default()
    };
    loop {
        let mut found = read(journal.next().await);
        let until = Instant::now() + BATCH_TIME;
        let mut taken = 0;
        while taken < MAX_BATCH
            && !found.is_empty()
            && let Ok(record) = timeout_at(until, journal.next()).await
        {
            taken += 1;
            found.extend(read(record));
        }
        if !found.is_empty() || journal.is_due() {
            archive.add_references(found, journal.cursor().0).await?;
            journal.mark_stored();
        }
    }
}
