//! Which entries make room for a new one. Sans-IO.
//!
//! | order | evicted | when |
//! |---|---|---|
//! | 1 | entries whose time to live has passed | always |
//! | 2 | the oldest stored entries of class normal | more bytes or entries than allowed |
//! | 3 | the oldest references | more references than allowed |
//!
//! A protected entry is never evicted; where only such are left, the new entry is refused.

use std::collections::{BTreeSet, HashMap};

use crate::hash::ContentHash;
use crate::index::{Index, Slot};
use crate::name::EntryName;

/// Bounds of the durable tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all contents.
    pub max_bytes: u64,
    /// Bytes of one content.
    pub max_entry_bytes: u64,
    /// Entries with content in the archive.
    pub max_entries: usize,
    /// References to media of the runtime.
    pub max_references: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 8 << 30,
            max_entry_bytes: 256 << 20,
            max_entries: 100_000,
            max_references: 100_000,
        }
    }
}

/// Returns the entries that expired by `now_us`, oldest first, at most `max`.
pub(crate) fn expired(index: &Index, now_us: i64, max: usize) -> Vec<EntryName> {
    let due = index.expiring.iter().take_while(|(at, _)| *at <= now_us);
    due.take(max).map(|(_, name)| name.clone()).collect()
}

/// Plans the room for a stored entry. `None` if protected entries leave too little.
pub(crate) fn make_room(
    index: &Index,
    name: &EntryName,
    slot: &Slot,
    limits: &Limits,
    now_us: i64,
) -> Option<Vec<EntryName>> {
    let mut plan = Plan::new(index, name, slot);
    let room =
        |plan: &Plan<'_>| plan.bytes <= limits.max_bytes && plan.stored <= limits.max_entries;
    // A few at a time bound the batch; the periodic sweep removes the rest.
    for name in expired(index, now_us, MAX_EXPIRED) {
        plan.evict(name);
    }
    let mut oldest = index.normal.values();
    while !room(&plan) {
        plan.evict(oldest.next()?.clone());
    }
    Some(plan.evicted)
}

/// Expired entries that one ingest removes.
const MAX_EXPIRED: usize = 64;

/// The state after the new entry and the evictions so far.
struct Plan<'a> {
    index: &'a Index,
    incoming: &'a EntryName,
    bytes: u64,
    stored: usize,
    /// Uses that contents lose.
    lost: HashMap<ContentHash, u64>,
    gained: ContentHash,
    seen: BTreeSet<EntryName>,
    evicted: Vec<EntryName>,
}

impl<'a> Plan<'a> {
    fn new(index: &'a Index, incoming: &'a EntryName, slot: &Slot) -> Self {
        let totals = index.totals();
        let mut plan = Self {
            index,
            incoming,
            bytes: totals.bytes,
            stored: totals.stored + 1,
            lost: HashMap::new(),
            gained: slot.hash,
            seen: BTreeSet::new(),
            evicted: Vec::new(),
        };
        if index.blob(&slot.hash).is_none() {
            plan.bytes = plan.bytes.saturating_add(slot.bytes);
        }
        plan.release(incoming);
        plan
    }

    /// Takes an entry out of the sums.
    fn release(&mut self, name: &EntryName) {
        let Some(slot) = self.index.slot(name).filter(|slot| slot.is_stored) else {
            return;
        };
        self.stored -= 1;
        let lost = self.lost.entry(slot.hash).or_insert(0);
        *lost += 1;
        let blob = self.index.blob(&slot.hash);
        if let Some(blob) = blob
            && blob.uses == *lost
            && slot.hash != self.gained
        {
            self.bytes -= blob.bytes;
        }
    }

    fn evict(&mut self, name: EntryName) {
        if name != *self.incoming && self.seen.insert(name.clone()) {
            self.release(&name);
            self.evicted.push(name);
        }
    }
}

/// Plans the room for `new` references: the oldest that give way.
pub(crate) fn make_room_for_references(
    index: &Index,
    new: &BTreeSet<EntryName>,
    limits: &Limits,
) -> Vec<EntryName> {
    let is_known = |name: &&EntryName| index.slot(name).is_some_and(|slot| !slot.is_stored);
    let added = new.len() - new.iter().filter(is_known).count();
    let over = (index.totals().references + added).saturating_sub(limits.max_references);
    let oldest = index
        .references
        .values()
        .filter(|name| !new.contains(*name));
    oldest.take(over).cloned().collect()
}
