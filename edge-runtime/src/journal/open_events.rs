//! Events that were open when the runtime stopped unexpectedly.
//!
//! After a crash nothing else would end them, and subscribers would keep their alarms.
//!
//! - After the records of [`close_open_events`](super::Journal::close_open_events), every event in
//!   the journal has its end. Exceptions: holds of the crash-loop guard, which the guard continues,
//!   and events beyond [`MAX_OPEN`].

use std::collections::BTreeMap;

use watchkeeper_contract::event::{ClipState, Event, Phase};
use watchkeeper_contract::id::{EventId, EventSeq};

use super::loss::Stamp;
use super::record::StoredEvent;
use super::reviews::Outline;

/// Maximum number of open events; far above what occurs.
const MAX_OPEN: usize = 10_000;

/// The state of a clip whose file was not complete.
const CLIP_INTERRUPTED: &str = "the runtime stopped unexpectedly while the clip was written";

/// Events without an end among the records seen so far.
#[derive(Debug, Default)]
pub(super) struct OpenEvents {
    /// Last record of each open event.
    open: BTreeMap<EventId, StoredEvent>,
    /// First record of each event whose clip was being written.
    active_clips: BTreeMap<EventId, StoredEvent>,
}

impl OpenEvents {
    /// Adds the next record of the journal.
    pub(super) fn add(&mut self, stored: StoredEvent, record: &Outline) {
        let clip = record.clip.as_ref();
        let has_active_clip = clip.is_some_and(|c| c.state == ClipState::Filming);
        if has_active_clip && self.active_clips.len() < MAX_OPEN {
            self.active_clips.insert(record.id, stored.clone());
        }
        match record.phase {
            Phase::Clip => drop(self.active_clips.remove(&record.id)),
            Phase::End => drop(self.open.remove(&record.id)),
            Phase::New | Phase::Update if self.open.len() < MAX_OPEN => {
                self.open.insert(record.id, stored);
            }
            Phase::New | Phase::Update | Phase::Assessed => {}
        }
    }

    /// Records that end the open events, oldest first, except those that continue; then records of
    /// clips, whose state `clip` returns.
    pub(super) fn into_end_records(
        self,
        stamp: &Stamp,
        continues: &dyn Fn(EventId) -> bool,
        clip: &dyn Fn(&str) -> Option<ClipState>,
    ) -> Vec<Event> {
        let open = in_order(self.open).into_iter();
        let open = open.filter(|event| !continues(event.id));
        let active_clips = in_order(self.active_clips).into_iter();
        open.map(|event| end(event, stamp))
            .chain(active_clips.map(|event| end_of_clip(event, stamp, clip)))
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
        // The clip may be complete, and only its record missing.
        let message = CLIP_INTERRUPTED.to_owned();
        clip.state = found(&clip.id).unwrap_or(ClipState::Lost { message });
    }
    event
}

fn end(event: Event, stamp: &Stamp) -> Event {
    let mut event = stamped(event, stamp);
    event.phase = Phase::End;
    event.clip = None;
    "the runtime stopped unexpectedly while this event was open; its real end is unknown"
        .clone_into(&mut event.decision.reason);
    event
}

/// A record of the same event with the time of `stamp`.
fn stamped(mut event: Event, stamp: &Stamp) -> Event {
    event.seq = EventSeq(0);
    event.boot_id.clone_from(&stamp.boot_id);
    event.mono_ms = stamp.mono_ms;
    event.at = stamp.at;
    event.media = Vec::new();
    event.hash = String::new();
    event
}
