//! Searches the journal backwards for a record of an event.
//!
//! - A record is parsed only where its text contains the id that is looked for.

use serde::Deserialize;
use watchkeeper_contract::event::{Event, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};

use super::error::JournalError;
use super::record::StoredEvent;
use super::{Journal, MAX_PAGE};

/// Test whether a record belongs to an event, also one of a newer version.
#[derive(Deserialize)]
struct Belonging {
    id: EventId,
    phase: Phase,
}

impl Journal {
    /// The latest record up to `last` that contains `id` and that `is_wanted` accepts, among
    /// `pages` of [`MAX_PAGE`] records.
    pub(super) fn find_back(
        &self,
        last: EventSeq,
        pages: usize,
        id: &str,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Event>, JournalError> {
        let first = self.head().first.0;
        let mut after = last.0;
        for _ in 0..pages {
            let end = after;
            after = end.saturating_sub(MAX_PAGE as u64);
            let page = self.read_after(EventSeq(after), MAX_PAGE)?;
            let records = page.events.iter().rev();
            let records = records.filter(|record| record.seq.0 <= end);
            let with_id = records.filter(|record| record.canonical().contains(id));
            let mut events = with_id.filter_map(|record| record.event().ok());
            if let Some(found) = events.find(|event| is_wanted(event)) {
                return Ok(Some(found));
            }
            if after < first || after == 0 {
                break;
            }
        }
        Ok(None)
    }

    /// An event whose rule keeps the clip with this media id, as its latest record has it.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn event_of_clip(&self, id: &str) -> Result<Option<Event>, JournalError> {
        let has_clip = |event: &Event| event.clip.as_ref().is_some_and(|clip| clip.id == id);
        self.find_back(self.head().last, usize::MAX, id, has_clip)
    }

    /// SHA-256 in hex of the picture or clip `id`, of the latest record that has it; `None` if no
    /// record does.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn recorded_hash(&self, id: &str) -> Result<Option<String>, JournalError> {
        let has_hash = |event: &Event| media_hash(event, id).is_some();
        let found = self.find_back(self.head().last, usize::MAX, id, has_hash)?;
        Ok(found.and_then(|event| media_hash(&event, id).map(str::to_owned)))
    }

    /// The records of an event in rising order: the latest `max` with at most `max_bytes` where
    /// there are more.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn records_of(
        &self,
        id: EventId,
        max: usize,
        max_bytes: usize,
    ) -> Result<Vec<StoredEvent>, JournalError> {
        let text = id.to_string();
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut end = self.head().last.0;
        while end > 0 {
            let after = end.saturating_sub(MAX_PAGE as u64);
            let page = self.read_after(EventSeq(after), MAX_PAGE)?;
            let records = page.events.into_iter().rev();
            let records = records.filter(|record| record.seq.0 <= end);
            for record in records.filter(|record| record.canonical().contains(&text)) {
                let read = serde_json::from_str::<Belonging>(record.canonical());
                let Some(read) = read.ok().filter(|read| read.id == id) else {
                    continue;
                };
                bytes += record.canonical().len();
                if bytes <= max_bytes {
                    found.push(record);
                }
                if read.phase == Phase::New || found.len() == max || bytes > max_bytes {
                    found.reverse();
                    return Ok(found);
                }
            }
            end = after;
        }
        found.reverse();
        Ok(found)
    }
}

fn media_hash<'e>(event: &'e Event, id: &str) -> Option<&'e str> {
    if let Some(picture) = event.media.iter().find(|media| media.id == id) {
        return Some(&picture.sha256);
    }
    let clip = event.clip.as_ref().filter(|clip| clip.id == id)?;
    clip.state.file().ok().map(|(_, sha256)| sha256)
}
