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

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use watchkeeper_pictures::likeness::cosine;
use watchkeeper_store::{Batch, Op, pages};

use crate::durable::Durable;
use crate::entry::{Entry, MAX_EMBEDDING, is_picture};
use crate::error::ArchiveError;
use crate::hash::ContentHash;
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

/// A record of the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    model: String,
    pub(crate) digest: String,
    /// Numbers from -127 to 127 in base64; the largest is one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vector: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Counts of embeddings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// Returns the likeness of an entry, -1 to 1; `None` if it has no embedding of this model.
    pub(crate) fn likeness_of(
        &self,
        entry: &Entry,
        durable: &Durable,
    ) -> Result<Option<f64>, ArchiveError> {
        let Some(digest) = &self.digest else {
            return Ok(cosine(&self.vector, &entry.metadata.embedding));
        };
        let found = durable.record(&entry.sha256)?;
        let found = found.filter(|record| record.digest == *digest);
        let found = found.and_then(|record| unpack(record.vector.as_deref()?));
        Ok(found.and_then(|found| cosine(&self.vector, &found)))
    }

    /// Returns the vector of an entry: that of a model, or else what its ingest brought.
    pub(crate) fn of_entry(entry: &Entry, durable: &Durable) -> Result<Self, ArchiveError> {
        let record = durable.record(&entry.sha256)?;
        let refused = record.as_ref().and_then(|record| record.refused.clone());
        let of_model = record.and_then(|record| {
            let vector = unpack(record.vector.as_deref()?)?;
            let digest = Some(record.digest);
            Some(Self { digest, vector })
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
        // One of a newer version counts as absent.
        Ok(stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
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
                        let known = serde_json::from_slice::<Record>(&record.value).ok();
                        if known.is_some_and(|known| known.digest == digest) {
                            done.insert(hash);
                        }
                    }
                }
            }
        }
        self.index().unqueue(|hash| done.contains(hash));
        for part in unused.chunks(PAGE) {
            let mut batch = Batch::new();
            for key in part {
                let (keyspace, key) = (EMBEDDINGS, key.clone());
                batch.push(Op::Delete { keyspace, key });
            }
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
        let (vector, refused) = match outcome {
            O::Vector(vector) if vector.len() > MAX_EMBEDDING => {
                let why = format!("{} numbers are more than {MAX_EMBEDDING}", vector.len());
                (None, Some(why))
            }
            O::Vector(vector) => (Some(pack(vector)), None),
            O::Refused(why) => (None, Some(why.chars().take(MAX_WHY).collect())),
        };
        let record = Record {
            model: model.to_owned(),
            digest: digest.to_owned(),
            vector,
            refused,
        };
        let mut batch = Batch::new();
        batch.push(Op::Put {
            keyspace: EMBEDDINGS,
            key: hash.bytes().to_vec(),
            // Plain data: serde_json can't fail on it.
            value: serde_json::to_vec(&record).unwrap_or_default(),
        });
        // Without a sync: what a crash takes is computed again.
        self.store().write(batch)?;
        Ok(())
    }
}

/// Scales the largest number to 127 and rounds: the angle changes by less than a degree.
fn pack(vector: &[f32]) -> String {
    let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "within -127 to 127")]
    let bytes = vector
        .iter()
        .map(|x| ((x * scale).round() as i8).to_le_bytes()[0]);
    BASE64.encode(bytes.collect::<Vec<u8>>())
}

fn unpack(packed: &str) -> Option<Vec<f32>> {
    let bytes = BASE64.decode(packed).ok()?;
    Some(
        bytes
            .into_iter()
            .map(|byte| f32::from(i8::from_le_bytes([byte])))
            .collect(),
    )
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
            let kept = unpack(&pack(&vector)).unwrap();
            prop_assert!(cosine(&vector, &kept).unwrap() > 0.99985);
        }

        #[test]
        fn order_of_likeness_is_kept_where_it_is_clear(
            vectors in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 64), 3..12),
        ) {
            let of = |one: &[f32], other: &[f32]| cosine(one, other).unwrap_or(0.0);
            let kept: Vec<_> = vectors.iter().map(|v| unpack(&pack(v)).unwrap()).collect();
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
