//! The agent's reader of the runtime's journal.
//!
//! With a broker, a feed follows the outbox's cursor. Without one, a tail reads for second opinions
//! alone. A stopping agent reads nothing.

use futures_util::StreamExt as _;
use watchkeeper_client::{EventFeed, FeedItem, RuntimeClient};
use watchkeeper_contract::event::Event as Record;
use watchkeeper_contract::id::EventSeq;

use crate::journal_tail::JournalTail;

/// Where records come from.
pub(crate) enum JournalReader {
    /// Records become messages of the outbox.
    Feed {
        feed: EventFeed,
        /// Whether the last item was [`FeedItem::Lost`]: only the first of a row is logged.
        is_lost: bool,
    },
    /// Records are read for second opinions only.
    Tail(Box<JournalTail>),
    Closed,
}

/// What a reader yields.
pub(crate) enum JournalItem {
    Feed(FeedItem),
    /// A record, or a move of the cursor without one.
    Tail(Option<Box<Record>>),
}

impl JournalReader {
    /// Follows the journal behind `cursor`.
    pub(crate) fn follow(runtime: &RuntimeClient, cursor: Option<EventSeq>) -> Self {
        Self::Feed {
            feed: runtime.follow_events(cursor.unwrap_or_default()),
            is_lost: false,
        }
    }

    /// Reads for second opinions only, behind `cursor`.
    pub(crate) fn tail(runtime: &RuntimeClient, cursor: Option<EventSeq>) -> Self {
        Self::Tail(Box::new(JournalTail::new(
            "second opinions",
            runtime.clone(),
            cursor,
        )))
    }

    /// The next item; pending forever unless `wants_records`. Dropping this future loses nothing.
    pub(crate) async fn next(&mut self, wants_records: bool) -> JournalItem {
        match self {
            Self::Feed { feed, .. } if wants_records => {
                if let Some(item) = feed.next().await {
                    return JournalItem::Feed(item);
                }
            }
            Self::Tail(tail) if wants_records => return JournalItem::Tail(tail.next().await),
            Self::Feed { .. } | Self::Tail(_) | Self::Closed => {}
        }
        std::future::pending().await
    }

    /// Notes whether the feed is lost; returns whether it was lost before.
    pub(crate) fn set_lost(&mut self, now_lost: bool) -> bool {
        match self {
            Self::Feed { is_lost, .. } => std::mem::replace(is_lost, now_lost),
            Self::Tail(_) | Self::Closed => false,
        }
    }
}
