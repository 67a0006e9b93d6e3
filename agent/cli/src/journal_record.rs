//! One record of the journal, by the number that `watchkeeper events` shows.

use watchkeeper_client::{JournalRecord, RuntimeClient};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;

use super::exit::Failure;

pub(super) async fn record(client: &RuntimeClient, event: EventSeq) -> Result<Event, Failure> {
    match client.record(event).await? {
        Some(JournalRecord::Known(found)) => Ok(*found),
        Some(JournalRecord::Newer(_) | JournalRecord::Unreadable { .. }) | None => {
            let sentence = format!("there is no event {event}; `watchkeeper events` lists them");
            Err(Failure::failed(sentence))
        }
    }
}
