//! Embeddings of pictures, beside their entries. Everything here blocks.
//!
//! - One embedding for each content, by its SHA-256: entries that share a content share it.
//! - It names its model and the digest of that; only embeddings of one digest are compared. A new
//!   model's replaces it.
//! - A picture without one waits. What waits is found by comparing entries and embeddings, so a
//!   crash loses nothing; the queue is a list of names, no longer than that of the entries.
//! - A picture that the model refuses is recorded with the reason, and asked again of another
//!   model only. One that can't be read has no record: it waits again once it is repaired, and each
//!   time that the queue is made.
//! - Not here: models, and when they are asked.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use watchkeeper_pictures::likeness::cosine;
use watchkeeper_store::{Batch, StoreError, pages};

use crate::durable::Durable;
use crate::entry::{Entry, MAX_EMBEDDING, is_picture};
use crate::error::ArchiveError;
use crate::hash::ContentHash;
use crate::index::Row;
use crate::on_disk::EMBEDDINGS;

/// Records that are read or deleted at a time.
const PAGE: usize = 1_000;
/// Longest kept reason of a refusal, in characters.
const MAX_WHY: usize = 300;

/// Result of a model for one content.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbeddingOutcome {
    /// Its embedding, at most [`MAX_EMBEDDING`] numbers, kept as bytes: only the direction matters.
    Vector(Vec<f32>),
    /// The model can't make one, and why.
    Refused(String),
}

/// The vector that entries are compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryVector {
    /// Digest of the model; `None` for a vector that an ingest brought.
    pub digest: Option<String>,
    pub vector: Vec<f32>,
}

/// Begin of a record of the store: JSON on one line. Behind it stand the numbers of the embedding,
/// a byte each, from -127 to 127; the largest is one of these.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    model: String,
    pub(crate) digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Separates a record into its first line and its numbers; `None` for one of another version.
fn split(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = record.iter().position(|byte| *byte == b'\n')?;
    Some((record.get(..end)?, record.get(end + 1..)?))
}

fn read(record: &[u8]) -> Option<(Record, &[u8])> {
    let (head, numbers) = split(record)?;
    Some((serde_json::from_slice(head).ok()?, numbers))
}

/// Counts of embeddings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EmbeddingStats {
    /// Model that makes them; absent until it was found.
    pub model: Option<String>,
    /// Pictures that still wait for one.
    pub waiting: u64,
    /// Embeddings made since the start.
    pub made: u64,
    /// Pictures refused by the model since the start.
    pub refused: u64,
    /// Why pictures wait: what is missing or away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl QueryVector {
    /// Returns entries with their likeness, -1 to 1; one without an embedding of this model is left
    /// out. Without a digest embeddings that ingests brought are compared.
    pub(crate) fn compare(
        &self,
        durable: &Durable,
        rows: Vec<Row>,
        now: Timestamp,
    ) -> Result<Vec<(f64, Row)>, ArchiveError> {
        let mut found = Vec::new();
        match &self.digest {
            Some(digest) => {
                let known = self.likenesses(durable, digest, &rows)?;
                let known = |row: Row| Some((*known.get(&row.hash)?, row));
                found.extend(rows.into_iter().filter_map(known));
            }
            None => {
                let mut known = HashMap::new();
                durable.visit(&rows, now, |entry| {
                    let own = cosine(&self.vector, &entry.metadata.embedding);
                    known.extend(own.map(|likeness| (entry.number, likeness)));
                })?;
                let known = |row: Row| Some((*known.get(&row.number)?, row));
                found.extend(rows.into_iter().filter_map(known));
            }
        }
        Ok(found)
    }

    /// Returns the likeness of contents that have an embedding of the model. Reads all embeddings
    /// only if many entries are compared.
    fn likenesses(
        &self,
        durable: &Durable,
        digest: &str,
        rows: &[Row],
    ) -> Result<HashMap<ContentHash, f64>, ArchiveError> {
        let own = pack(&self.vector);
        let mut found = HashMap::new();
        // Records of one model have the same first line.
        let (mut last, mut is_same_model) = (Vec::new(), false);
        let mut add = |hash: Option<ContentHash>, record: &[u8]| {
            let (head, numbers) = split(record)?;
            if head != last {
                is_same_model = read(record).is_some_and(|(known, _)| known.digest == digest);
                last = head.to_vec();
            }
            let likeness = packed_cosine(&own, numbers).filter(|_| is_same_model)?;
            found.insert(hash?, likeness)
        };
        if durable.are_few(rows) {
            for row in rows {
                let record = match durable.store().get(EMBEDDINGS, row.hash.bytes()) {
                    Err(StoreError::Corrupt { .. }) => None,
                    read => read?,
                };
                record.and_then(|record| add(Some(row.hash), &record));
            }
        } else {
            for page in pages(durable.store(), EMBEDDINGS, PAGE) {
                for record in page?.entries {
                    add(ContentHash::from_bytes(&record.key), &record.value);
                }
            }
        }
        Ok(found)
    }

    /// Returns the vector of an entry: that of a model, or else what its ingest brought.
    pub(crate) fn of_entry(entry: &Entry, durable: &Durable) -> Result<Self, ArchiveError> {
        let stored = durable.store().get(EMBEDDINGS, entry.sha256.bytes())?;
        let (record, numbers) = stored.as_deref().and_then(read).unzip();
        let refused = record.as_ref().and_then(|record| record.refused.clone());
        let of_model = record.zip(numbers.filter(|numbers| !numbers.is_empty()));
        let of_model = of_model.map(|(record, numbers)| Self {
            digest: Some(record.digest),
            vector: unpack(numbers),
        });
        let own = entry.metadata.embedding.clone();
        let own = (!own.is_empty()).then_some(Self {
            digest: None,
            vector: own,
        });
        of_model.or(own).ok_or_else(|| {
            let name = &entry.name;
            match refused {
                Some(why) => ArchiveError::Refused(format!("{name} has no embedding: {why}")),
                None if !is_picture(&entry.content_type) => ArchiveError::Refused(format!(
                    "{name} is no JPEG or PNG picture, so it has no embedding"
                )),
                None => ArchiveError::NoEmbedding(name.clone()),
            }
        })
    }
}

impl Durable {
    pub(crate) fn record(&self, hash: &ContentHash) -> Result<Option<Record>, ArchiveError> {
        let stored = self.store().get(EMBEDDINGS, hash.bytes())?;
        // One of another version counts as absent.
        Ok(stored.and_then(|bytes| Some(read(&bytes)?.0)))
    }

    /// Begins to queue pictures without an embedding of this model; drops those of contents that no
    /// entry has.
    pub(crate) fn begin_embedding(&self, digest: &str) -> Result<(), ArchiveError> {
        let used = self.index().queue_pictures();
        let mut done = BTreeSet::new();
        let mut unused = Vec::new();
        for page in pages(self.store(), EMBEDDINGS, PAGE) {
            for record in page?.entries {
                let hash = ContentHash::from_bytes(&record.key);
                match hash.filter(|hash| used.contains(hash)) {
                    None => unused.push(record.key),
                    Some(hash) => {
                        let known = read(&record.value);
                        if known.is_some_and(|(known, _)| known.digest == digest) {
                            done.insert(hash);
                        }
                    }
                }
            }
        }
        self.index().unqueue(|hash| done.contains(hash));
        for part in unused.chunks(PAGE) {
            let batch = part
                .iter()
                .fold(Batch::new(), |all, key| all.delete(EMBEDDINGS, key));
            self.store().write(batch)?;
        }
        Ok(())
    }

    pub(crate) fn put_outcome(
        &self,
        hash: &ContentHash,
        (model, digest): (&str, &str),
        outcome: &EmbeddingOutcome,
    ) -> Result<(), ArchiveError> {
        use EmbeddingOutcome as O;
        let (numbers, refused) = match outcome {
            O::Vector(vector) if vector.len() > MAX_EMBEDDING => {
                let why = format!("{} numbers are more than {MAX_EMBEDDING}", vector.len());
                (Vec::new(), Some(why))
            }
            O::Vector(vector) => (pack(vector), None),
            O::Refused(why) => (Vec::new(), Some(why.chars().take(MAX_WHY).collect())),
        };
        let record = Record {
            model: model.to_owned(),
            digest: digest.to_owned(),
            refused,
        };
        // Plain data: serde_json can't fail on it.
        let mut value = serde_json::to_vec(&record).unwrap_or_default();
        value.push(b'\n');
        value.extend(numbers);
        let batch = Batch::new().put(EMBEDDINGS, hash.bytes(), &value);
        // Without a sync: what a crash takes is computed again.
        self.store().write(batch)?;
        Ok(())
    }
}

/// Scales the largest number to 127 and rounds: the angle changes by less than a degree.
fn pack(vector: &[f32]) -> Vec<u8> {
    let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    let packed = vector.iter().map(|x| (x * scale).round() as i8);
    packed.map(i8::cast_unsigned).collect()
}

fn unpack(numbers: &[u8]) -> Vec<f32> {
    let numbers = numbers.iter().map(|byte| byte.cast_signed());
    numbers.map(f32::from).collect()
}

/// Cosine of two packed vectors; `None` as for [`cosine`].
fn packed_cosine(a: &[u8], b: &[u8]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    // MAX_EMBEDDING products of 127 x 127 fit 32 bits.
    let (mut product, mut squares_a, mut squares_b) = (0, 0, 0);
    for (a, b) in a.iter().zip(b) {
        let [a, b] = [a, b].map(|byte| i32::from(byte.cast_signed()));
        product += a * b;
        squares_a += a * a;
        squares_b += b * b;
    }
    let scale = (f64::from(squares_a) * f64::from(squares_b)).sqrt();
    (scale > 0.0).then(|| f64::from(product) / scale)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn kept_direction_differs_by_less_than_a_degree(
            vector in prop::collection::vec(-1.0_f32..1.0, 2..2048),
        ) {
            prop_assume!(vector.iter().any(|x| x.abs() > 1e-3));
            let kept = unpack(&pack(&vector));
            prop_assert!(cosine(&vector, &kept).unwrap() > 0.99985);
            let turned: Vec<f32> = vector.iter().rev().copied().collect();
            let packed = packed_cosine(&pack(&vector), &pack(&turned)).unwrap();
            let expected = cosine(&kept, &unpack(&pack(&turned))).unwrap();
            prop_assert!((packed - expected).abs() < 1e-9);
        }

        #[test]
        fn order_of_likeness_is_kept_where_it_is_clear(
            vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 64), 3..12),
        ) {
            let of = |one: &[f32], other: &[f32]| cosine(one, other).unwrap_or(0.0);
            let kept: Vec<_> = vectors.iter().map(|v| unpack(&pack(v))).collect();
            let (first, rest) = vectors.split_first().unwrap();
            for (a, kept_a) in rest.iter().zip(&kept[1..]) {
                for (b, kept_b) in rest.iter().zip(&kept[1..]) {
                    if of(first, a) > of(first, b) + 0.02 {
                        prop_assert!(of(&kept[0], kept_a) > of(&kept[0], kept_b));
                    }
                }
            }
        }
    }
}
