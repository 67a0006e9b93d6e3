//! The journal as an endless stream of server-sent events, across restarts of the runtime.
//!
//! - Records rise strictly, each at most once per feed. After a lost connection the feed continues
//!   after its last record. A gap in the numbers is passed on: the consumer decides.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use watchkeeper_contract::id::EventSeq;
use watchkeeper_outgoing::sse::{SseEvent, SseParser};

use super::{Call, ClientError, JournalRecord, RuntimeClient};
use crate::backoff::Backoff;
use crate::error_chain::one_line;

/// First delay after a lost connection; short, because the socket is local.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Maximum delay between two attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub enum FeedItem {
    /// The feed is connected; records after `after` follow.
    Connected { after: EventSeq },
    /// A record of the journal, also an unreadable one.
    Record(JournalRecord),
    /// The connection failed or broke; the feed reconnects in `retry_in`.
    Lost {
        error: ClientError,
        retry_in: Duration,
    },
}

/// Endless stream over the journal. Dropping a pending `next()` loses nothing.
pub type EventFeed = BoxStream<'static, FeedItem>;

/// Opens a feed of the records after `after`.
pub(super) fn open(client: RuntimeClient, after: EventSeq) -> EventFeed {
    let state = State {
        client,
        after,
        backoff: Backoff::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY, fastrand::u64(..)),
        link: Link::Wait(Duration::ZERO),
    };
    let items = stream::unfold(state, |mut state| async move {
        let item = state.advance().await;
        Some((item, state))
    });
    items.boxed()
}

type Frames = BoxStream<'static, Result<SseEvent, String>>;

enum Link {
    /// Not connected; the next attempt is after this delay.
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
    /// Returns the next item, without a timeout.
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
        let call = Call::get(&["events", "stream"]).query(&query);
        let request = self
            .client
            .streams
            .get(call.url()?)
            .header("accept", "text/event-stream");
        let silence = self.client.deadlines.stream_silence;
        let response = self.client.send(&call.name(), request, silence).await?;
        let mut parser = SseParser::default();
        let frames = response.bytes_stream().flat_map(move |bytes| {
            let mut frames = Vec::new();
            let fed = bytes.map_err(|error| one_line(&error)).and_then(|bytes| {
                let fed = parser.feed(&bytes, &mut frames);
                fed.map_err(|error| error.to_string())
            });
            let frames = frames.into_iter().map(Ok).chain(fed.err().map(Err));
            stream::iter(frames)
        });
        Ok(frames.boxed())
    }

    /// Converts a server-sent event; `None` for an empty one or a record that was returned before.
    fn read(&mut self, frame: &SseEvent) -> Option<FeedItem> {
        if frame.data.is_empty() {
            return None;
        }
        // Without a number, the record's own is used, and without both the cursor stays.
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
