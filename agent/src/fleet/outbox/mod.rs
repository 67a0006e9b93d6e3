//! The outbox: the durable queue of messages for the broker. Sans-IO, tested by `sim`.
//!
//! - Nothing is published before it is stored: **persist, then speak**.
//! - An entry is deleted only after the broker's acknowledgement or with a stored loss record.
//! - Ids strictly rise, over restarts too; entries of one class leave in the order of their ids.
//! - The journal cursor moves in the same batch as the entries that were made from the journal.
//! - After a crash a consumer sees an id at most twice, and every gap has a loss record.
//! - Not here: files ([`store`]), network (`mqtt`), clock (callers pass `now`), topics, JSON.
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
mod slots;
pub mod store;
mod telemetry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use watchkeeper_contract::id::EventSeq;

use slots::{Slot, Slots, State};

pub use bounds::{ClassLimits, ClassStats, Limits, Stats};
pub use entry::{
    Class, Content, Draft, EntryMeta, Loss, LossFrom, MAX_RANGES, OutboxId, RestoredEntry,
};
pub use io::{Change, Input, Output, Restored};
pub use telemetry::{Measurement, TelemetryRing};

/// State machine of the outbox. Call [`Outbox::handle`], then drain [`Outbox::poll`].
#[derive(Debug)]
pub struct Outbox {
    limits: Limits,
    slots: Slots,
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
    /// Messages acknowledged since the start.
    acked: u64,
}

impl Outbox {
    /// Continues with the entries of the store.
    pub fn new(limits: Limits, restored: Restored) -> Self {
        let mut outbox = Self {
            limits,
            slots: Slots::default(),
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
            acked: 0,
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
            outbox.slots.seal(id);
        }
        for _ in 0..restored.damaged {
            outbox.record_loss(LossFrom::Store, Loss::add_unnumbered);
        }
        outbox
    }

    /// Last journal record that was accepted, stored or not; the outbox expects the one after it.
    pub fn cursor(&self) -> Option<EventSeq> {
        self.cursor
    }

    /// Whether it accepts more records; until then they are safe in the journal.
    pub(crate) fn wants_more(&self) -> bool {
        self.staged.len() < self.limits.staged
    }

    /// Whether everything is stored, published and acknowledged.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.storing.is_none()
    }

    /// Counts for telemetry.
    pub fn stats(&self) -> Stats {
        Stats {
            assured: self.slots.class_stats(Class::Assured),
            events: self.slots.class_stats(Class::Event),
            in_flight: self.slots.in_flight_count(),
            acked: self.acked,
        }
    }

    /// Loss record of entry `id`, if it is one.
    pub fn loss(&self, id: OutboxId) -> Option<&Loss> {
        self.losses.get(&id)
    }

    /// Messages dropped at a bound whose loss record the broker does not have yet.
    pub fn unreported_drops(&self) -> u64 {
        let losses = self.losses.values();
        let dropped = losses.filter(|loss| loss.from == LossFrom::Outbox);
        dropped.map(|loss| loss.count).sum()
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
                self.slots.requeue_in_flight();
                self.session = Some(session);
            }
            Input::LinkDown => {
                self.slots.requeue_in_flight();
                self.session = None;
            }
            Input::Acked { session, id } => {
                if self.session == Some(session) && self.slots.is_in_flight(id) {
                    self.acked += 1;
                    self.forget(id);
                }
            }
            Input::Damaged { id } => {
                let seq = self.slots.get(id).and_then(|slot| slot.meta.seq);
                self.forget(id);
                self.record_loss(LossFrom::Store, |loss| match seq {
                    Some(seq) => loss.add(seq.0, seq.0),
                    None => loss.add_unnumbered(),
                });
            }
            Input::Tick => {}
        }
        self.plan(now);
        #[cfg(test)]
        self.check();
    }

    /// Next action, `None` when all are done.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let session = self.session?;
        if self.stuck_reported == Some(session) {
            return None;
        }
        self.slots
            .oldest_flight()
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
            let stats = self.slots.class_stats(class);
            if stats.entries <= limits.entries && stats.bytes <= limits.bytes {
                return;
            }
            let Some(id) = self.slots.next_droppable(class) else {
                // All others are in flight or being stored; window and staging bound them.
                return;
            };
            let seq = self.slots.get(id).and_then(|slot| slot.meta.seq);
            self.slots.count_dropped(class);
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
            .find(|(id, loss)| loss.from == from && self.slots.get(**id).is_some_and(|s| !s.sealed))
            .map(|(id, _)| *id);
        let id = open.unwrap_or_else(|| self.take_id());
        let loss = self.losses.entry(id).or_insert_with(|| Loss::new(from));
        add(loss);
        let content = Content::Loss(loss.clone());
        if open.is_some() {
            // Its stored form is out of date: it must be stored again before it is sent.
            self.slots.set_state(id, State::Staged);
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
            let slot = self.slots.get(id);
            let is_storing = slot.is_some_and(|s| s.state == State::Storing);
            if is_storing {
                self.slots.set_state(id, State::Waiting);
            }
        }
    }

    /// Emits the actions that are possible now.
    fn plan(&mut self, now: Instant) {
        self.plan_change();
        let Some(session) = self.session else { return };
        while self.slots.in_flight_count() < self.limits.window {
            let Some(id) = self.slots.next_waiting() else {
                break;
            };
            self.slots.set_state(id, State::InFlight { since: now });
            self.slots.seal(id);
            let slot = self.slots.get(id);
            let late = slot.is_some_and(|s| s.arrived_in != Some(session));
            self.outputs
                .push_back(Output::Publish { session, id, late });
        }
        let is_stuck = self
            .slots
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
            self.slots.set_state(*id, State::Storing);
        }
        self.storing = Some((change.batch, ids));
        self.outputs.push_back(Output::Persist(change));
    }

    fn insert(&mut self, id: OutboxId, meta: EntryMeta, is_loss: bool, state: State) {
        let slot = Slot {
            meta,
            is_loss,
            sealed: false,
            arrived_in: self.session,
            state,
        };
        self.slots.insert(id, slot);
    }

    /// Removes an entry from memory, and from the store with the next change.
    fn forget(&mut self, id: OutboxId) {
        let Some(slot) = self.slots.remove(id) else {
            return;
        };
        self.losses.remove(&id);
        let never_stored = slot.state == State::Staged && !slot.is_loss;
        self.staged.remove(&id);
        if !never_stored {
            self.deletes.insert(id);
        }
    }

    /// Checks the invariants that hold between calls.
    ///
    /// # Panics
    /// Panics when one is violated, which is a defect of this module.
    #[cfg(test)]
    fn check(&self) {
        assert!(
            self.slots.in_flight_count() <= self.limits.window,
            "window exceeded"
        );
        self.slots.check();
        for (id, slot) in self.slots.iter() {
            assert!(
                slot.state != State::Staged
                    || self.staged.contains_key(&id)
                    || self.storing.is_some(),
                "{id:?} is staged without content"
            );
            assert!(id < self.next_id, "{id:?} was never assigned");
            assert_eq!(slot.is_loss, self.losses.contains_key(&id), "{id:?}");
        }
    }
}
