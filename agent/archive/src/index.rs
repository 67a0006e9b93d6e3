//! What is stored, in memory: names, sizes, order, uses of contents, and what queries ask. Sans-IO.
//!
//! - It holds what the records do: it is made from them at each start, and a change is applied to
//!   both or to none, also where making it durable fails.
//! - Content that several entries share counts once. So does a camera's name.
//! - Details of entries have a bound in bytes. Beyond it they are in the records only.
//! - Stored entries and references are counted and ordered apart: no reference evicts a content.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::ContentHash;
use crate::name::EntryName;
use crate::query::Conditions;
use crate::slot::{Facts, Place, Slot, before_epoch};

/// A content and the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobUse {
    pub(crate) bytes: u64,
    pub(crate) uses: u64,
}

/// What entries have in common, with the number of its uses.
type Uses<K> = BTreeMap<K, u64>;
/// The same for what is in memory once.
type Shared<T> = Uses<Arc<T>>;

fn add<T: Ord + ?Sized>(shared: &mut Shared<T>, one: Arc<T>) -> Arc<T> {
    let entry = shared.entry(one);
    let known = Arc::clone(entry.key());
    *entry.or_insert(0) += 1;
    known
}

fn remove<K: Ord + Borrow<T>, T: Ord + ?Sized>(all: &mut Uses<K>, one: &T) {
    if let Some(uses) = all.get_mut(one) {
        *uses -= 1;
        if *uses == 0 {
            all.remove(one);
        }
    }
}

/// An entry that a query selects.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: EntryName,
    pub(crate) number: u64,
    pub(crate) hash: ContentHash,
    /// Whether the conditions on its details were checked.
    pub(crate) has_details: bool,
}

impl Row {
    pub(crate) fn of(name: &EntryName, slot: &Slot) -> Self {
        Self {
            name: name.clone(),
            number: slot.number,
            hash: slot.hash,
            has_details: slot.details.is_some(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// All entries, the newest first.
    slots: BTreeMap<Place, Slot>,
    /// The time of each in `slots`.
    names: BTreeMap<EntryName, i128>,
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
    pub(crate) normal: BTreeMap<u64, EntryName>,
    /// References that may be evicted, by number.
    pub(crate) references: BTreeMap<u64, EntryName>,
    /// Entries that are not protected and expire, by time.
    pub(crate) expiring: BTreeSet<(i64, EntryName)>,
    /// Pictures that wait for an embedding, by number; absent while none are made.
    queue: Option<BTreeMap<u64, EntryName>>,
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

    /// An entry with its place.
    pub(crate) fn get(&self, name: &EntryName) -> Option<(&Place, &Slot)> {
        let place = (*self.names.get(name)?, name.clone());
        self.slots.get_key_value(&place)
    }

    pub(crate) fn slot(&self, name: &EntryName) -> Option<&Slot> {
        self.get(name).map(|(_, slot)| slot)
    }

    /// All entries, in the order of names.
    fn by_name(&self, from: Bound<EntryName>) -> impl Iterator<Item = (&EntryName, &Slot)> {
        let names = self.names.range((from, Bound::Unbounded));
        names.filter_map(|(name, at)| Some((name, self.slots.get(&(*at, name.clone()))?)))
    }

    /// At most `max` entries that fulfil the conditions, as far as is known, in the order of the
    /// query behind `begin`; and how many do.
    pub(crate) fn select(
        &self,
        wanted: &Conditions<'_>,
        begin: Option<&Place>,
        max: usize,
        now: Timestamp,
    ) -> (Vec<Row>, usize) {
        let (query, now_us) = (wanted.query(), now.as_microsecond());
        // Behind all entries of that moment, before all that are older.
        let place = |moment| (before_epoch(moment) + 1, EntryName::before_all());
        let newest = query
            .until
            .map(place)
            .map_or(Bound::Unbounded, Bound::Included);
        let oldest = query
            .since
            .map(place)
            .map_or(Bound::Unbounded, Bound::Excluded);
        let is_behind = |at: &Place| begin.is_none_or(|b| query.order.compare(at, b).is_gt());
        let mut found: Vec<(&Place, &Slot)> = self
            .slots
            .range((newest, oldest))
            .filter(|(at, slot)| {
                slot.is_there(now_us) && wanted.is_met_by_slot(&at.1, slot) && is_behind(at)
            })
            .collect();
        // They are in the order of time already.
        found.sort_by(|(a, _), (b, _)| query.order.compare(a, b));
        let rows = found.iter().take(max);
        let rows = rows.map(|(at, slot)| Row::of(&at.1, slot));
        (rows.collect(), found.len())
    }

    /// What entries that have not expired have in common.
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

    /// Contents of all entries, the newest first.
    pub(crate) fn contents_by_time(&self) -> impl Iterator<Item = ContentHash> {
        self.slots.values().map(|slot| slot.hash)
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
            references: self.names.len() - self.stored,
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
        let pictures = self.slots.iter().filter(|(_, slot)| slot.is_picture());
        let queue = pictures.map(|((_, name), slot)| (slot.number, name.clone()));
        self.queue = Some(queue.collect());
    }

    /// Queues the pictures with this content again, if pictures are queued.
    pub(crate) fn queue_content(&mut self, hash: &ContentHash) {
        let same = |slot: &Slot| slot.is_picture() && slot.hash == *hash;
        if let Some(queue) = &mut self.queue {
            let pictures = self.slots.iter().filter(|(_, slot)| same(slot));
            queue.extend(pictures.map(|((_, name), slot)| (slot.number, name.clone())));
        }
    }

    /// Takes the pictures from the queue whose content is among these.
    pub(crate) fn unqueue(&mut self, is_done: impl Fn(&ContentHash) -> bool) {
        let Some(mut queue) = self.queue.take() else {
            return;
        };
        queue.retain(|_, name| self.slot(name).is_some_and(|slot| !is_done(&slot.hash)));
        self.queue = Some(queue);
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
            .map(|(number, name)| (*number, name.clone()))
            .collect()
    }

    pub(crate) fn queue_length(&self) -> usize {
        self.queue.as_ref().map_or(0, BTreeMap::len)
    }

    /// Names of a collection, in order.
    pub(crate) fn in_collection<'a>(
        &'a self,
        collection: &'a str,
    ) -> impl Iterator<Item = (&'a EntryName, &'a Slot)> {
        // `0` is the smallest name: no accepted character comes before the digits at its begin.
        let first = EntryName::new(collection, "0").unwrap_or_else(|_| EntryName::before_all());
        let entries = self.by_name(Bound::Included(first));
        entries.take_while(move |(name, _)| name.collection() == collection)
    }

    /// At most `max` stored entries behind a name, in order: name, content and bytes.
    pub(crate) fn stored_from(
        &self,
        from: Bound<&EntryName>,
        max: usize,
    ) -> Vec<(EntryName, ContentHash, u64)> {
        let stored = self
            .by_name(from.cloned())
            .filter(|(_, slot)| slot.is_stored);
        let stored = stored.take(max);
        stored
            .map(|(name, slot)| (name.clone(), slot.hash, slot.bytes))
            .collect()
    }

    /// Names of all collections with their numbers of entries.
    pub(crate) fn collections(&self) -> impl Iterator<Item = (String, u64)> {
        let collections = self.collections.iter();
        collections.map(|(name, count)| (name.to_string(), *count))
    }

    /// Adds or replaces an entry. Returns the content that lost its last entry.
    pub(crate) fn put(&mut self, place: Place, mut slot: Slot) -> Option<ContentHash> {
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
        let name = place.1.clone();
        let dropped = self.remove(&name);
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
            order.insert(slot.number, name.clone());
            if let Some(at) = slot.expires_us {
                self.expiring.insert((at, name.clone()));
            }
        }
        if slot.is_picture() {
            *self.pictures.entry(slot.hash).or_default() += 1;
            if let Some(queue) = &mut self.queue {
                queue.insert(slot.number, name.clone());
            }
        }
        add(&mut self.collections, name.collection().into());
        slot.facts = add(&mut self.facts, slot.facts);
        let room = self.max_details_bytes - self.details_bytes;
        slot.details = slot.details.filter(|details| details.bytes() <= room);
        match &slot.details {
            Some(details) => self.details_bytes += details.bytes(),
            None => self.without_details += 1,
        }
        self.names.insert(name, place.0);
        self.slots.insert(place, slot);
        dropped
    }

    /// Removes an entry. Returns its content if that was the last entry of it.
    pub(crate) fn remove(&mut self, name: &EntryName) -> Option<ContentHash> {
        let slot = self
            .slots
            .remove(&(self.names.remove(name)?, name.clone()))?;
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
