//! The task that gives the archive's pictures their embeddings.
//!
//! - The queue is the archive's: what has none waits there, the newest first. A crash loses at most
//!   what was computed within it.
//! - A runtime that is away, and a missing model, delay all pictures; a picture that the model
//!   refuses is recorded and delays none.
//! - It rests after each picture for as long as that took: the runtime has other work.

use std::io::Read as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use watchkeeper_archive::{
    Archive, ArchiveError, Body, Content, EmbeddingStats, Entry, EntryName, Seen,
};
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::backoff::Backoff;

use super::media;
use crate::embedding::{Embedder, Embedding, EmbeddingError};

/// Pictures that are taken from the queue at a time.
const BATCH: usize = 32;
/// Largest picture that is embedded, in bytes.
const MAX_PICTURE: u64 = 32 << 20;
/// Pause when no picture waits.
const IDLE: Duration = Duration::from_secs(1);
/// The model is looked up at least this often.
const MODEL_CHECK: Duration = Duration::from_secs(60);
/// The queue is made again this often, which drops embeddings of contents that are gone.
const REQUEUE: Duration = Duration::from_secs(24 * 3600);
/// Pauses while the runtime is away or the model is missing.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What embeddings wait for.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Counts>);

#[derive(Debug, Default, Clone)]
struct Counts {
    model: Option<String>,
    made: u64,
    refused: u64,
    why: Option<String>,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, seen: &Seen) {
        let mut counts = self.lock();
        match seen {
            Seen::Vector(_) => counts.made += 1,
            Seen::Refused(_) => counts.refused += 1,
        }
    }

    pub(super) fn stats(&self, archive: &Archive) -> EmbeddingStats {
        let Counts {
            model,
            made,
            refused,
            why,
        } = self.lock().clone();
        EmbeddingStats {
            model,
            waiting: archive.waiting_embeddings(),
            made,
            refused,
            why,
        }
    }
}

/// Why no further picture is embedded for now.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Embedding(#[from] EmbeddingError),
    /// The model has changed; the queue is made again.
    #[error("the model has changed")]
    Changed,
}

/// Embeds pictures for ever.
pub(super) async fn embed_pictures(
    runtime: &RuntimeClient,
    archive: &Archive,
    embedder: &Embedder,
    progress: &Progress,
) {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, fastrand::u64(..));
    let mut queued = None;
    let worker = Worker {
        runtime,
        archive,
        embedder,
        progress,
    };
    loop {
        match worker.run(&mut queued, &mut backoff).await {
            Ok(()) | Err(Stop::Changed) => {}
            Err(stop) => {
                let why = stop.to_string();
                if progress.lock().why.as_ref() != Some(&why) {
                    tracing::warn!("archive: pictures wait for their embeddings: {why}");
                }
                progress.lock().why = Some(why);
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}

struct Worker<'a> {
    runtime: &'a RuntimeClient,
    archive: &'a Archive,
    embedder: &'a Embedder,
    progress: &'a Progress,
}

impl Worker<'_> {
    /// Embeds what waits until [`MODEL_CHECK`] has passed. `queued` is the digest of the model for
    /// which the queue was made, and when.
    async fn run(
        &self,
        queued: &mut Option<(String, Instant)>,
        backoff: &mut Backoff,
    ) -> Result<(), Stop> {
        let model = self.embedder.model().await?;
        self.progress.lock().model = Some(model.name);
        let is_queued =
            |(digest, at): &(String, Instant)| *digest == model.digest && at.elapsed() < REQUEUE;
        if !queued.as_ref().is_some_and(is_queued) {
            self.archive.begin_embedding(model.digest.clone()).await?;
            *queued = Some((model.digest.clone(), Instant::now()));
        }
        let until = Instant::now() + MODEL_CHECK;
        while Instant::now() < until {
            let batch = self.archive.unembedded(BATCH).await?;
            if batch.is_empty() {
                tokio::time::sleep(IDLE).await;
            }
            for (number, name) in batch {
                let begun = Instant::now();
                if self.settle(number, &name, &model.digest).await? {
                    backoff.reset();
                    self.progress.lock().why = None;
                    tokio::time::sleep(begun.elapsed()).await;
                }
            }
        }
        Ok(())
    }

    /// Takes one picture from the queue. Returns whether the model was asked.
    async fn settle(&self, number: u64, name: &EntryName, digest: &str) -> Result<bool, Stop> {
        let entry = match self.archive.stat(name).await {
            Ok(entry) if entry.number == number => entry,
            // Replaced or destroyed meanwhile; what took its place is queued by its own number.
            Ok(_) | Err(ArchiveError::NotFound(_)) => {
                self.archive.settle_embedding(number, None).await?;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        if self
            .archive
            .is_embedded(entry.sha256, digest.to_owned())
            .await?
        {
            self.archive.settle_embedding(number, None).await?;
            return Ok(false);
        }
        let (model, seen) = match self.picture(&entry).await? {
            Picture::Gone => {
                self.archive.settle_embedding(number, None).await?;
                return Ok(false);
            }
            Picture::Unreadable(why) => (String::new(), Seen::Refused(why)),
            Picture::Bytes(bytes) => self.see(bytes, digest).await?,
        };
        if let Seen::Refused(why) = &seen {
            tracing::info!(%name, "archive: a picture has no embedding: {why}");
        }
        self.progress.count(&seen);
        let seen = (entry.sha256, model, digest.to_owned(), seen);
        self.archive.settle_embedding(number, Some(seen)).await?;
        Ok(true)
    }

    async fn see(&self, picture: Vec<u8>, digest: &str) -> Result<(String, Seen), Stop> {
        match self.embedder.embed_picture(picture).await {
            Ok(Embedding {
                model,
                digest: of,
                vector,
            }) if of == digest => Ok((model, Seen::Vector(vector))),
            Ok(_) => Err(Stop::Changed),
            Err(EmbeddingError::Refused(why)) => Ok((String::new(), Seen::Refused(why))),
            Err(error) => Err(error.into()),
        }
    }

    async fn picture(&self, entry: &Entry) -> Result<Picture, Stop> {
        if entry.bytes > MAX_PICTURE {
            let why = format!("{} bytes are more than {MAX_PICTURE}", entry.bytes);
            return Ok(Picture::Unreadable(why));
        }
        let body = match &entry.content {
            Content::Stored => self.archive.read_disk(entry).await?,
            Content::Media(id) => match media::read(self.archive, self.runtime, entry, id).await {
                Ok(body) => Some(body),
                Err(ArchiveError::Gone(_)) => return Ok(Picture::Gone),
                Err(error) => return Err(error.into()),
            },
        };
        Ok(match body {
            Some(Body::Bytes(bytes)) => Picture::Bytes(bytes.to_vec()),
            Some(Body::File(file)) => {
                let read = tokio::task::spawn_blocking(move || {
                    let mut bytes = Vec::new();
                    file.take(MAX_PICTURE)
                        .read_to_end(&mut bytes)
                        .map(|_| bytes)
                });
                match read
                    .await
                    .map_err(std::io::Error::other)
                    .and_then(|read| read)
                {
                    Ok(bytes) => Picture::Bytes(bytes),
                    Err(error) => Picture::Unreadable(error.to_string()),
                }
            }
            _ => Picture::Unreadable("its content is damaged or missing".to_owned()),
        })
    }
}

enum Picture {
    Bytes(Vec<u8>),
    /// It can't be embedded, and why.
    Unreadable(String),
    /// The runtime no longer keeps it; its entry is dropped.
    Gone,
}
