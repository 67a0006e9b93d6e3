//! What was open when the runtime died: every event that began ends, also when nobody was left to end it.
//!
//! A camera that is lost while the runtime is killed has a `new` and nobody who remembers it; whoever follows the journal would raise its alarm for
//! ever. Invariant: after [`Journal::ends`](super::Journal::ends) was appended, every event that the journal still holds the beginning of has its end, except what
//! another part of the runtime says that it goes on with: the guard against crash loops, whose holds last over restarts.

use std::collections::BTreeMap;

use serde::Deserialize;
use watchkeeper_contract::event::{Event, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};

use super::{Stamp, StoredEvent};

/// Most open events that are looked after; there are never nearly as many.
const MOST: usize = 10_000;

/// As much of a record as tells whether it is the end.
#[derive(Deserialize)]
struct Life {
    id: EventId,
    phase: Phase,
}

/// What began and has not ended yet, of the records seen so far.
#[derive(Debug, Default)]
pub(super) struct Unended {
    /// The last record of each.
    open: BTreeMap<EventId, StoredEvent>,
}

impl Unended {
    /// Looks at the next record of the journal.
    pub(super) fn see(&mut self, stored: StoredEvent) {
        let Ok(life) = serde_json::from_str::<Life>(stored.canonical()) else {
            return;
        };
        match life.phase {
            Phase::End => drop(self.open.remove(&life.id)),
            Phase::New | Phase::Update if self.open.len() < MOST => {
                self.open.insert(life.id, stored);
            }
            Phase::New | Phase::Update => {}
        }
    }

    /// Records that end what is open, oldest first, but for what `goes_on`.
    pub(super) fn ends(self, stamp: &Stamp, goes_on: &dyn Fn(EventId) -> bool) -> Vec<Event> {
        let mut left: Vec<StoredEvent> = self.open.into_values().collect();
        left.sort_by_key(|stored| stored.seq);
        let events = left.iter().filter_map(|stored| stored.event().ok());
        events
            .filter(|event| !goes_on(event.id))
            .map(|event| end(event, stamp))
            .collect()
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
