//! Follows the journal after its own cursor: for chains, channels, schedules of events and the
//! archive.
//!
//! Without a broker the outbox's cursor stands still, so that a broker configured later receives
//! what the journal still holds.
//!
//! Invariants:
//! - What a record asks for is stored in one batch with the cursor after it: no crash asks twice.
//! - A new box starts at the end of the journal, and stores that before it reads a record; chains
//!   start at its beginning.
//! - A new journal that ends before the cursor refuses it, and is read from its start. One that has
//!   passed the cursor is not recognised.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use watchkeeper_client::{EventFeed, FeedItem, JournalRecord, RuntimeClient};
use watchkeeper_contract::event::Event as Record;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::Op;

use crate::future_slot::take_output;
use crate::stored_cursor::StoredCursor;

/// Number of records without an effect after which the cursor is stored anyway.
pub(crate) const SAVE_EVERY: u64 = 256;
/// Pause between two questions for the end of the journal.
const HEALTH_RETRY: Duration = Duration::from_secs(2);

/// A reader with its own cursor.
pub(crate) struct JournalTail {
    /// Name of the reader in the log: `channel ops`.
    reader: String,
    runtime: RuntimeClient,
    /// Absent until the end of the journal is known.
    feed: Option<EventFeed>,
    asking_end: Option<BoxFuture<'static, EventSeq>>,
    cursor: EventSeq,
    stored_cursor: Option<EventSeq>,
}

impl JournalTail {
    /// Resumes after `stored_cursor`, or starts at the end of the journal.
    pub(crate) fn new(
        reader: impl Into<String>,
        runtime: RuntimeClient,
        stored_cursor: Option<EventSeq>,
    ) -> Self {
        Self {
            reader: reader.into(),
            feed: stored_cursor.map(|cursor| runtime.follow_events(cursor)),
            asking_end: stored_cursor
                .is_none()
                .then(|| end_of_journal(runtime.clone()).boxed()),
            runtime,
            cursor: stored_cursor.unwrap_or_default(),
            stored_cursor,
        }
    }

    /// Resumes after `stored_cursor`, or starts at the beginning of the journal.
    pub(crate) fn from_start(
        reader: impl Into<String>,
        runtime: RuntimeClient,
        stored_cursor: Option<EventSeq>,
    ) -> Self {
        Self {
            stored_cursor,
            ..Self::new(reader, runtime, Some(stored_cursor.unwrap_or_default()))
        }
    }

    /// The next record; `None` when the cursor moved without one. It moves to the end of the
    /// journal at the first start, and to the start of a new journal. Dropping this future loses
    /// nothing.
    pub(crate) async fn next(&mut self) -> Option<Box<Record>> {
        loop {
            let item = match &mut self.feed {
                Some(feed) => feed.next().await,
                None => {
                    let end = take_output(&mut self.asking_end).await;
                    let reader = &self.reader;
                    tracing::info!(%reader, after = end.0, "journal: following from its end");
                    self.follow(end);
                    return None;
                }
            };
            match item {
                Some(FeedItem::Record(JournalRecord::Known(record))) => {
                    if record.seq > self.cursor {
                        self.cursor = record.seq;
                        return Some(record);
                    }
                }
                // Written by a newer runtime: nothing can be done with it.
                Some(FeedItem::Record(record)) => self.cursor = self.cursor.max(record.seq()),
                Some(FeedItem::Lost { error, .. }) if error.is_ahead() => {
                    let reader = &self.reader;
                    tracing::warn!(%reader, %error, "journal: new; following it from its start");
                    self.follow_new_journal();
                    return None;
                }
                Some(FeedItem::Connected { .. } | FeedItem::Lost { .. }) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Number of the last record that was returned or skipped.
    pub(crate) const fn cursor(&self) -> EventSeq {
        self.cursor
    }

    /// Whether the cursor is to be stored: the journal is new, or the stored one is
    /// [`SAVE_EVERY`] records behind.
    pub(crate) fn is_due(&self) -> bool {
        let is_far = |stored: EventSeq| self.cursor.0.saturating_sub(stored.0) >= SAVE_EVERY;
        self.stored_cursor.is_none_or(is_far)
    }

    /// Records that the cursor is stored.
    pub(crate) fn mark_stored(&mut self) {
        self.stored_cursor = Some(self.cursor);
    }

    /// The operation that stores the cursor in `place`, where that is due or `has_staged`
    /// operations wait.
    pub(crate) fn cursor_op(&mut self, place: StoredCursor, has_staged: bool) -> Option<Op> {
        if !has_staged && !self.is_due() {
            return None;
        }
        self.mark_stored();
        Some(place.op(self.cursor))
    }

    /// Follows a new journal. The stored cursor is one of the old journal: however near, a restart
    /// would skip records.
    fn follow_new_journal(&mut self) {
        self.follow(EventSeq(0));
        self.stored_cursor = None;
    }

    fn follow(&mut self, after: EventSeq) {
        self.cursor = after;
        self.feed = Some(self.runtime.follow_events(after));
    }
}

/// Number of the last record of the journal, once the runtime answers.
pub(crate) async fn end_of_journal(runtime: RuntimeClient) -> EventSeq {
    loop {
        if let Ok(health) = runtime.health().await {
            return health.last_seq;
        }
        tokio::time::sleep(HEALTH_RETRY).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_store::Keyspace;

    use super::*;

    #[tokio::test]
    async fn cursor_of_a_new_journal_is_stored_at_once() {
        let place = StoredCursor(Keyspace::new("cursor"));
        let runtime = RuntimeClient::new("/none").unwrap();
        let mut tail = JournalTail::new("test", runtime, Some(EventSeq(3)));
        assert_eq!(tail.cursor_op(place, false), None);
        tail.follow_new_journal();
        assert_eq!(tail.cursor_op(place, false), Some(place.op(EventSeq(0))));
        assert_eq!(tail.cursor_op(place, false), None, "stored");
    }
}
