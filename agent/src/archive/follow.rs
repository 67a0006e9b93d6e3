//! The task that indexes events: a reader of the journal with a cursor of its own.
//!
//! - References and cursor are one batch: a record is indexed once, over crashes too.
//! - A runtime that is away delays it. A new journal is read from its start.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};
use watchkeeper_archive::Archive;
use watchkeeper_client::{EventFeed, FeedItem, JournalRecord, RuntimeClient};
use watchkeeper_contract::id::EventSeq;

use super::journal::{Reference, references};

/// Records of one batch.
const MAX_BATCH: usize = 1_000;
/// Time in which the records of one batch come.
const BATCH_TIME: Duration = Duration::from_millis(200);
/// The cursor is stored at least once in so many records without pictures.
const SAVE_EVERY: u64 = 256;
/// Pause after a failure of the disk.
const RETRY: Duration = Duration::from_secs(10);

/// Indexes events for ever.
pub(super) async fn index_events(runtime: &RuntimeClient, archive: &Archive) {
    loop {
        let ended = follow(runtime, archive).await;
        if let Err(error) = ended {
            tracing::warn!(%error, "archive: events are not indexed; retrying");
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// What was read and is not stored yet.
struct Pending {
    references: Vec<Reference>,
    saved: EventSeq,
    reached: EventSeq,
}

/// Follows the journal until it has to be read from elsewhere.
async fn follow(
    runtime: &RuntimeClient,
    archive: &Archive,
) -> Result<(), watchkeeper_archive::ArchiveError> {
    let saved = EventSeq(archive.cursor().await?);
    let mut feed = runtime.follow_events(saved);
    let mut pending = Pending {
        references: Vec::new(),
        saved,
        reached: saved,
    };
    loop {
        let Some(first) = feed.next().await else {
            return Ok(());
        };
        let is_same = pending.take(first) && pending.fill(&mut feed).await;
        if !is_same {
            let references = std::mem::take(&mut pending.references);
            return archive.add_references(references, 0).await;
        }
        let advanced = pending.reached.0.saturating_sub(pending.saved.0);
        if !pending.references.is_empty() || advanced >= SAVE_EVERY {
            let references = std::mem::take(&mut pending.references);
            archive
                .add_references(references, pending.reached.0)
                .await?;
            pending.saved = pending.reached;
        }
    }
}

impl Pending {
    /// Takes the records that come within [`BATCH_TIME`] of a picture. Returns false if the runtime
    /// has a new journal.
    async fn fill(&mut self, feed: &mut EventFeed) -> bool {
        let until = Instant::now() + BATCH_TIME;
        let mut taken = 0;
        while taken < MAX_BATCH
            && !self.references.is_empty()
            && let Ok(Some(item)) = timeout_at(until, feed.next()).await
        {
            taken += 1;
            if !self.take(item) {
                return false;
            }
        }
        true
    }

    /// Takes an item. Returns false if the runtime has a new journal.
    fn take(&mut self, item: FeedItem) -> bool {
        match item {
            FeedItem::Connected { .. } => {}
            FeedItem::Lost { error, .. } if error.is_ahead() => {
                tracing::warn!("archive: the runtime has a new journal; reading its start");
                return false;
            }
            FeedItem::Record(record) => {
                self.reached = record.seq();
                if let JournalRecord::Known(event) = record {
                    self.references.extend(references(&event));
                }
            }
            FeedItem::Lost { error, .. } => {
                tracing::debug!(%error, "archive: the journal is away");
            }
        }
        true
    }
}
