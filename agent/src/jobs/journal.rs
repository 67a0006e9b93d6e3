//! Follows the journal for schedules of events.

use std::time::Duration;

use futures_util::StreamExt as _;
use watchkeeper_client::{EventFeed, FeedItem, JournalRecord, RuntimeClient};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;

/// Pause between two questions for the end of the journal.
const RETRY: Duration = Duration::from_secs(5);

/// A reader of the journal with a cursor.
pub(super) struct TriggerJournal {
    runtime: RuntimeClient,
    /// Absent until the end of the journal is known.
    feed: Option<EventFeed>,
    cursor: EventSeq,
}

impl TriggerJournal {
    /// Begins after `cursor`, or at the end of the journal.
    pub(super) fn new(runtime: RuntimeClient, cursor: Option<u64>) -> Self {
        let known = cursor.map(EventSeq);
        Self {
            feed: known.map(|cursor| runtime.follow_events(cursor)),
            runtime,
            cursor: known.unwrap_or_default(),
        }
    }

    /// Waits for the next record. Dropping this future loses nothing.
    pub(super) async fn next(&mut self) -> Box<Event> {
        loop {
            let Some(feed) = &mut self.feed else {
                match self.runtime.health().await {
                    Ok(health) => self.follow(health.last_seq),
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
                continue;
            };
            match feed.next().await {
                Some(FeedItem::Record(JournalRecord::Known(event))) => {
                    if event.seq > self.cursor {
                        self.cursor = event.seq;
                        return event;
                    }
                }
                Some(FeedItem::Record(record)) => self.cursor = self.cursor.max(record.seq()),
                Some(FeedItem::Connected { .. }) => self.notice_new_journal().await,
                Some(FeedItem::Lost { .. }) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Follows a new journal from its start: the runtime may have lost its own.
    async fn notice_new_journal(&mut self) {
        if let Ok(health) = self.runtime.health().await
            && health.last_seq < self.cursor
        {
            tracing::warn!("jobs: the runtime lost its journal; following the new one");
            self.follow(EventSeq(0));
        }
    }

    fn follow(&mut self, after: EventSeq) {
        self.cursor = after;
        self.feed = Some(self.runtime.follow_events(after));
    }

    /// Number of the last record that was returned.
    pub(super) const fn cursor(&self) -> u64 {
        self.cursor.0
    }
}
