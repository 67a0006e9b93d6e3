//! Which pictures wait for an embedding, and the end of their wait.

use crate::ContentHash;
use crate::archive::Archive;
use crate::durable::Durable;
use crate::embeddings::EmbeddingOutcome;
use crate::error::ArchiveError;
use crate::name::EntryName;

impl Archive {
    /// Begins to queue the pictures that lack an embedding of the model with this digest.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn begin_embedding(&self, digest: String) -> Result<(), ArchiveError> {
        self.blocking(move |durable| durable.begin_embedding(&digest))
            .await
    }

    /// Returns the next pictures in the queue, the newest first.
    ///
    /// # Errors
    /// If the work is cut short.
    pub async fn unembedded(&self, most: usize) -> Result<Vec<(u64, EntryName)>, ArchiveError> {
        self.blocking(move |durable| Ok(durable.index().queued(most)))
            .await
    }

    /// Takes a picture from the queue, with the embedding of its content where one was made. `made`
    /// is the content, the digest of the model, and what it made.
    ///
    /// # Errors
    /// If the disk refuses; the picture stays in the queue then.
    pub async fn settle_embedding(
        &self,
        number: u64,
        made: Option<(ContentHash, String, EmbeddingOutcome)>,
    ) -> Result<(), ArchiveError> {
        let settle = move |durable: &Durable| {
            if let Some((hash, digest, outcome)) = made {
                durable.put_outcome(&hash, &digest, &outcome)?;
            }
            durable.index().unqueue_one(number);
            Ok(())
        };
        self.blocking(settle).await
    }

    /// Returns whether a content has an embedding of this model, or was refused by it.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn is_embedded(
        &self,
        hash: ContentHash,
        digest: String,
    ) -> Result<bool, ArchiveError> {
        let look = move |durable: &Durable| {
            let record = durable.record(&hash)?;
            Ok(record.is_some_and(|record| record.digest == digest))
        };
        self.blocking(look).await
    }

    /// Returns how many pictures wait for an embedding.
    pub fn waiting_embeddings(&self) -> u64 {
        self.durable().index().queue_length() as u64
    }
}
