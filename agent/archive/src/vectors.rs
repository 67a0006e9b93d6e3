//! Embeddings as records of the store, and those of one model in memory.
//!
//! - Memory has what the records have, up to [`MAX_BYTES`]; the others are read at each query.
//! - A load is once for each model; changes of embeddings and queries by likeness wait for it.
//! - The embedding of a content goes with its last picture. It leaves the records in the same
//!   batch, and then memory, whether or not the sync succeeds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde::{Deserialize, Serialize};
use watchkeeper_pictures::likeness::dot;
use watchkeeper_store::{Store, StoreError, pages};

use crate::ContentHash;
use crate::on_disk::EMBEDDINGS;
use crate::slot::Slot;

/// Most numbers of an embedding.
pub(crate) const MAX_EMBEDDING: usize = 2_048;
/// Records that are read at a time.
const PAGE: usize = 1_000;
/// Most bytes of numbers in memory: those of 200,000 pictures with 640 numbers.
const MAX_BYTES: usize = 128 << 20;
/// Entries that are compared while changes of embeddings wait.
const SLOTS: usize = 4_096;

/// Begin of a record of the store: JSON on one line. After it come the numbers of the embedding, a
/// byte each, from -127 to 127; the largest is one of these.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

impl Record {
    /// Makes the payload of a record, with an embedding or without one.
    pub(crate) fn encode(&self, vector: Option<&Packed>) -> Vec<u8> {
        // Plain data: serde_json can't fail on it.
        let mut payload = serde_json::to_vec(self).unwrap_or_default();
        payload.push(b'\n');
        let numbers = vector.iter().flat_map(|vector| &*vector.numbers);
        payload.extend(numbers.map(|number| (*number as i8).cast_unsigned()));
        payload
    }
}

/// Reads a record and its numbers; `None` for one of another version.
pub(crate) fn read(record: &[u8]) -> Option<(Record, &[u8])> {
    let end = record.iter().position(|byte| *byte == b'\n')?;
    let head = serde_json::from_slice(record.get(..end)?).ok()?;
    Some((head, record.get(end + 1..)?))
}

/// Reads the numbers of a record; `None` without an embedding of this model.
fn numbers_of<'r>(record: &'r [u8], digest: &str) -> Option<&'r [u8]> {
    let (head, numbers) = read(record)?;
    let is_good = head.digest == digest && (1..=MAX_EMBEDDING).contains(&numbers.len());
    is_good.then_some(numbers)
}

/// Sum of the squares of the numbers of a record; of [`MAX_EMBEDDING`] it fits 32 bits.
fn squares(numbers: &[u8]) -> i32 {
    let square = |number: &u8| i32::from(number.cast_signed()).pow(2);
    numbers.iter().map(square).sum()
}

/// A vector with numbers from -127 to 127: the angle differs from that of its origin by less than a
/// degree.
#[derive(Debug)]
pub(crate) struct Packed {
    numbers: Box<[i16]>,
    squares: i32,
}

impl Packed {
    /// Scales the largest number to 127 and rounds.
    pub(crate) fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = if largest > 0.0 { 127.0 / largest } else { 0.0 };
        let numbers = vector.iter().map(|x| (x * scale).round() as i16);
        let numbers: Box<[i16]> = numbers.collect();
        let squares = numbers.iter().map(|x| i32::from(*x).pow(2)).sum();
        Self { numbers, squares }
    }

    /// Cosine of the angle to the numbers of a record with this sum of squares; `None` if one
    /// vector has no direction, or another length.
    fn cosine(&self, numbers: &[u8], squares: i32) -> Option<f64> {
        let scale = (f64::from(self.squares) * f64::from(squares)).sqrt();
        let is_good = self.numbers.len() == numbers.len() && scale > 0.0;
        is_good.then(|| f64::from(dot(&self.numbers, numbers)) / scale)
    }
}

/// Reads the numbers of a record.
pub(crate) fn unpack(numbers: &[u8]) -> Vec<f32> {
    let numbers = numbers.iter().map(|byte| byte.cast_signed());
    numbers.map(f32::from).collect()
}

/// An entry with its likeness, -1 to 1.
pub(crate) type Ranked = (f64, Arc<Slot>);

/// Embeddings of one model, by content.
#[derive(Debug)]
pub(crate) struct Vectors {
    digest: String,
    /// Numbers of each embedding, with the sum of their squares.
    known: HashMap<ContentHash, (Box<[u8]>, i32)>,
    /// Of all numbers.
    bytes: usize,
    max_bytes: usize,
    /// Whether no record has another one.
    is_whole: bool,
}

impl Vectors {
    /// Reads all embeddings of a model, up to so many bytes.
    ///
    /// # Errors
    /// If the store can't be read.
    fn load(store: &dyn Store, digest: &str, max_bytes: usize) -> Result<Self, StoreError> {
        let mut all = Self {
            digest: digest.to_owned(),
            known: HashMap::new(),
            bytes: 0,
            max_bytes,
            is_whole: true,
        };
        for page in pages(store, EMBEDDINGS, PAGE) {
            for record in page?.entries {
                if let Some(hash) = ContentHash::from_bytes(&record.key) {
                    all.follow(hash, Some(&record.value));
                }
            }
        }
        Ok(all)
    }

    fn is_of(&self, digest: &str) -> bool {
        self.digest == digest
    }

    /// Follows the record of a content that was written, or deleted where `record` is absent.
    fn follow(&mut self, hash: ContentHash, record: Option<&[u8]>) {
        if let Some((numbers, _)) = self.known.remove(&hash) {
            self.bytes -= numbers.len();
        }
        let Some(numbers) = record.and_then(|record| numbers_of(record, &self.digest)) else {
            return;
        };
        let bytes = self.bytes + numbers.len();
        if bytes > self.max_bytes {
            self.is_whole = false;
            return;
        }
        self.bytes = bytes;
        self.known.insert(hash, (numbers.into(), squares(numbers)));
    }

    /// Compares contents in memory; `unknown` gets the slots whose records may have an embedding.
    fn compare(
        &self,
        slots: impl Iterator<Item = Arc<Slot>>,
        own: &Packed,
        found: &mut Vec<(f64, Arc<Slot>)>,
        unknown: &mut Vec<Arc<Slot>>,
    ) {
        for slot in slots {
            match self.known.get(&slot.hash) {
                Some((numbers, squares)) => {
                    let likeness = own.cosine(numbers, *squares);
                    found.extend(likeness.map(|likeness| (likeness, slot)));
                }
                None if self.is_whole => {}
                None => unknown.push(slot),
            }
        }
    }
}

/// The embeddings of one model in memory, loaded by the first query by likeness.
#[derive(Debug, Default)]
pub(crate) struct VectorCache(RwLock<Option<Vectors>>);

impl VectorCache {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Option<Vectors>> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Option<Vectors>> {
        self.0.write()
    }

    /// Follows a record that was written, or deleted where `record` is absent.
    pub(crate) fn follow(&self, hash: ContentHash, record: Option<&[u8]>) {
        if let Some(known) = &mut *self.write() {
            known.follow(hash, record);
        }
    }

    /// Loads the embeddings of a model, unless they are there.
    ///
    /// # Errors
    /// If the store can't be read.
    pub(crate) fn load(&self, store: &dyn Store, digest: &str) -> Result<(), StoreError> {
        let is_loaded = |known: &Option<Vectors>| known.as_ref().is_some_and(|k| k.is_of(digest));
        if is_loaded(&self.read()) {
            return Ok(());
        }
        let mut known = self.write();
        if !is_loaded(&known) {
            *known = Some(Vectors::load(store, digest, MAX_BYTES)?);
        }
        Ok(())
    }

    /// Compares slots with `own`, a vector of the model with this digest. Returns their likeness,
    /// and the slots whose records may have an embedding.
    pub(crate) fn compare(
        &self,
        digest: &str,
        slots: Vec<Arc<Slot>>,
        own: &Packed,
    ) -> (Vec<Ranked>, Vec<Arc<Slot>>) {
        let (mut found, mut unknown) = (Vec::with_capacity(slots.len()), Vec::new());
        let mut slots = slots.into_iter().peekable();
        while slots.peek().is_some() {
            let some = slots.by_ref().take(SLOTS);
            // Released after each part: a change waits for one part and not for all.
            match self.read().as_ref().filter(|known| known.is_of(digest)) {
                Some(known) => known.compare(some, own, &mut found, &mut unknown),
                None => unknown.extend(some),
            }
        }
        (found, unknown)
    }
}

/// Compares contents by their records; one without an embedding of the model is left out.
/// `by_pages`: reads the records of all contents, for many slots.
///
/// # Errors
/// If the store can't be read.
pub(crate) fn compare_records(
    store: &dyn Store,
    digest: &str,
    slots: Vec<Arc<Slot>>,
    own: &Packed,
    by_pages: bool,
) -> Result<Vec<(f64, Arc<Slot>)>, StoreError> {
    let likeness = |record: &[u8]| {
        let numbers = numbers_of(record, digest)?;
        own.cosine(numbers, squares(numbers))
    };
    let mut known = HashMap::new();
    if by_pages {
        let wanted: HashSet<ContentHash> = slots.iter().map(|slot| slot.hash).collect();
        for page in pages(store, EMBEDDINGS, PAGE) {
            for record in page?.entries {
                let hash =
                    ContentHash::from_bytes(&record.key).filter(|hash| wanted.contains(hash));
                known.extend(hash.and_then(|hash| Some((hash, likeness(&record.value)?))));
            }
        }
    } else {
        for slot in &slots {
            let record = match store.get(EMBEDDINGS, &slot.hash.0) {
                Err(StoreError::Corrupt { .. }) => None,
                read => read?,
            };
            known.extend(record.and_then(|record| Some((slot.hash, likeness(&record)?))));
        }
    }
    let known = |slot: Arc<Slot>| Some((*known.get(&slot.hash)?, slot));
    Ok(slots.into_iter().filter_map(known).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use watchkeeper_pictures::likeness::cosine;
    use watchkeeper_store::{Batch, FaultyStore, MemoryStore};

    use super::*;
    use crate::entry::{Content, NewEntry};
    use crate::name::EntryName;

    /// The numbers of a vector in its record.
    fn kept(vector: &[f32]) -> Vec<u8> {
        let record = Record {
            digest: "d".to_owned(),
            refused: None,
        };
        let record = record.encode(Some(&Packed::of(vector)));
        numbers_of(&record, "d").unwrap().to_vec()
    }

    fn slots(number: u8) -> Vec<Arc<Slot>> {
        let slot = |content: u8| {
            let name = EntryName::new("yard", &content.to_string()).unwrap();
            let content_of = (ContentHash::of(&[content]), 1);
            let (number, now) = (u64::from(content), Timestamp::UNIX_EPOCH);
            let entry = NewEntry::named(name).into_entry(content_of, Content::Stored, number, now);
            Arc::new(Slot::of(&entry))
        };
        (0..number).map(slot).collect()
    }

    #[test]
    fn records_of_many_contents_are_read_by_pages() {
        let (store, own) = (
            FaultyStore::new(MemoryStore::new()),
            Packed::of(&[1.0, 0.5]),
        );
        let record = Record {
            digest: "d".to_owned(),
            refused: None,
        };
        let record = record.encode(Some(&own));
        for slot in slots(20) {
            let batch = Batch::new().put(EMBEDDINGS, &slot.hash.0, &record);
            store.write(batch).unwrap();
        }
        store.reads.blow_at(3);
        let found = compare_records(&store, "d", slots(20), &own, true).unwrap();
        assert_eq!(found.len(), 20);
    }

    proptest! {
        #[test]
        fn kept_direction_differs_by_less_than_a_degree(
            vector in prop::collection::vec(-1.0_f32..1.0, 2..2048),
        ) {
            prop_assume!(vector.iter().any(|x| x.abs() > 1e-3));
            let kept = kept(&vector);
            prop_assert!(cosine(&vector, &unpack(&kept)).unwrap() > 0.99985);
            let turned: Vec<f32> = vector.iter().rev().copied().collect();
            let expected = cosine(&unpack(&self::kept(&turned)), &unpack(&kept)).unwrap();
            let found = Packed::of(&turned).cosine(&kept, squares(&kept)).unwrap();
            prop_assert!((found - expected).abs() < 1e-9);
        }

        #[test]
        fn order_of_likeness_is_kept_where_it_is_clear(
            vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 64), 3..12),
        ) {
            let of = |one: &[f32], other: &[f32]| cosine(one, other).unwrap_or(0.0);
            let kept: Vec<_> = vectors.iter().map(|v| unpack(&kept(v))).collect();
            let (first, rest) = vectors.split_first().unwrap();
            for (a, kept_a) in rest.iter().zip(&kept[1..]) {
                for (b, kept_b) in rest.iter().zip(&kept[1..]) {
                    if of(first, a) > of(first, b) + 0.02 {
                        prop_assert!(of(&kept[0], kept_a) > of(&kept[0], kept_b));
                    }
                }
            }
        }

        #[test]
        fn vectors_without_room_in_memory_are_read(
            changes in prop::collection::vec((0..12_u8, prop::option::of(1..4_usize)), 1..40),
            loaded_at in 0..40_usize,
            max in 0..12_usize,
        ) {
            let (store, own) = (MemoryStore::new(), Packed::of(&[1.0, 0.5]));
            let mut vectors = None;
            for (n, (content, numbers)) in changes.iter().enumerate() {
                if n == loaded_at {
                    vectors = Some(Vectors::load(&store, "d", max).unwrap());
                }
                let hash = ContentHash::of(&[*content]);
                let digest = ["d", "other"][usize::from(n % 5 == 0)].to_owned();
                let record = Record { digest, refused: None };
                if numbers == &Some(3) {
                    store.write(Batch::new().delete(EMBEDDINGS, &hash.0)).unwrap();
                    vectors.iter_mut().for_each(|all| all.follow(hash, None));
                    continue;
                }
                let vector = numbers.map(|numbers| {
                    Packed::of(&[n as f32 + 1.0, 7.0, 3.0][..numbers])
                });
                let record = record.encode(vector.as_ref());
                store.write(Batch::new().put(EMBEDDINGS, &hash.0, &record)).unwrap();
                vectors.iter_mut().for_each(|all| all.follow(hash, Some(&record)));
            }
            let loaded = || Vectors::load(&store, "d", max).unwrap();
            let changed = vectors.unwrap_or_else(loaded);
            prop_assert!(changed.bytes <= max);
            let sorted = |mut found: Vec<(f64, Arc<Slot>)>| {
                found.sort_by_key(|(_, slot)| slot.number);
                let found = found.into_iter().map(|(likeness, slot)| (likeness, slot.number));
                found.collect::<Vec<_>>()
            };
            let expected = sorted(compare_records(&store, "d", slots(12), &own, true).unwrap());
            for by_pages in [false, true] {
                let (mut found, mut unknown) = (Vec::new(), Vec::new());
                changed.compare(slots(12).into_iter(), &own, &mut found, &mut unknown);
                found.extend(compare_records(&store, "d", unknown, &own, by_pages).unwrap());
                prop_assert_eq!(sorted(found), expected.clone());
            }
        }
    }
}
