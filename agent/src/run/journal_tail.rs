//! The journal where no broker hears it: followed for second opinions alone.
//!
//! With a broker the journal is followed behind the outbox's cursor, and opinions are asked for on the way. Without one that cursor stands, so that a broker that
//! is configured later is told what the journal still has; here the journal is read behind a mark of its own. Invariants: what was asked for of a record
//! is stored in one change with the mark behind it, so a crash has no record asked about twice; a box that is new begins at the end of the journal.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use watchkeeper_contract::event::Event as Record;
use watchkeeper_contract::health::Health;
use watchkeeper_contract::id::EventSeq;

use super::{Agent, AgentError};
use crate::second_opinion::on_disk;
use watchkeeper_client::{ClientError, EventFeed, FeedItem, JournalRecord, RuntimeClient};

/// Records that ask for nothing, after which the mark is moved all the same.
const NOTE_EVERY: u64 = 256;
/// How often a runtime is asked for the end of its journal.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The journal behind the mark.
pub(super) struct Unheard {
    runtime: RuntimeClient,
    /// Absent until the end of the journal is known.
    feed: Option<EventFeed>,
    /// The last record that was read.
    read: EventSeq,
    /// The mark as it is stored.
    noted: EventSeq,
    /// What is asked of the runtime before the next record is read.
    asking: Option<BoxFuture<'static, Result<Health, ClientError>>>,
}

/// Where one goes on.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// With the next record.
    Read,
    /// With what the runtime says of its journal.
    Ask,
}

impl Unheard {
    /// One that goes on behind `reached`, or begins.
    pub(super) fn new(runtime: RuntimeClient, reached: Option<EventSeq>) -> Self {
        let read = reached.unwrap_or_default();
        Self {
            feed: reached.map(|reached| runtime.follow_events(reached)),
            asking: reached.is_none().then(|| ask(&runtime, false)),
            runtime,
            read,
            noted: read,
        }
    }

    /// The next record. Dropping this future loses nothing.
    async fn next(&mut self) -> Box<Record> {
        loop {
            if self.turn() == Turn::Ask {
                let said = super::finished(&mut self.asking).await;
                self.hear(said);
                continue;
            }
            let item = match &mut self.feed {
                Some(feed) => feed.next().await,
                None => None,
            };
            match item {
                Some(FeedItem::Record(JournalRecord::Known(record))) => {
                    if record.seq > self.read {
                        self.read = record.seq;
                        return record;
                    }
                }
                // In words that nobody here understands: nothing to be asked about.
                Some(FeedItem::Record(record)) => self.read = self.read.max(record.seq()),
                // It may be another journal than the one that was read.
                Some(FeedItem::Connected { .. }) => self.asking = Some(ask(&self.runtime, false)),
                Some(FeedItem::Lost { .. }) => {}
                None => std::future::pending().await,
            }
        }
    }

    fn turn(&self) -> Turn {
        match self.asking {
            Some(_) => Turn::Ask,
            None => Turn::Read,
        }
    }

    fn hear(&mut self, said: Result<Health, ClientError>) {
        match (said, &self.feed) {
            (Ok(health), None) => {
                self.read = health.last_seq;
                self.feed = Some(self.runtime.follow_events(self.read));
                tracing::info!(
                    after = self.read.0,
                    "following the journal for second opinions"
                );
            }
            (Ok(health), Some(_)) if health.last_seq < self.read => {
                tracing::warn!(
                    "the runtime's journal began anew; it is followed from its beginning"
                );
                self.read = EventSeq(0);
                self.feed = Some(self.runtime.follow_events(self.read));
            }
            (Ok(_), Some(_)) => {}
            // Without an end there is nothing to follow; with one, the feed says itself when the runtime is back.
            (Err(_), None) => self.asking = Some(ask(&self.runtime, true)),
            (Err(_), Some(_)) => {}
        }
    }
}

fn ask(
    runtime: &RuntimeClient,
    after_a_pause: bool,
) -> BoxFuture<'static, Result<Health, ClientError>> {
    let runtime = runtime.clone();
    async move {
        if after_a_pause {
            tokio::time::sleep(ASK_AGAIN).await;
        }
        runtime.health().await
    }
    .boxed()
}

/// The next record, where the journal is followed so and another one may be taken.
pub(super) async fn unheard(journal: &mut Option<Unheard>, is_wanted: bool) -> Box<Record> {
    match journal {
        Some(journal) if is_wanted => journal.next().await,
        _ => std::future::pending().await,
    }
}

impl Agent {
    /// A record that no broker hears.
    pub(super) fn on_unheard(&mut self, record: &Record) -> Result<(), AgentError> {
        self.consider(record)?;
        let Some(journal) = &mut self.unheard else {
            return Ok(());
        };
        // Both ways: a journal may begin anew.
        let is_far = journal.read.0.abs_diff(journal.noted.0) >= NOTE_EVERY;
        if self.riders.is_empty() && !is_far {
            return Ok(());
        }
        journal.noted = journal.read;
        let mark = on_disk::note(journal.read);
        self.carry(mark)
    }
}
