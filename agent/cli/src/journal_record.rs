//! One record of the journal, by the number that `watchkeeper events` shows.

use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;

use super::exit::Failure;

pub(super) async fn record(client: &RuntimeClient, event: EventSeq) -> Result<Event, Failure> {
    let page = client.events(EventSeq(event.0.saturating_sub(1)), 1).await;
    let page = match page {
        Err(error) if error.is_ahead() => Vec::new(),
        page => page?,
    };
    let found = page.into_iter().find_map(|record| match record {
        JournalRecord::Known(found) if found.seq == event => Some(*found),
        JournalRecord::Known(_) | JournalRecord::Newer(_) | JournalRecord::Unreadable { .. } => {
            None
        }
    });
    found.ok_or_else(|| {
        let sentence = format!("there is no event {event}; `watchkeeper events` lists them");
        Failure::failed(sentence)
    })
}
