//! Searches the journal backwards for a record of an event.
//!
//! - A record is parsed only where its text contains the id that is looked for.

use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventSeq;

use super::error::JournalError;
use super::{Journal, MAX_PAGE};

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
}
