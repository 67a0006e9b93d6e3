//! What is stored, in memory: names, sizes, order, uses of contents. Sans-IO.
//!
//! - It holds what was committed; a change is planned first, and applied after its commit.
//! - Content that several entries share counts once.
//! - Stored entries and references are counted and ordered apart: no reference evicts a content.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use crate::entry::{Content, Entry, Retention, is_picture};
use crate::hash::ContentHash;
use crate::name::EntryName;

/// What the index keeps of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) number: u64,
    pub(crate) hash: ContentHash,
    pub(crate) bytes: u64,
    /// Bytes of its record.
    pub(crate) record_bytes: u64,
    pub(crate) is_stored: bool,
    pub(crate) is_protected: bool,
    /// A JPEG or PNG file, by its MIME type.
    pub(crate) is_picture: bool,
    /// Microseconds since 1970.
    pub(crate) expires_us: Option<i64>,
}

impl Slot {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            number: entry.number,
            hash: entry.sha256,
            bytes: entry.bytes,
            record_bytes: entry.record_bytes(),
            is_stored: entry.content == Content::Stored,
            is_protected: entry.retention == Retention::Protected,
            is_picture: is_picture(&entry.content_type),
            expires_us: entry.expires.map(|at| at.as_microsecond()),
        }
    }

    /// Whether its time to live has not passed.
    pub(crate) fn is_there(&self, now_us: i64) -> bool {
        self.is_protected || self.expires_us.is_none_or(|at| at > now_us)
    }
}

/// A content and the number of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlobUse {
    pub(crate) bytes: u64,
    pub(crate) uses: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Index {
    slots: BTreeMap<EntryName, Slot>,
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
        self.slots.get(name)
    }

    /// All entries, in the order of names.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (&EntryName, &Slot)> {
        self.slots.iter()
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
            references: self.slots.len() - self.stored,
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
        let pictures = self.slots.iter().filter(|(_, slot)| slot.is_picture);
        let queue = pictures.map(|(name, slot)| (slot.number, name.clone()));
        self.queue = Some(queue.collect());
        self.slots.values().map(|slot| slot.hash).collect()
    }

    /// Queues the pictures with this content again, if pictures are queued.
    pub(crate) fn queue_content(&mut self, hash: &ContentHash) {
        let same = |slot: &Slot| slot.is_picture && slot.hash == *hash;
        if let Some(queue) = &mut self.queue {
            let pictures = self.slots.iter().filter(|(_, slot)| same(slot));
            queue.extend(pictures.map(|(name, slot)| (slot.number, name.clone())));
        }
    }

    /// Takes the pictures from the queue whose content is among these.
    pub(crate) fn unqueue(&mut self, is_done: impl Fn(&ContentHash) -> bool) {
        let slots = &self.slots;
        if let Some(queue) = &mut self.queue {
            queue.retain(|_, name| slots.get(name).is_some_and(|slot| !is_done(&slot.hash)));
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
        let first = EntryName::new(collection, "0").ok();
        // `0` is the smallest name: no accepted character comes before the digits at its begin.
        let from = first.map_or(Bound::Unbounded, Bound::Included);
        let range = self.slots.range((from, Bound::Unbounded));
        range.take_while(move |(name, _)| name.collection() == collection)
    }

    /// At most `max` stored entries behind a name, in order: name, content and bytes.
    pub(crate) fn stored_from(
        &self,
        from: Bound<&EntryName>,
        max: usize,
    ) -> Vec<(EntryName, ContentHash, u64)> {
        let range = self.slots.range((from, Bound::Unbounded));
        let stored = range.filter(|(_, slot)| slot.is_stored).take(max);
        stored
            .map(|(name, slot)| (name.clone(), slot.hash, slot.bytes))
            .collect()
    }

    /// Names of all collections with their numbers of entries.
    pub(crate) fn collections(&self) -> BTreeMap<String, u64> {
        let mut found = BTreeMap::new();
        for name in self.slots.keys() {
            match found.get_mut(name.collection()) {
                Some(count) => *count += 1,
                None => {
                    found.insert(name.collection().to_owned(), 1);
                }
            }
        }
        found
    }

    /// Adds or replaces an entry. Returns the content that lost its last entry.
    pub(crate) fn put(&mut self, name: EntryName, slot: Slot) -> Option<ContentHash> {
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
            && slot.is_picture
        {
            queue.insert(slot.number, name.clone());
        }
        self.slots.insert(name, slot);
        dropped
    }

    /// Removes an entry. Returns its content if that was the last entry of it.
    pub(crate) fn remove(&mut self, name: &EntryName) -> Option<ContentHash> {
        let slot = self.slots.remove(name)?;
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
