//! What is stored, in memory: names, sizes, order, uses of contents, and what queries ask. Sans-IO.
//!
//! - It holds what the records hold, from which it is made at each start. A change is applied to
//!   both or to none, also where making it durable fails.
//! - Content that several entries share counts once. So does a camera's name.
//! - Details of entries have a bound in bytes. Beyond it they are in the records only.
//! - Stored entries and references are counted and ordered apart: no reference evicts a content.

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::ContentHash;
use crate::name::EntryName;
use crate::query::Conditions;
use crate::slot::{Details, Facts, Place, Slot};

/// A content and the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobUse {
    pub(crate) bytes: u64,
    pub(crate) uses: u64,
}

/// Values that entries share, with the number of their uses.
type Uses<K> = BTreeMap<K, u64>;
/// Values that are in memory once, with the number of their uses.
type Shared<T> = Uses<Arc<T>>;

fn add<T: Ord + ?Sized>(shared: &mut Shared<T>, one: Arc<T>) {
    *shared.entry(one).or_insert(0) += 1;
}

fn remove<K: Ord + Borrow<T>, T: Ord + ?Sized>(all: &mut Uses<K>, one: &T) {
    if let Some(uses) = all.get_mut(one) {
        *uses -= 1;
        if *uses == 0 {
            all.remove(one);
        }
    }
}

/// Defines a slot in a set that is ordered by a part of the slot, and searched by it.
macro_rules! ordered_slot {
    ($name:ident, $key:ty, $part:expr) => {
        #[derive(Debug)]
        struct $name(Arc<Slot>);

        impl Borrow<$key> for $name {
            fn borrow(&self) -> &$key {
                let part: fn(&Slot) -> &$key = $part;
                part(&self.0)
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                let (one, other): (&$key, &$key) = (self.borrow(), other.borrow());
                one.cmp(other)
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for $name {}
    };
}

ordered_slot!(ByTime, Place, |slot| &slot.place);
ordered_slot!(ByName, EntryName, |slot| &slot.place.1);
ordered_slot!(ByNumber, u64, |slot| &slot.number);

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// All entries, the newest first.
    by_time: BTreeSet<ByTime>,
    /// All entries, by name.
    by_name: BTreeSet<ByName>,
    collections: Shared<str>,
    facts: Shared<Facts>,
    max_details_bytes: usize,
    details_bytes: usize,
    /// Entries whose details are in their record only.
    without_details: usize,
    blobs: HashMap<ContentHash, BlobUse>,
    /// Contents of pictures, stored or not.
    pictures: Uses<ContentHash>,
    /// Stored entries that may be evicted, by number.
    normal: BTreeSet<ByNumber>,
    /// References that may be evicted, by number.
    references: BTreeSet<ByNumber>,
    /// Entries that are not protected and expire, by time.
    pub(crate) expiring: BTreeSet<(i64, EntryName)>,
    /// Pictures that wait for an embedding, by number; absent while none are made.
    queue: Option<BTreeSet<ByNumber>>,
    stored_bytes: u64,
    stored: usize,
    record_bytes: u64,
    reference_bytes: u64,
    last_number: u64,
}

/// Sums of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) stored: usize,
    pub(crate) references: usize,
    pub(crate) contents: usize,
    pub(crate) bytes: u64,
    /// Bytes of the records of stored entries.
    pub(crate) record_bytes: u64,
    /// Bytes of the records of references.
    pub(crate) reference_bytes: u64,
}

impl Index {
    pub(crate) fn new(max_details_bytes: usize) -> Self {
        Self {
            max_details_bytes,
            ..Self::default()
        }
    }

    /// Whether it has the details of all entries.
    pub(crate) fn has_details(&self) -> bool {
        self.without_details == 0
    }

    pub(crate) fn slot(&self, name: &EntryName) -> Option<&Arc<Slot>> {
        self.by_name.get(name).map(|one| &one.0)
    }

    /// Stored entries that may be evicted, or else references; the oldest ingest first.
    pub(crate) fn evictable(&self, is_stored: bool) -> impl Iterator<Item = &EntryName> {
        let order = match is_stored {
            true => &self.normal,
            false => &self.references,
        };
        order.iter().map(|one| one.0.name())
    }

    /// All entries from a name on, in the order of names.
    fn in_order_of_names<'a>(
        &'a self,
        from: Bound<&EntryName>,
    ) -> impl Iterator<Item = &'a Arc<Slot>> + use<'a> {
        let slots = self.by_name.range::<EntryName, _>((from, Bound::Unbounded));
        slots.map(|one| &one.0)
    }

    /// At most `max` entries that fulfil the conditions, as far as is known, in the order of the
    /// query after `begin`; and how many do.
    pub(crate) fn select(
        &self,
        wanted: &Conditions<'_>,
        begin: Option<&Place>,
        max: usize,
        now: Timestamp,
    ) -> (Vec<Arc<Slot>>, usize) {
        let (query, now_us) = (wanted.query(), now.as_microsecond());
        // Behind all entries of that moment, before all that are older.
        let behind = |moment| (Reverse(moment), EntryName::behind_all());
        let newest = query.until.map(behind);
        let newest = newest.map_or(Bound::Unbounded, Bound::Excluded);
        let oldest = query.since.map(behind);
        let oldest = oldest.map_or(Bound::Unbounded, Bound::Included);
        let is_behind = |at: &Place| begin.is_none_or(|b| query.order.compare(at, b).is_gt());
        let span = self.by_time.range::<Place, _>((newest, oldest));
        let mut found: Vec<&Arc<Slot>> = span
            .map(|one| &one.0)
            .filter(|slot| {
                slot.is_there(now_us) && wanted.is_met_by_slot(slot) && is_behind(&slot.place)
            })
            .collect();
        // They are in the order of time already.
        found.sort_by(|a, b| query.order.compare(&a.place, &b.place));
        let first = found.iter().take(max);
        (first.map(|slot| Arc::clone(slot)).collect(), found.len())
    }

    /// Shared facts of the entries that have not expired.
    pub(crate) fn facts(&self, now_us: i64) -> Vec<&Facts> {
        let mut expired = BTreeMap::<&Facts, u64>::new();
        let due = self.expiring.iter().take_while(|(at, _)| *at <= now_us);
        for slot in due.filter_map(|(_, name)| self.slot(name)) {
            *expired.entry(&slot.facts).or_default() += 1;
        }
        let facts = self.facts.iter();
        let facts = facts.filter(|(facts, uses)| expired.get(&***facts) != Some(uses));
        facts.map(|(facts, _)| &**facts).collect()
    }

    pub(crate) fn blob(&self, hash: &ContentHash) -> Option<BlobUse> {
        self.blobs.get(hash).copied()
    }

    /// Whether an entry is a picture with this content.
    pub(crate) fn has_picture(&self, hash: &ContentHash) -> bool {
        self.pictures.contains_key(hash)
    }

    /// The number for the next ingest.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            stored: self.stored,
            references: self.by_name.len() - self.stored,
            contents: self.blobs.len(),
            bytes: self.stored_bytes,
            record_bytes: self.record_bytes,
            reference_bytes: self.reference_bytes,
        }
    }

    /// All hashes of stored contents.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = &ContentHash> {
        self.blobs.keys()
    }

    /// Number of stored contents with more bytes.
    pub(crate) fn larger_than(&self, bytes: u64) -> usize {
        self.blobs
            .values()
            .filter(|blob| blob.bytes > bytes)
            .count()
    }

    /// Queues all pictures for an embedding, and further ones as they come.
    pub(crate) fn queue_pictures(&mut self) {
        let pictures = self.by_time.iter().filter(|one| one.0.is_picture());
        let queue = pictures.map(|one| ByNumber(Arc::clone(&one.0)));
        self.queue = Some(queue.collect());
    }

    /// Queues the pictures with this content again, if pictures are queued.
    pub(crate) fn queue_content(&mut self, hash: &ContentHash) {
        let same = |slot: &Slot| slot.is_picture() && slot.hash == *hash;
        if let Some(queue) = &mut self.queue {
            let pictures = self.by_time.iter().filter(|one| same(&one.0));
            queue.extend(pictures.map(|one| ByNumber(Arc::clone(&one.0))));
        }
    }

    /// Takes the pictures from the queue whose content is among these.
    pub(crate) fn unqueue(&mut self, is_done: impl Fn(&ContentHash) -> bool) {
        if let Some(queue) = &mut self.queue {
            queue.retain(|one| !is_done(&one.0.hash));
        }
    }

    pub(crate) fn unqueue_one(&mut self, number: u64) {
        if let Some(queue) = &mut self.queue {
            queue.remove(&number);
        }
    }

    /// The pictures that wait, the newest first.
    pub(crate) fn queued(&self, most: usize) -> Vec<(u64, EntryName)> {
        let queue = self.queue.iter().flatten().rev().take(most);
        queue
            .map(|one| (one.0.number, one.0.name().clone()))
            .collect()
    }

    pub(crate) fn queue_length(&self) -> usize {
        self.queue.as_ref().map_or(0, BTreeSet::len)
    }

    /// Entries of a collection, in the order of names.
    pub(crate) fn in_collection<'a>(
        &'a self,
        collection: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Slot>> {
        // `0` is the smallest name: no accepted character comes before the digits at its begin.
        let first = EntryName::new(collection, "0").unwrap_or_else(|_| EntryName::before_all());
        let entries = self.in_order_of_names(Bound::Included(&first));
        entries.take_while(move |slot| slot.name().collection() == collection)
    }

    /// At most `max` stored entries after a name, in the order of names.
    pub(crate) fn stored_from(&self, from: Bound<&EntryName>, max: usize) -> Vec<Arc<Slot>> {
        let stored = self.in_order_of_names(from).filter(|slot| slot.is_stored);
        stored.take(max).cloned().collect()
    }

    /// Collections with their numbers of entries that have not expired.
    pub(crate) fn collections(&self, now_us: i64) -> BTreeMap<String, u64> {
        let collections = self.collections.iter();
        let collections = collections.map(|(name, count)| (name.to_string(), *count));
        let mut collections: BTreeMap<String, u64> = collections.collect();
        let due = self.expiring.iter().take_while(|(at, _)| *at <= now_us);
        for (_, name) in due {
            if let Some(count) = collections.get_mut(name.collection()) {
                *count = count.saturating_sub(1);
            }
        }
        collections.retain(|_, count| *count > 0);
        collections
    }

    /// Adds or replaces an entry. Returns the content that lost its last entry.
    pub(crate) fn put(&mut self, mut slot: Slot) -> Option<ContentHash> {
        let replaced = self.slot(slot.name()).and_then(|old| old.details.as_ref());
        let used = self.details_bytes - replaced.map_or(0, Details::bytes);
        let room = self.max_details_bytes - used;
        slot.details = slot.details.filter(|details| details.bytes() <= room);
        if let Some((known, _)) = self.facts.get_key_value(&slot.facts) {
            slot.facts = Arc::clone(known);
        }
        self.put_shared(Arc::new(slot))
    }

    /// Adds or replaces an entry as [`Self::put`] does; `slot` was in this index before.
    pub(crate) fn put_shared(&mut self, slot: Arc<Slot>) -> Option<ContentHash> {
        // The new use first: a content that is replaced by itself is never without one.
        if slot.is_stored {
            let blob = self.blobs.entry(slot.hash).or_insert(BlobUse {
                bytes: slot.bytes,
                uses: 0,
            });
            if blob.uses == 0 {
                self.stored_bytes += slot.bytes;
            }
            blob.uses += 1;
        }
        let dropped = self.remove(slot.name());
        self.last_number = self.last_number.max(slot.number);
        self.stored += usize::from(slot.is_stored);
        match slot.is_stored {
            true => self.record_bytes += slot.record_bytes,
            false => self.reference_bytes += slot.record_bytes,
        }
        if !slot.is_protected {
            let order = match slot.is_stored {
                true => &mut self.normal,
                false => &mut self.references,
            };
            order.insert(ByNumber(Arc::clone(&slot)));
            if let Some(at) = slot.expires_us {
                self.expiring.insert((at, slot.name().clone()));
            }
        }
        if slot.is_picture() {
            *self.pictures.entry(slot.hash).or_default() += 1;
            if let Some(queue) = &mut self.queue {
                queue.insert(ByNumber(Arc::clone(&slot)));
            }
        }
        add(&mut self.collections, slot.name().collection().into());
        add(&mut self.facts, Arc::clone(&slot.facts));
        match &slot.details {
            Some(details) => self.details_bytes += details.bytes(),
            None => self.without_details += 1,
        }
        self.by_name.insert(ByName(Arc::clone(&slot)));
        self.by_time.insert(ByTime(slot));
        dropped
    }

    /// Removes an entry. Returns its content if that was the last entry of it.
    pub(crate) fn remove(&mut self, name: &EntryName) -> Option<ContentHash> {
        let ByName(slot) = self.by_name.take(name)?;
        self.by_time.remove(&slot.place);
        remove(&mut self.collections, name.collection());
        remove(&mut self.facts, &*slot.facts);
        if slot.is_picture() {
            remove(&mut self.pictures, &slot.hash);
        }
        match &slot.details {
            Some(details) => self.details_bytes -= details.bytes(),
            None => self.without_details -= 1,
        }
        self.normal.remove(&slot.number);
        self.references.remove(&slot.number);
        self.unqueue_one(slot.number);
        if let Some(at) = slot.expires_us {
            self.expiring.remove(&(at, name.clone()));
        }
        if !slot.is_stored {
            self.reference_bytes -= slot.record_bytes;
            return None;
        }
        self.record_bytes -= slot.record_bytes;
        self.stored -= 1;
        let blob = self.blobs.get_mut(&slot.hash)?;
        blob.uses -= 1;
        if blob.uses > 0 {
            return None;
        }
        self.stored_bytes -= blob.bytes;
        self.blobs.remove(&slot.hash);
        Some(slot.hash)
    }
}
