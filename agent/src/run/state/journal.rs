//! The loop's reader of the runtime's journal: it follows the outbox's cursor.
//!
//! Closed without a broker, and in a stopping agent.

use futures_util::StreamExt as _;
use watchkeeper_client::{EventFeed, FeedItem, RuntimeClient};
use watchkeeper_contract::id::EventSeq;

pub(crate) enum JournalReader {
    /// Records become messages of the outbox.
    Feed {
        feed: EventFeed,
        /// Whether the last item was [`FeedItem::Lost`]: only the first of a row is logged.
        is_lost: bool,
    },
    Closed,
}

impl JournalReader {
    /// Follows the journal after `cursor`.
    pub(crate) fn follow(runtime: &RuntimeClient, cursor: Option<EventSeq>) -> Self {
        Self::Feed {
            feed: runtime.follow_events(cursor.unwrap_or_default()),
            is_lost: false,
        }
    }

    /// The next item; pending forever unless `wants_records`. Dropping this future loses nothing.
    pub(crate) async fn next(&mut self, wants_records: bool) -> FeedItem {
        if let Self::Feed { feed, .. } = self
            && wants_records
            && let Some(item) = feed.next().await
        {
            return item;
        }
        std::future::pending().await
    }

    /// Notes whether the feed is lost; returns whether it was lost before.
    pub(crate) fn set_lost(&mut self, now_lost: bool) -> bool {
        match self {
            Self::Feed { is_lost, .. } => std::mem::replace(is_lost, now_lost),
            Self::Closed => false,
        }
    }
}
