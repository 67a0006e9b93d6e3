//! What was open when the runtime died: every event that began ends, and every clip that was being filmed is told of, also when nobody was left to do it.
//!
//! A camera that is lost while the runtime is killed has a `new` and nobody who remembers it; whoever follows the journal would raise its alarm for
//! ever. Invariant: after [`Journal::ends`](super::Journal::ends) was appended, every event that the journal still holds the beginning of has its end, except what
//! another part of the runtime says that it goes on with: the guard against crash loops, whose holds last over restarts.

use std::collections::BTreeMap;

use serde::Deserialize;
use watchkeeper_contract::event::{Clip, ClipState, Event, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};

use super::{Stamp, StoredEvent};

/// Most open events that are looked after; there are never nearly as many.
const MOST: usize = 10_000;

/// What is said of a clip whose file was not complete.
const HALF: &str = "the runtime ended without a word while it was filmed";

/// As much of a record as tells whether it is the end.
#[derive(Deserialize)]
struct Life {
    id: EventId,
    phase: Phase,
    clip: Option<Clip>,
}

/// What began and has not ended yet, of the records seen so far.
#[derive(Debug, Default)]
pub(super) struct OpenEvents {
    /// The last record of each.
    open: BTreeMap<EventId, StoredEvent>,
    /// The first record of each whose clip was being filmed.
    filming: BTreeMap<EventId, StoredEvent>,
}

impl OpenEvents {
    /// Looks at the next record of the journal.
    pub(super) fn see(&mut self, stored: StoredEvent) {
        let Ok(life) = serde_json::from_str::<Life>(stored.canonical()) else {
            return;
        };
        let is_filming = life.clip.is_some_and(|c| c.state == ClipState::Filming);
        if is_filming && self.filming.len() < MOST {
            self.filming.insert(life.id, stored.clone());
        }
        match life.phase {
            Phase::Clip => drop(self.filming.remove(&life.id)),
            Phase::End => drop(self.open.remove(&life.id)),
            Phase::New | Phase::Update if self.open.len() < MOST => {
                self.open.insert(life.id, stored);
            }
            Phase::New | Phase::Update => {}
        }
    }

    /// Records that end what is open, oldest first, but for what `goes_on`; then those about clips, of which `clip` says what there is.
    pub(super) fn ends(
        self,
        stamp: &Stamp,
        goes_on: &dyn Fn(EventId) -> bool,
        clip: &dyn Fn(&str) -> Option<ClipState>,
    ) -> Vec<Event> {
        let open = in_order(self.open).into_iter();
        let open = open.filter(|event| !goes_on(event.id));
        let filming = in_order(self.filming).into_iter();
        open.map(|event| end(event, stamp))
            .chain(filming.map(|event| end_of_clip(event, stamp, clip)))
            .collect()
    }
}

fn in_order(records: BTreeMap<EventId, StoredEvent>) -> Vec<Event> {
    let mut left: Vec<StoredEvent> = records.into_values().collect();
    left.sort_by_key(|stored| stored.seq);
    let events = left.iter().filter_map(|stored| stored.event().ok());
    events.collect()
}

fn end_of_clip(event: Event, stamp: &Stamp, found: &dyn Fn(&str) -> Option<ClipState>) -> Event {
    let mut event = stamped(event, stamp);
    event.phase = Phase::Clip;
    if let Some(clip) = &mut event.clip {
        // It may have been complete, and only the word of it missing.
        let message = HALF.to_owned();
        clip.state = found(&clip.id).unwrap_or(ClipState::Lost { message });
    }
    event
}

fn end(event: Event, stamp: &Stamp) -> Event {
    let mut event = stamped(event, stamp);
    event.phase = Phase::End;
    event.clip = None;
    "the runtime ended without a word while this was open; when it was over is not known"
        .clone_into(&mut event.decision.reason);
    event
}

/// A record of the same event, written now.
fn stamped(mut event: Event, stamp: &Stamp) -> Event {
    event.seq = EventSeq(0);
    event.boot_id.clone_from(&stamp.boot_id);
    event.mono_ms = stamp.mono_ms;
    event.at = stamp.at;
    event.media = Vec::new();
    event.hash = String::new();
    event
}
