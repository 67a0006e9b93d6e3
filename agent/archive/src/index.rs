//! What is stored, in memory: names, sizes, order, uses of contents, and what most queries ask.
//! Sans-IO.
//!
//! - It holds what was committed; a change is planned first, and applied after its commit.
//! - It is made from the records at each start, so it can't differ from them.
//! - Content that several entries share counts once. A camera's name is in memory once.
//! - Stored entries and references are counted and ordered apart: no reference evicts a content.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::hash::ContentHash;
use crate::name::EntryName;
use crate::query::Conditions;
use crate::slot::{Place, Slot, before_epoch};

/// A content and the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobUse {
    pub(crate) bytes: u64,
    pub(crate) uses: u64,
}

/// Texts of entries with the number of their uses; each is in memory once.
#[derive(Debug, Default)]
pub(crate) struct Texts(BTreeMap<Arc<str>, u64>);

impl Texts {
    fn add(&mut self, text: Arc<str>) -> Arc<str> {
        let entry = self.0.entry(text);
        let known = Arc::clone(entry.key());
        *entry.or_insert(0) += 1;
        known
    }

    fn remove(&mut self, text: &str) {
        if let Some(uses) = self.0.get_mut(text) {
            *uses -= 1;
            if *uses == 0 {
                self.0.remove(text);
            }
        }
    }

    /// The texts in order, with their uses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        self.0.iter().map(|(text, uses)| (text.to_string(), *uses))
    }
}

/// An entry that a query selects.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: EntryName,
    pub(crate) number: u64,
    pub(crate) hash: ContentHash,
}

impl Row {
    pub(crate) fn of(name: &EntryName, slot: &Slot) -> Self {
        Self {
            name: name.clone(),
            number: slot.number,
            hash: slot.hash,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// All entries, the newest first.
    slots: BTreeMap<Place, Slot>,
    /// The time of each in `slots`.
    names: BTreeMap<EntryName, i128>,
    collections: Texts,
    /// Cameras, classes, zones and events.
    facts: [Texts; 4],
    content_types: Texts,
    blobs: HashMap<ContentHash, BlobUse>,
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
    pub(crate) fn slot(&self, name: &EntryName) -> Option<&Slot> {
        self.slots.get(&(*self.names.get(name)?, name.clone()))
    }

    /// All entries, in the order of names.
    fn by_name(&self, from: Bound<EntryName>) -> impl Iterator<Item = (&EntryName, &Slot)> {
        let names = self.names.range((from, Bound::Unbounded));
        names.filter_map(|(name, at)| Some((name, self.slots.get(&(*at, name.clone()))?)))
    }

    /// At most `max` entries that fulfil the conditions on slots, in the order of the query behind
    /// `begin`; and how many do.
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

    /// Cameras, classes, zones and events of entries, in lower case.
    pub(crate) fn facts(&self) -> &[Texts; 4] {
        &self.facts
    }

    pub(crate) fn blob(&self, hash: &ContentHash) -> Option<BlobUse> {
        self.blobs.get(hash).copied()
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

    /// Queues all pictures for an embedding, and further ones as they come. Returns the contents
    /// of all entries.
    pub(crate) fn queue_pictures(&mut self) -> BTreeSet<ContentHash> {
        let pictures = self.slots.iter().filter(|(_, slot)| slot.is_picture());
        let queue = pictures.map(|((_, name), slot)| (slot.number, name.clone()));
        self.queue = Some(queue.collect());
        self.slots.values().map(|slot| slot.hash).collect()
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

    /// Names of all collections.
    pub(crate) fn collections(&self) -> &Texts {
        &self.collections
    }

    /// Adds or replaces an entry. Returns the content that lost its last entry.
    pub(crate) fn put(&mut self, name: EntryName, mut slot: Slot) -> Option<ContentHash> {
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
        if let Some(queue) = &mut self.queue
            && slot.is_picture()
        {
            queue.insert(slot.number, name.clone());
        }
        self.collections.add(name.collection().into());
        slot.content_type = self.content_types.add(slot.content_type);
        for (fact, texts) in slot.facts.iter_mut().zip(&mut self.facts) {
            *fact = fact.take().map(|text| texts.add(text));
        }
        self.names.insert(name.clone(), slot.before_epoch);
        self.slots.insert((slot.before_epoch, name), slot);
        dropped
    }

    /// Removes an entry. Returns its content if that was the last entry of it.
    pub(crate) fn remove(&mut self, name: &EntryName) -> Option<ContentHash> {
        let slot = self
            .slots
            .remove(&(self.names.remove(name)?, name.clone()))?;
        self.collections.remove(name.collection());
        self.content_types.remove(&slot.content_type);
        for (fact, texts) in slot.facts.iter().zip(&mut self.facts) {
            fact.iter().for_each(|text| texts.remove(text));
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
