//! Which entries make room for a new one. Sans-IO.
//!
//! | order | evicted | when |
//! |---|---|---|
//! | 1 | entries whose time to live has passed | always |
//! | 2 | the oldest stored entries of class normal | more bytes, entries or records than allowed |
//! | 3 | the oldest references | more references or records of them than allowed |
//!
//! A protected entry is never evicted; where only such are left, the new entry is refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ContentHash;
use crate::error::ArchiveError;
use crate::index::Index;
use crate::name::EntryName;
use crate::slot::Slot;

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
    /// Bytes of the records of stored entries, and as many of those of references.
    pub max_record_bytes: u64,
}

impl Limits {
    /// The largest content that can be kept, and the key of the configuration that sets it.
    pub(crate) fn largest(&self) -> (u64, &'static str) {
        match self.max_entry_bytes <= self.max_bytes {
            true => (self.max_entry_bytes, "agent.archive.max_entry_bytes"),
            false => (self.max_bytes, "agent.archive.max_bytes"),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 8 << 30,
            max_entry_bytes: 256 << 20,
            max_entries: 100_000,
            max_references: 100_000,
            max_record_bytes: 1 << 30,
        }
    }
}

/// Returns the entries that expired by `now_us`, oldest first, at most `max`.
pub(crate) fn expired(index: &Index, now_us: i64, max: usize) -> Vec<EntryName> {
    let due = index.expiring.iter().take_while(|(at, _)| *at <= now_us);
    due.take(max).map(|(_, name)| name.clone()).collect()
}

/// Plans the room for a stored entry.
///
/// # Errors
/// [`ArchiveError::Full`] if protected entries leave too little.
pub(crate) fn make_room(
    index: &Index,
    slot: &Slot,
    limits: &Limits,
    now_us: i64,
) -> Result<Vec<EntryName>, ArchiveError> {
    let mut plan = Plan::new(index, slot);
    // A few at a time bound the batch; the periodic sweep removes the rest.
    for name in expired(index, now_us, MAX_EXPIRED) {
        plan.evict(name);
    }
    let mut oldest = index.evictable(true);
    while let Some(exceeded) = exceeded_bound(&plan, slot, limits) {
        plan.evict(oldest.next().ok_or(exceeded)?.clone());
    }
    Ok(plan.evicted)
}

/// The bound that a plan exceeds, as the error where nothing is left to evict.
fn exceeded_bound(plan: &Plan<'_>, slot: &Slot, limits: &Limits) -> Option<ArchiveError> {
    let (needed, remedy) = if plan.bytes > limits.max_bytes {
        let needed = format!("{} bytes", slot.bytes);
        (needed, ", or raise agent.archive.max_bytes")
    } else if plan.stored > limits.max_entries {
        let needed = format!("one more entry beside {}", limits.max_entries);
        (needed, "")
    } else if plan.record_bytes > limits.max_record_bytes {
        let needed = format!("a record of {} bytes", slot.record_bytes);
        (needed, ", or ingest it with less metadata")
    } else {
        return None;
    };
    Some(ArchiveError::Full { needed, remedy })
}

/// Expired entries that one ingest removes.
const MAX_EXPIRED: usize = 64;

/// The state after the new entry and the evictions so far.
struct Plan<'a> {
    index: &'a Index,
    incoming: &'a EntryName,
    bytes: u64,
    stored: usize,
    record_bytes: u64,
    /// Uses that contents lose.
    lost: HashMap<ContentHash, u64>,
    gained: ContentHash,
    seen: BTreeSet<EntryName>,
    evicted: Vec<EntryName>,
}

impl<'a> Plan<'a> {
    fn new(index: &'a Index, slot: &'a Slot) -> Self {
        let totals = index.totals();
        let mut plan = Self {
            index,
            incoming: slot.name(),
            bytes: totals.bytes,
            stored: totals.stored + 1,
            record_bytes: totals.record_bytes.saturating_add(slot.record_bytes),
            lost: HashMap::new(),
            gained: slot.hash,
            seen: BTreeSet::new(),
            evicted: Vec::new(),
        };
        if index.blob(&slot.hash).is_none() {
            plan.bytes = plan.bytes.saturating_add(slot.bytes);
        }
        plan.release(slot.name());
        plan
    }

    /// Takes an entry out of the sums.
    fn release(&mut self, name: &EntryName) {
        let Some(slot) = self.index.slot(name).filter(|slot| slot.is_stored) else {
            return;
        };
        self.stored -= 1;
        self.record_bytes -= slot.record_bytes;
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

/// Plans the room for `new` references with the bytes of their records: the oldest are evicted.
pub(crate) fn make_room_for_references(
    index: &Index,
    new: &BTreeMap<EntryName, u64>,
    limits: &Limits,
) -> Vec<EntryName> {
    let bytes_of = |name: &EntryName| {
        let slot = index.slot(name).filter(|slot| !slot.is_stored);
        slot.map(|slot| slot.record_bytes)
    };
    let replaced: Vec<u64> = new.keys().filter_map(bytes_of).collect();
    let totals = index.totals();
    let mut count = totals.references + new.len() - replaced.len();
    let mut bytes = totals.reference_bytes + new.values().sum::<u64>();
    bytes -= replaced.iter().sum::<u64>();
    let oldest = index.evictable(false);
    let oldest = oldest.filter(|name| !new.contains_key(*name));
    let given = oldest.take_while(|name| {
        let is_over = count > limits.max_references || bytes > limits.max_record_bytes;
        if is_over {
            count -= 1;
            bytes -= bytes_of(name).unwrap_or_default();
        }
        is_over
    });
    given.cloned().collect()
}
