//! Follows the journal behind a cursor of its own: for chains, for schedules of events, and for
//! second opinions where no broker is configured.
//!
//! Without a broker the outbox's cursor stands still, so that a broker configured later receives
//! what the journal still holds.
//!
//! Invariants:
//! - What a record asks for is stored in one batch with the cursor behind it: no crash asks twice.
//! - A new box starts at the end of the journal.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use watchkeeper_client::{ClientError, EventFeed, FeedItem, JournalRecord, RuntimeClient};
use watchkeeper_contract::event::Event as Record;
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::Op;

use crate::future_slot::take_output;
use crate::stored_cursor::StoredCursor;

/// Records that ask for nothing, after which the cursor is stored all the same.
const SAVE_EVERY: u64 = 256;
/// Pause between two questions for the end of the journal.
const HEALTH_RETRY: Duration = Duration::from_secs(2);

/// A reader with its own cursor.
pub(crate) struct JournalTail {
    runtime: RuntimeClient,
    /// Absent until the end of the journal is known.
    feed: Option<EventFeed>,
    cursor: EventSeq,
    stored_cursor: EventSeq,
    /// A question that must be answered before the next record is read.
    asking_health: Option<BoxFuture<'static, Result<Health, ClientError>>>,
}

impl JournalTail {
    /// Resumes behind `stored_cursor`, or starts at the end of the journal.
    pub(crate) fn new(runtime: RuntimeClient, stored_cursor: Option<EventSeq>) -> Self {
        let cursor = stored_cursor.unwrap_or_default();
        Self {
            feed: stored_cursor.map(|cursor| runtime.follow_events(cursor)),
            asking_health: stored_cursor
                .is_none()
                .then(|| ask_health(&runtime, Duration::ZERO)),
            runtime,
            cursor,
            stored_cursor: cursor,
        }
    }

    /// The next record. Dropping this future loses nothing.
    pub(crate) async fn next(&mut self) -> Box<Record> {
        loop {
            if self.asking_health.is_some() {
                let health = take_output(&mut self.asking_health).await;
                self.on_health(health);
                continue;
            }
            let item = match &mut self.feed {
                Some(feed) => feed.next().await,
                None => None,
            };
            match item {
                Some(FeedItem::Record(JournalRecord::Known(record))) => {
                    if record.seq > self.cursor {
                        self.cursor = record.seq;
                        return record;
                    }
                }
                // Written by a newer runtime: nothing can be done with it.
                Some(FeedItem::Record(record)) => self.cursor = self.cursor.max(record.seq()),
                // The runtime may have lost its journal meanwhile.
                Some(FeedItem::Connected { .. }) => {
                    self.asking_health = Some(ask_health(&self.runtime, Duration::ZERO));
                }
                Some(FeedItem::Lost { .. }) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Number of the last record that was returned or skipped.
    pub(crate) const fn cursor(&self) -> EventSeq {
        self.cursor
    }

    /// The operation that stores the cursor in `place`, where that is due or `has_staged`
    /// operations wait.
    pub(crate) fn cursor_op(&mut self, place: StoredCursor, has_staged: bool) -> Option<Op> {
        // The difference in both directions: a new journal counts from zero.
        let is_far = self.cursor.0.abs_diff(self.stored_cursor.0) >= SAVE_EVERY;
        if !has_staged && !is_far {
            return None;
        }
        self.stored_cursor = self.cursor;
        Some(place.op(self.cursor))
    }

    fn on_health(&mut self, health: Result<Health, ClientError>) {
        match (health, &self.feed) {
            (Ok(health), None) => {
                self.cursor = health.last_seq;
                self.feed = Some(self.runtime.follow_events(self.cursor));
                tracing::info!(after = self.cursor.0, "journal: following from its end");
            }
            (Ok(health), Some(_)) if health.last_seq < self.cursor => {
                tracing::warn!(
                    "journal: the runtime lost it; following the new one from its start"
                );
                self.cursor = EventSeq(0);
                self.feed = Some(self.runtime.follow_events(self.cursor));
            }
            (Ok(_), Some(_)) => {}
            // No record is read before the answer: it may be of a new journal.
            (Err(_), _) => self.asking_health = Some(ask_health(&self.runtime, HEALTH_RETRY)),
        }
    }
}

fn ask_health(
    runtime: &RuntimeClient,
    pause: Duration,
) -> BoxFuture<'static, Result<Health, ClientError>> {
    let runtime = runtime.clone();
    async move {
        tokio::time::sleep(pause).await;
        runtime.health().await
    }
    .boxed()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn lost_journal_is_followed_from_its_start_after_failed_questions_too() {
        let runtime = RuntimeClient::new(Path::new("/nowhere/runtime.sock")).unwrap();
        let no_answer = runtime.health().await.unwrap_err();
        let mut tail = JournalTail::new(runtime, Some(EventSeq(5)));
        assert!(tail.asking_health.is_none());
        tail.on_health(Err(no_answer));
        assert!(tail.asking_health.is_some(), "it asks again");
        let health = |last_seq: u64| -> Health {
            serde_json::from_value(serde_json::json!({
                "state": "up", "reasons": [], "version": "1", "boot_id": "b", "uptime_s": 1.0,
                "pid": 1, "last_seq": last_seq,
            }))
            .unwrap()
        };
        tail.on_health(Ok(health(5)));
        assert_eq!(tail.cursor(), EventSeq(5));
        tail.on_health(Ok(health(2)));
        assert_eq!(tail.cursor(), EventSeq(0));
    }
}
