//! The journal as an endless stream of server-sent events that survives restarts of the runtime.
//!
//! Invariant: records come in strictly rising order and each at most once per feed; after a lost connection the feed
//! asks for what follows the last record it gave. A jump in the numbers is passed on as it is: the consumer decides.
//!
//! `eventsource-stream` reads the lines: the other end is our own runtime, which bounds them and begins with no byte order mark. For servers of strangers
//! there is a reader of our own in `agent/llm`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use eventsource_stream::Eventsource;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use reqwest::Method;
use watchkeeper_contract::id::EventSeq;

use super::{Call, ClientError, JournalRecord, RuntimeClient};
use crate::backoff::Backoff;
use crate::error_chain::one_line;

/// First wait after a lost connection. The socket is local, so the steps are short.
const RETRY_FIRST: Duration = Duration::from_millis(200);
/// Longest wait between two attempts.
const RETRY_CEILING: Duration = Duration::from_secs(3);

/// What a feed gives.
#[derive(Debug)]
pub enum FeedItem {
    /// Connected; records after `after` follow.
    Connected {
        /// Cursor that was asked for.
        after: EventSeq,
    },
    /// One record of the journal. One that can't be read counts as given.
    Record(JournalRecord),
    /// The connection failed or broke; the feed tries again by itself.
    Lost {
        /// Why.
        error: ClientError,
        /// How long it waits before the next attempt.
        retry_in: Duration,
    },
}

/// An endless stream over the journal. Dropping a pending `next()` loses nothing.
pub struct EventFeed {
    items: BoxStream<'static, FeedItem>,
}

impl fmt::Debug for EventFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFeed").finish_non_exhaustive()
    }
}

impl EventFeed {
    pub(super) fn new(client: RuntimeClient, after: EventSeq) -> Self {
        let state = State {
            client,
            after,
            backoff: Backoff::new(RETRY_FIRST, RETRY_CEILING, fastrand::u64(..)),
            link: Link::Wait(Duration::ZERO),
        };
        Self {
            items: futures_util::stream::unfold(state, |mut state| async move {
                let item = state.advance().await;
                Some((item, state))
            })
            .boxed(),
        }
    }
}

impl Stream for EventFeed {
    type Item = FeedItem;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        self.items.poll_next_unpin(cx)
    }
}

type Frames = BoxStream<'static, Result<eventsource_stream::Event, String>>;

enum Link {
    /// Connect after this wait.
    Wait(Duration),
    Open(Frames),
}

struct State {
    client: RuntimeClient,
    after: EventSeq,
    backoff: Backoff,
    link: Link,
}

impl State {
    /// The next item, however long it takes.
    async fn advance(&mut self) -> FeedItem {
        loop {
            match &mut self.link {
                Link::Wait(wait) => {
                    tokio::time::sleep(*wait).await;
                    return match self.connect().await {
                        Ok(frames) => {
                            self.link = Link::Open(frames);
                            FeedItem::Connected { after: self.after }
                        }
                        Err(error) => self.lose(error),
                    };
                }
                Link::Open(frames) => match frames.next().await {
                    Some(Ok(frame)) => {
                        if let Some(item) = self.read(&frame) {
                            return item;
                        }
                    }
                    Some(Err(cause)) => return self.lose(broken(cause)),
                    None => return self.lose(broken("the runtime closed the stream".to_owned())),
                },
            }
        }
    }

    async fn connect(&mut self) -> Result<Frames, ClientError> {
        let after = self.after.to_string();
        let query = [("after", after.as_str())];
        let call = Call::to(&["events", "stream"]).with(&query);
        let request = self
            .client
            .streams
            .get(call.url()?)
            .header("accept", "text/event-stream");
        let silence = self.client.deadlines.stream_silence;
        let response = self
            .client
            .send(&call.name(&Method::GET), request, silence)
            .await?;
        Ok(response
            .bytes_stream()
            .eventsource()
            .map(|frame| frame.map_err(|error| one_line(&error)))
            .boxed())
    }

    /// Turns one server-sent event into an item; `None` for what carries no record or was given before.
    fn read(&mut self, frame: &eventsource_stream::Event) -> Option<FeedItem> {
        if frame.data.is_empty() {
            return None;
        }
        // Neither a number on the frame nor one in the record: nothing a cursor could move to.
        let number = frame.id.parse().map_or(self.after, EventSeq);
        let record = JournalRecord::read(&frame.data, number);
        if record.seq() <= self.after {
            return None;
        }
        self.after = record.seq();
        self.backoff.reset();
        Some(FeedItem::Record(record))
    }

    fn lose(&mut self, error: ClientError) -> FeedItem {
        let retry_in = self.backoff.next_delay();
        self.link = Link::Wait(retry_in);
        FeedItem::Lost { error, retry_in }
    }
}

fn broken(cause: String) -> ClientError {
    ClientError::Broken {
        request: "GET /v1/events/stream".to_owned(),
        cause,
    }
}
