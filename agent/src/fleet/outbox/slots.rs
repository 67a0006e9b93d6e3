//! Entries in memory, by state, with the indexes over them.
//!
//! - Owns the order of sending, the order of dropping, and the counts of each class.
//! - Invariant: the indexes agree with the states, because only [`Slots`] changes either.
//! - Not here: when a state changes, contents, loss records ([`Outbox`](super::Outbox)).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use watchkeeper_contract::rule::Severity;

use super::bounds::ClassStats;
use super::entry::{Class, EntryMeta, OutboxId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// In memory, for the next change.
    Staged,
    /// In the change that is being stored.
    Storing,
    /// Stored; waits for the link and for a free place in the window.
    Waiting,
    /// Published without an acknowledgement.
    InFlight { since: Instant },
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) meta: EntryMeta,
    pub(super) is_loss: bool,
    /// A loss record that the broker may have seen. It must not change, because consumers know its
    /// id.
    pub(super) sealed: bool,
    /// Session that was up when the entry was added.
    pub(super) arrived_in: Option<u64>,
    pub(super) state: State,
}

/// The entries in memory.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: BTreeMap<OutboxId, Slot>,
    /// `Waiting` slots, in the order of sending.
    waiting: BTreeSet<(Class, OutboxId)>,
    /// Slots that may be dropped, in the order of dropping; never loss records.
    droppable: BTreeSet<(Class, Severity, OutboxId)>,
    in_flight: BTreeSet<OutboxId>,
    assured: ClassStats,
    events: ClassStats,
}

impl Slots {
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn get(&self, id: OutboxId) -> Option<&Slot> {
        self.slots.get(&id)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (OutboxId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    pub(super) fn class_stats(&self, class: Class) -> ClassStats {
        match class {
            Class::Assured => self.assured,
            Class::Event => self.events,
        }
    }

    fn class_stats_mut(&mut self, class: Class) -> &mut ClassStats {
        match class {
            Class::Assured => &mut self.assured,
            Class::Event => &mut self.events,
        }
    }

    /// Counts an entry that was dropped at a bound.
    pub(super) fn count_dropped(&mut self, class: Class) {
        self.class_stats_mut(class).dropped += 1;
    }

    pub(super) fn insert(&mut self, id: OutboxId, slot: Slot) {
        let stats = self.class_stats_mut(slot.meta.class);
        stats.entries += 1;
        stats.bytes += slot.meta.bytes;
        let state = slot.state;
        self.slots.insert(id, slot);
        self.set_state(id, state);
    }

    pub(super) fn remove(&mut self, id: OutboxId) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        let EntryMeta {
            class,
            severity,
            bytes,
            ..
        } = slot.meta;
        self.waiting.remove(&(class, id));
        self.droppable.remove(&(class, severity, id));
        self.in_flight.remove(&id);
        let stats = self.class_stats_mut(class);
        stats.entries -= 1;
        stats.bytes -= bytes;
        Some(slot)
    }

    /// Sets the state of an entry, and with it all indexes.
    pub(super) fn set_state(&mut self, id: OutboxId, state: State) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.state = state;
        let EntryMeta {
            class, severity, ..
        } = slot.meta;
        if state == State::Waiting {
            self.waiting.insert((class, id));
        } else {
            self.waiting.remove(&(class, id));
        }
        if matches!(state, State::Waiting | State::Staged) && !slot.is_loss {
            self.droppable.insert((class, severity, id));
        } else {
            self.droppable.remove(&(class, severity, id));
        }
        if matches!(state, State::InFlight { .. }) {
            self.in_flight.insert(id);
        } else {
            self.in_flight.remove(&id);
        }
    }

    pub(super) fn seal(&mut self, id: OutboxId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.sealed = true;
        }
    }

    /// The next entry to send.
    pub(super) fn next_waiting(&self) -> Option<OutboxId> {
        self.waiting.first().map(|(_, id)| *id)
    }

    /// The entry of `class` that is dropped first.
    pub(super) fn next_droppable(&self, class: Class) -> Option<OutboxId> {
        let from = (class, Severity::Info, OutboxId(0));
        let (found, _, id) = self.droppable.range(from..).next()?;
        (*found == class).then_some(*id)
    }

    pub(super) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn is_in_flight(&self, id: OutboxId) -> bool {
        self.in_flight.contains(&id)
    }

    /// Requeues everything in flight: without an acknowledgement its delivery is unknown.
    pub(super) fn requeue_in_flight(&mut self) {
        for id in std::mem::take(&mut self.in_flight) {
            self.set_state(id, State::Waiting);
        }
    }

    /// When the oldest entry in flight was published.
    pub(super) fn oldest_flight(&self) -> Option<Instant> {
        self.in_flight
            .iter()
            .filter_map(|id| match self.slots.get(id)?.state {
                State::InFlight { since } => Some(since),
                State::Staged | State::Storing | State::Waiting => None,
            })
            .min()
    }

    /// Checks that the indexes and counts agree with the entries.
    ///
    /// # Panics
    /// Panics when they do not, which is a defect of this module.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut assured = (0, 0);
        let mut events = (0, 0);
        for (id, slot) in &self.slots {
            let sum = match slot.meta.class {
                Class::Assured => &mut assured,
                Class::Event => &mut events,
            };
            *sum = (sum.0 + 1, sum.1 + slot.meta.bytes);
            let is_waiting = slot.state == State::Waiting;
            let place = (slot.meta.class, *id);
            assert_eq!(self.waiting.contains(&place), is_waiting, "{id:?}");
            let is_flying = matches!(slot.state, State::InFlight { .. });
            assert_eq!(self.in_flight.contains(id), is_flying, "{id:?}");
        }
        assert_eq!(assured, (self.assured.entries, self.assured.bytes));
        assert_eq!(events, (self.events.entries, self.events.bytes));
        assert!(
            self.waiting.len() + self.in_flight.len() <= self.slots.len(),
            "an index contains an unknown entry"
        );
    }
}
