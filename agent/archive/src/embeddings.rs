//! Embeddings of pictures, beside their entries. Everything here blocks.
//!
//! - One embedding for each content, by its SHA-256: entries that share a content share it.
//! - It names the digest of its model; only embeddings of one digest are compared. A new model's
//!   replaces it.
//! - A picture without one waits. Pictures that wait are found by comparing entries and embeddings,
//!   so a crash loses nothing. The queue is a list of names, no longer than that of the entries.
//! - A picture that the model refuses is recorded with the reason, and asked again of another
//!   model only. One that can't be read has no record: it waits again once it is repaired, and each
//!   time that the queue is made.
//! - Not here: models, and when they are asked.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use watchkeeper_store::{Batch, pages};

use crate::ContentHash;
use crate::durable::Durable;
use crate::entry::{Entry, is_picture};
use crate::error::ArchiveError;
use crate::on_disk::EMBEDDINGS;
use crate::slot::Slot;
use crate::vectors::{MAX_EMBEDDING, Packed, Record, compare_records, read, unpack};

/// Records that are read at a time.
const PAGE: usize = 1_000;
/// Longest kept reason of a refusal, in characters.
const MAX_WHY: usize = 300;

/// Result of a model for one content.
#[derive(Debug, Clone, PartialEq)]
pub enum EmbeddingOutcome {
    /// Embedding of the content, at most 2,048 numbers, kept as bytes: only the direction matters.
    Vector(Vec<f32>),
    /// The model can't make one, and why.
    Refused(String),
}

/// The vector that entries are compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryVector {
    /// Digest of the model.
    pub digest: String,
    pub vector: Vec<f32>,
}

/// Counts of embeddings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl QueryVector {
    /// Returns entries with their likeness, -1 to 1; one without an embedding of this model is left
    /// out.
    pub(crate) fn compare(
        &self,
        durable: &Durable,
        slots: Vec<Arc<Slot>>,
    ) -> Result<Vec<(f64, Arc<Slot>)>, ArchiveError> {
        let (digest, own) = (&self.digest, Packed::of(&self.vector));
        durable.vectors().load(durable.store(), digest)?;
        let (mut found, unknown) = durable.vectors().compare(digest, slots, &own);
        let by_pages = durable.are_most(unknown.len());
        let rest = compare_records(durable.store(), digest, unknown, &own, by_pages)?;
        found.extend(rest);
        Ok(found)
    }

    /// Returns the vector of an entry.
    pub(crate) fn of_entry(entry: &Entry, durable: &Durable) -> Result<Self, ArchiveError> {
        let stored = durable.store().get(EMBEDDINGS, &entry.sha256.0)?;
        let name = &entry.name;
        match stored.as_deref().and_then(read) {
            Some((Record { digest, .. }, numbers)) if !numbers.is_empty() => Ok(Self {
                digest,
                vector: unpack(numbers),
            }),
            Some((
                Record {
                    refused: Some(why), ..
                },
                _,
            )) => Err(ArchiveError::Refused(format!(
                "{name} has no embedding: {why}"
            ))),
            _ if !is_picture(&entry.content_type) => Err(ArchiveError::Refused(format!(
                "{name} is no JPEG, PNG or WebP picture, so it has no embedding"
            ))),
            _ => Err(ArchiveError::NoEmbedding(name.clone())),
        }
    }
}

impl Durable {
    pub(crate) fn record(&self, hash: &ContentHash) -> Result<Option<Record>, ArchiveError> {
        let stored = self.store().get(EMBEDDINGS, &hash.0)?;
        // One of another version counts as absent.
        Ok(stored.and_then(|bytes| Some(read(&bytes)?.0)))
    }

    /// Begins to queue pictures without an embedding of this model; drops those of contents that no
    /// entry has.
    pub(crate) fn begin_embedding(&self, digest: &str) -> Result<(), ArchiveError> {
        self.index().queue_pictures();
        let mut done = HashSet::new();
        for page in pages(self.store(), EMBEDDINGS, PAGE) {
            let records = page?.entries;
            let mut unused = Batch::new();
            let _writer = self.write_lock();
            for record in records {
                match ContentHash::from_bytes(&record.key) {
                    Some(hash) if self.index().has_picture(&hash) => {
                        let known = read(&record.value);
                        done.extend(known.filter(|(r, _)| r.digest == digest).map(|_| hash));
                    }
                    _ => unused = unused.delete(EMBEDDINGS, &record.key),
                }
            }
            self.store().write(unused)?;
        }
        self.index().unqueue(|hash| done.contains(hash));
        Ok(())
    }

    /// Records what a model made of a content, unless its last picture was destroyed meanwhile.
    pub(crate) fn put_outcome(
        &self,
        hash: &ContentHash,
        digest: &str,
        outcome: &EmbeddingOutcome,
    ) -> Result<(), ArchiveError> {
        use EmbeddingOutcome as O;
        let (vector, refused) = match outcome {
            O::Vector(vector) if vector.len() > MAX_EMBEDDING => {
                let why = format!("{} numbers are more than {MAX_EMBEDDING}", vector.len());
                (None, Some(why))
            }
            O::Vector(vector) => (Some(Packed::of(vector)), None),
            O::Refused(why) => (None, Some(why.chars().take(MAX_WHY).collect())),
        };
        let record = Record {
            digest: digest.to_owned(),
            refused,
        };
        let record = record.encode(vector.as_ref());
        let _writer = self.write_lock();
        if !self.index().has_picture(hash) {
            return Ok(());
        }
        // Without a sync: what a crash takes is computed again.
        self.store()
            .write(Batch::new().put(EMBEDDINGS, &hash.0, &record))?;
        self.vectors().follow(*hash, Some(&record));
        Ok(())
    }
}
