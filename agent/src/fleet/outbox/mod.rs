//! The outbox: the durable queue of messages for the broker. Sans-IO.
//!
//! [`Outbox`] keeps these invariants; `sim` tests them with random failures:
//! - Nothing is published before it is stored: **persist, then speak**.
//! - An entry is deleted only after the broker's acknowledgement, or once a loss record for it is
//!   stored.
//! - Ids strictly rise, over restarts too; entries of one class leave in the order of their ids.
//! - The journal cursor moves in the same batch as the entries that were made from the journal.
//!
//! So after a crash a consumer sees an id at most twice, and every gap has a loss record.
//!
//! Not here: files ([`store`]), the network (`mqtt`), the clock (callers pass `now`), topics, JSON.
//!
//! ```text
//!  handle(Record|Own) ─► staged ─► Persist ─► storing ─► handle(Stored) ─► waiting ─► Publish ─► in flight
//!                          │                                                 ▲  │        LinkDown ──┘ │
//!                          └── too many: dropped, counted in a loss record ◄─┼──┘                     │
//!                                                                            └────────────────────────┤
//!                                                                deleted (Persist, no sync) ◄─ handle(Acked)
//! ```

mod bounds;
mod entry;
mod io;
pub mod on_disk;
#[cfg(test)]
mod sim;
pub mod store;
mod telemetry;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::rule::Severity;

pub use bounds::{ClassLimits, ClassStats, Limits, Stats};
pub use entry::{
    Class, Content, Draft, EntryMeta, Loss, LossFrom, MAX_RANGES, OutboxId, RestoredEntry,
};
pub use io::{Change, Input, Output, Restored};
pub use telemetry::{Measurement, TelemetryRing};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
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
struct Slot {
    meta: EntryMeta,
    is_loss: bool,
    /// A loss record that the broker may have seen. It must not change, because consumers know its
    /// id.
    sealed: bool,
    /// Session that was up when the entry was added.
    arrived_in: Option<u64>,
    state: State,
}

/// State machine of the outbox. Call [`Outbox::handle`], then drain [`Outbox::poll`].
#[derive(Debug)]
pub struct Outbox {
    limits: Limits,
    slots: BTreeMap<OutboxId, Slot>,
    /// `Waiting` slots, in the order of sending.
    waiting: BTreeSet<(Class, OutboxId)>,
    /// Slots that may be dropped, in the order of dropping; never loss records.
    droppable: BTreeSet<(Class, Severity, OutboxId)>,
    in_flight: BTreeSet<OutboxId>,
    /// Every loss record without an acknowledgement.
    losses: BTreeMap<OutboxId, Loss>,
    staged: BTreeMap<OutboxId, Content>,
    deletes: BTreeSet<OutboxId>,
    /// Whether the shell requested a change, even if the outbox itself has nothing to store.
    is_change_requested: bool,
    /// Change that is being stored: its number and the entries that it writes.
    storing: Option<(u64, Vec<OutboxId>)>,
    cursor: Option<EventSeq>,
    next_id: OutboxId,
    next_batch: u64,
    session: Option<u64>,
    stuck_reported: Option<u64>,
    outputs: VecDeque<Output>,
    stats: Stats,
}

impl Outbox {
    /// Continues with the entries of the store.
    #[must_use]
    pub fn new(limits: Limits, restored: Restored) -> Self {
        let mut outbox = Self {
            limits,
            slots: BTreeMap::new(),
            waiting: BTreeSet::new(),
            droppable: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            losses: BTreeMap::new(),
            staged: BTreeMap::new(),
            deletes: BTreeSet::new(),
            is_change_requested: false,
            storing: None,
            cursor: restored.cursor,
            next_id: restored.next_id,
            next_batch: 1,
            session: None,
            stuck_reported: None,
            outputs: VecDeque::new(),
            stats: Stats::default(),
        };
        for (id, kept) in restored.entries {
            outbox.next_id = outbox.next_id.max(OutboxId(id.0.saturating_add(1)));
            match kept {
                RestoredEntry::Message(meta) => outbox.insert(id, meta, false, State::Waiting),
                RestoredEntry::Loss(loss) => {
                    outbox.insert(id, EntryMeta::LOSS, true, State::Waiting);
                    outbox.losses.insert(id, loss);
                }
            }
            outbox.seal(id);
        }
        for _ in 0..restored.damaged {
            outbox.record_loss(LossFrom::Store, Loss::add_unnumbered);
        }
        outbox
    }

    /// Last journal record that was accepted, stored or not; the outbox expects the one after it.
    #[must_use]
    pub fn cursor(&self) -> Option<EventSeq> {
        self.cursor
    }

    /// Whether it accepts more records; until then they are safe in the journal.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.staged.len() < self.limits.staged
    }

    /// Whether everything is stored, published and acknowledged.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.storing.is_none()
    }

    /// Counts for telemetry.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            in_flight: self.in_flight.len(),
            ..self.stats
        }
    }

    /// Loss record of entry `id`, if it is one.
    #[must_use]
    pub fn loss(&self, id: OutboxId) -> Option<&Loss> {
        self.losses.get(&id)
    }

    /// Handles one input; drain [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Record { seq, draft } => {
                if self.advance_cursor(seq) {
                    self.append(draft);
                }
            }
            Input::Unreadable { seq } => {
                if self.advance_cursor(seq) {
                    self.record_loss(LossFrom::Unreadable, |loss| loss.add(seq.0, seq.0));
                }
            }
            Input::Own(draft) => self.append(draft),
            Input::RequestChange => self.is_change_requested = true,
            Input::JournalRestarted => {
                self.cursor = Some(EventSeq(0));
                self.record_loss(LossFrom::Journal, Loss::add_unnumbered);
            }
            Input::Stored { batch } => self.stored(batch),
            Input::LinkUp { session } => {
                self.requeue_in_flight();
                self.session = Some(session);
            }
            Input::LinkDown => {
                self.requeue_in_flight();
                self.session = None;
            }
            Input::Acked { session, id } => {
                if self.session == Some(session) && self.in_flight.remove(&id) {
                    self.stats.acked += 1;
                    self.forget(id);
                }
            }
            Input::Damaged { id } => {
                self.in_flight.remove(&id);
                let seq = self.slots.get(&id).and_then(|slot| slot.meta.seq);
                self.forget(id);
                self.record_loss(LossFrom::Store, |loss| match seq {
                    Some(seq) => loss.add(seq.0, seq.0),
                    None => loss.add_unnumbered(),
                });
            }
            Input::Tick => {}
        }
        self.plan(now);
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// Next action, `None` when all are done.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let session = self.session?;
        if self.stuck_reported == Some(session) {
            return None;
        }
        self.oldest_flight()
            .map(|since| since + self.limits.ack_timeout)
    }

    /// Moves the cursor to `seq` and records the gap before it as a loss. False if `seq` was
    /// processed before.
    fn advance_cursor(&mut self, seq: EventSeq) -> bool {
        // The journal may begin anywhere: there is no gap before the first record.
        if let Some(cursor) = self.cursor {
            if seq <= cursor {
                return false;
            }
            let expected = cursor.0.saturating_add(1);
            if seq.0 > expected {
                self.record_loss(LossFrom::Journal, |loss| loss.add(expected, seq.0 - 1));
            }
        }
        self.cursor = Some(seq);
        true
    }

    fn append(&mut self, draft: Draft) {
        let class = draft.class;
        let id = self.take_id();
        let content = Content::Message(draft);
        self.insert(id, content.meta(), false, State::Staged);
        self.staged.insert(id, content);
        self.enforce_bounds(class);
    }

    fn take_id(&mut self) -> OutboxId {
        let id = self.next_id;
        self.next_id = OutboxId(id.0.saturating_add(1));
        id
    }

    /// Drops entries of `class` until it is within its bounds.
    fn enforce_bounds(&mut self, class: Class) {
        let limits = match class {
            Class::Assured => self.limits.assured,
            Class::Event => self.limits.events,
        };
        loop {
            let stats = self.class_stats(class);
            if stats.entries <= limits.entries && stats.bytes <= limits.bytes {
                return;
            }
            let from = (class, Severity::Info, OutboxId(0));
            let victim = self.droppable.range(from..).next().copied();
            let Some((_, _, id)) = victim.filter(|(c, _, _)| *c == class) else {
                // All others are in flight or being stored; window and staging bound them.
                return;
            };
            let seq = self.slots.get(&id).and_then(|slot| slot.meta.seq);
            self.class_stats(class).dropped += 1;
            self.forget(id);
            self.record_loss(LossFrom::Outbox, |loss| match seq {
                Some(seq) => loss.add(seq.0, seq.0),
                None => loss.add_unnumbered(),
            });
        }
    }

    /// Adds to the loss record of this kind that was never sent, or creates one. So each session
    /// and each start add at most one record of a kind.
    fn record_loss(&mut self, from: LossFrom, add: impl FnOnce(&mut Loss)) {
        let open = self
            .losses
            .iter()
            .rev()
            .find(|(id, loss)| loss.from == from && self.slots.get(id).is_some_and(|s| !s.sealed))
            .map(|(id, _)| *id);
        let id = open.unwrap_or_else(|| self.take_id());
        let loss = self.losses.entry(id).or_insert_with(|| Loss::new(from));
        add(loss);
        let content = Content::Loss(loss.clone());
        if open.is_some() {
            // Its stored form is out of date: it must be stored again before it is sent.
            self.set_state(id, State::Staged);
        } else {
            self.insert(id, EntryMeta::LOSS, true, State::Staged);
        }
        self.staged.insert(id, content);
    }

    fn stored(&mut self, batch: u64) {
        let Some((expected, ids)) = self.storing.take() else {
            return;
        };
        if expected != batch {
            self.storing = Some((expected, ids));
            return;
        }
        for id in ids {
            let is_storing = self
                .slots
                .get(&id)
                .is_some_and(|s| s.state == State::Storing);
            if is_storing {
                self.set_state(id, State::Waiting);
            }
        }
    }

    /// Requeues everything in flight: without an acknowledgement its delivery is unknown.
    fn requeue_in_flight(&mut self) {
        for id in std::mem::take(&mut self.in_flight) {
            self.set_state(id, State::Waiting);
        }
    }

    /// Emits the actions that are possible now.
    fn plan(&mut self, now: Instant) {
        self.plan_change();
        let Some(session) = self.session else { return };
        while self.in_flight.len() < self.limits.window {
            let Some((_, id)) = self.waiting.first().copied() else {
                break;
            };
            self.set_state(id, State::InFlight { since: now });
            self.in_flight.insert(id);
            self.seal(id);
            let late = self
                .slots
                .get(&id)
                .is_some_and(|s| s.arrived_in != Some(session));
            self.outputs
                .push_back(Output::Publish { session, id, late });
        }
        let is_stuck = self
            .oldest_flight()
            .is_some_and(|since| now >= since + self.limits.ack_timeout);
        if is_stuck && self.stuck_reported != Some(session) {
            self.stuck_reported = Some(session);
            self.outputs.push_back(Output::LinkStuck { session });
        }
    }

    fn plan_change(&mut self) {
        let is_wanted =
            self.is_change_requested || !self.staged.is_empty() || !self.deletes.is_empty();
        if self.storing.is_some() || !is_wanted {
            return;
        }
        self.is_change_requested = false;
        let puts: Vec<_> = std::mem::take(&mut self.staged).into_iter().collect();
        let change = Change {
            batch: self.next_batch,
            deletes: std::mem::take(&mut self.deletes).into_iter().collect(),
            cursor: self.cursor,
            next_id: self.next_id,
            puts,
        };
        self.next_batch += 1;
        let ids: Vec<_> = change.puts.iter().map(|(id, _)| *id).collect();
        for id in &ids {
            self.set_state(*id, State::Storing);
        }
        self.storing = Some((change.batch, ids));
        self.outputs.push_back(Output::Persist(change));
    }

    fn oldest_flight(&self) -> Option<Instant> {
        self.in_flight
            .iter()
            .filter_map(|id| match self.slots.get(id)?.state {
                State::InFlight { since } => Some(since),
                State::Staged | State::Storing | State::Waiting => None,
            })
            .min()
    }

    fn insert(&mut self, id: OutboxId, meta: EntryMeta, is_loss: bool, state: State) {
        let slot = Slot {
            meta,
            is_loss,
            sealed: false,
            arrived_in: self.session,
            state,
        };
        let stats = self.class_stats(meta.class);
        stats.entries += 1;
        stats.bytes += meta.bytes;
        self.slots.insert(id, slot);
        self.set_state(id, state);
    }

    /// Sets the state of a slot. No other function does, so that the indexes always agree.
    fn set_state(&mut self, id: OutboxId, state: State) {
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
    }

    fn seal(&mut self, id: OutboxId) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.sealed = true;
        }
    }

    /// Removes an entry from memory, and from the store with the next change.
    fn forget(&mut self, id: OutboxId) {
        let Some(slot) = self.slots.remove(&id) else {
            return;
        };
        let EntryMeta {
            class, severity, ..
        } = slot.meta;
        self.waiting.remove(&(class, id));
        self.droppable.remove(&(class, severity, id));
        self.losses.remove(&id);
        let stats = self.class_stats(class);
        stats.entries -= 1;
        stats.bytes -= slot.meta.bytes;
        let never_stored = slot.state == State::Staged && !slot.is_loss;
        self.staged.remove(&id);
        if !never_stored {
            self.deletes.insert(id);
        }
    }

    fn class_stats(&mut self, class: Class) -> &mut ClassStats {
        match class {
            Class::Assured => &mut self.stats.assured,
            Class::Event => &mut self.stats.events,
        }
    }

    /// Checks the invariants that hold between calls.
    ///
    /// # Panics
    /// Panics when one is violated, which is a defect of this module.
    pub fn check(&self) {
        assert!(
            self.in_flight.len() <= self.limits.window,
            "window exceeded"
        );
        let mut assured = (0, 0);
        let mut events = (0, 0);
        for (id, slot) in &self.slots {
            let sum = match slot.meta.class {
                Class::Assured => &mut assured,
                Class::Event => &mut events,
            };
            *sum = (sum.0 + 1, sum.1 + slot.meta.bytes);
            let waiting = slot.state == State::Waiting;
            let place = (slot.meta.class, *id);
            assert_eq!(self.waiting.contains(&place), waiting, "{id:?}");
            let flying = matches!(slot.state, State::InFlight { .. });
            assert_eq!(self.in_flight.contains(id), flying, "{id:?}");
            assert!(
                slot.state != State::Staged
                    || self.staged.contains_key(id)
                    || self.storing.is_some(),
                "{id:?} is staged without content"
            );
            assert!(*id < self.next_id, "{id:?} was never assigned");
            assert_eq!(slot.is_loss, self.losses.contains_key(id), "{id:?}");
        }
        assert_eq!(
            assured,
            (self.stats.assured.entries, self.stats.assured.bytes)
        );
        assert_eq!(events, (self.stats.events.entries, self.stats.events.bytes));
        assert!(
            self.waiting.len() + self.in_flight.len() <= self.slots.len(),
            "an index contains an unknown entry"
        );
    }
}
