//! What was open when the runtime died: every event that began ends, also when nobody was left to end it.
//!
//! A camera that is lost while the runtime is killed has a `new` and nobody who remembers it; whoever follows the journal would raise its alarm for
//! ever. Invariant: after [`Journal::ends`] was appended, every event that the journal still holds the beginning of has its end, except what
//! another part of the runtime goes on with.

use std::collections::BTreeMap;

use serde::Deserialize;
use watchkeeper_contract::event::{Event, EventBody, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};

use super::{Journal, JournalError, MAX_PAGE, Stamp};

/// Most open events that are looked after; there are never nearly as many.
const MOST: usize = 10_000;

/// As much of a record as tells whether it is the end.
#[derive(Deserialize)]
struct Life {
    id: EventId,
    phase: Phase,
}

impl Journal {
    /// Records that end what was begun and not ended, oldest first, to be appended before anything new. Holds of pipelines go on over restarts and
    /// are left out. `stamp` says who ends them; its id is not used.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn ends(&self, stamp: &Stamp) -> Result<Vec<Event>, JournalError> {
        let mut open: BTreeMap<EventId, (EventSeq, super::StoredEvent)> = BTreeMap::new();
        let mut after = EventSeq(0);
        loop {
            let page = self.read_after(after, MAX_PAGE)?;
            for stored in page.events {
                let Ok(life) = serde_json::from_str::<Life>(stored.canonical()) else {
                    continue;
                };
                match life.phase {
                    Phase::End => drop(open.remove(&life.id)),
                    Phase::New | Phase::Update if open.len() < MOST => {
                        open.insert(life.id, (stored.seq, stored));
                    }
                    Phase::New | Phase::Update => {}
                }
            }
            if page.next_after == after {
                break;
            }
            after = page.next_after;
        }
        let mut left: Vec<_> = open.into_values().collect();
        left.sort_by_key(|(seq, _)| *seq);
        let events = left.iter().filter_map(|(_, stored)| stored.event().ok());
        let held = |event: &Event| matches!(event.body, EventBody::PipelineHeld { .. });
        Ok(events
            .filter(|event| !held(event))
            .map(|event| end(event, stamp))
            .collect())
    }
}

fn end(mut event: Event, stamp: &Stamp) -> Event {
    event.phase = Phase::End;
    event.seq = EventSeq(0);
    event.boot_id.clone_from(&stamp.boot_id);
    event.mono_ms = stamp.mono_ms;
    event.at = stamp.at;
    event.media = Vec::new();
    event.hash = String::new();
    "the runtime ended without a word while this was open; when it was over is not known"
        .clone_into(&mut event.decision.reason);
    event
}
