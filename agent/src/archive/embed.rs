//! The task that gives the archive's pictures their embeddings.
//!
//! - The queue is the archive's: what has none waits there, the newest first. A crash loses at most
//!   what was computed within it.
//! - A runtime that is away, and a missing model, delay all pictures. A picture that the model
//!   refuses is recorded; one that can't be read is left out until it is repaired or the queue is
//!   made again. Neither delays another one.
//! - It rests after each picture for as long as that took: the runtime has other work.

use std::io::Read as _;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use watchkeeper_archive::{
    Archive, ArchiveError, Body, Content, ContentHash, EmbeddingOutcome, EmbeddingStats, Entry,
    EntryName,
};
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::backoff::Backoff;

use super::media::{self, MediaError};
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
/// Pauses while the runtime is away or the model is missing. The longest is that of the readers of
/// the journal: a runtime that is back is noticed as soon here. It costs the runtime one request
/// in that time, far less than pictures do.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Counts, and what embeddings wait for.
#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<EmbeddingStats>);

impl Progress {
    fn count(&self, outcome: &EmbeddingOutcome) {
        let mut counts = self.0.lock();
        match outcome {
            EmbeddingOutcome::Vector(_) => counts.made += 1,
            EmbeddingOutcome::Refused(_) => counts.refused += 1,
        }
    }

    pub(super) fn stats(&self, archive: &Archive) -> EmbeddingStats {
        EmbeddingStats {
            waiting: archive.waiting_embeddings(),
            ..self.0.lock().clone()
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
                if progress.0.lock().why.as_ref() != Some(&why) {
                    tracing::warn!("archive: pictures wait for their embeddings: {why}");
                }
                progress.0.lock().why = Some(why);
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
        self.progress.0.lock().model = Some(model.name);
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
                self.progress.0.lock().why = None;
                tokio::time::sleep(IDLE).await;
            }
            for (number, name) in batch {
                let begun = Instant::now();
                if self.settle(number, &name, &model.digest).await? {
                    backoff.reset();
                    self.progress.0.lock().why = None;
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
        let (model, outcome) = match self.picture(&entry).await? {
            Picture::Gone => {
                self.archive.settle_embedding(number, None).await?;
                return Ok(false);
            }
            Picture::Unreadable(why) => {
                tracing::warn!(%name, "archive: a picture is left out for now: {why}");
                self.archive.settle_embedding(number, None).await?;
                return Ok(false);
            }
            Picture::TooLarge(why) => (String::new(), EmbeddingOutcome::Refused(why)),
            Picture::Bytes(bytes) => self.ask_model(bytes, digest).await?,
        };
        if let EmbeddingOutcome::Refused(why) = &outcome {
            tracing::info!(%name, "archive: a picture has no embedding: {why}");
        }
        self.progress.count(&outcome);
        let made = (entry.sha256, model, digest.to_owned(), outcome);
        self.archive.settle_embedding(number, Some(made)).await?;
        Ok(true)
    }

    /// Returns the name of the model and what it makes of a picture.
    async fn ask_model(
        &self,
        picture: Vec<u8>,
        digest: &str,
    ) -> Result<(String, EmbeddingOutcome), Stop> {
        use EmbeddingOutcome as O;
        match self.embedder.embed_picture(picture).await {
            Ok(Embedding {
                model,
                digest: of,
                vector,
            }) if of == digest => Ok((model, O::Vector(vector))),
            Ok(_) => Err(Stop::Changed),
            Err(EmbeddingError::Refused(why)) => Ok((String::new(), O::Refused(why))),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a picture.
    ///
    /// # Errors
    /// [`Stop`] only if no other picture could be read either.
    async fn picture(&self, entry: &Entry) -> Result<Picture, Stop> {
        if entry.bytes > MAX_PICTURE {
            let why = format!("{} bytes are more than {MAX_PICTURE}", entry.bytes);
            return Ok(Picture::TooLarge(why));
        }
        let body = match &entry.content {
            Content::Stored => self.archive.read_disk(entry).await,
            Content::Media(id) => match media::read(self.archive, self.runtime, entry, id).await {
                Ok(body) => Ok(Some(body)),
                Err(MediaError::Away(error)) => return Err(error.into()),
                Err(MediaError::Other(error)) => Err(error),
            },
        };
        let read = match body {
            Ok(Some(Body::Bytes(bytes))) => Ok(bytes.to_vec()),
            Ok(Some(Body::File(file))) => read_file(file, entry.sha256).await,
            Ok(_) => Err(DAMAGED.to_owned()),
            Err(ArchiveError::Gone(_)) => return Ok(Picture::Gone),
            Err(error) => Err(error.to_string()),
        };
        Ok(read.map_or_else(Picture::Unreadable, Picture::Bytes))
    }
}

const DAMAGED: &str = "its content is damaged or missing";

/// Reads a content of at most [`MAX_PICTURE`] bytes and compares it with its SHA-256.
async fn read_file(file: std::fs::File, hash: ContentHash) -> Result<Vec<u8>, String> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        let read = file.take(MAX_PICTURE).read_to_end(&mut bytes);
        read.map(|_| (ContentHash::of(&bytes) == hash).then_some(bytes))
    });
    let read = read.await.map_err(|died| died.to_string())?;
    let bytes = read.map_err(|error| error.to_string())?;
    bytes.ok_or_else(|| DAMAGED.to_owned())
}

enum Picture {
    Bytes(Vec<u8>),
    /// It is never embedded, and why.
    TooLarge(String),
    /// It can't be read for now, and why.
    Unreadable(String),
    /// The runtime no longer keeps it; its entry is dropped.
    Gone,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use watchkeeper_archive::{Limits, NewEntry, Settings};

    use super::*;

    /// An archive whose pictures wait for a model, beside a runtime that may be away.
    struct Bench {
        folder: tempfile::TempDir,
        archive: Archive,
        runtime: RuntimeClient,
        embedder: Embedder,
        progress: Progress,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let settings = Settings {
                folder: folder.path().join("archive"),
                limits: Limits::default(),
                memory_bytes: 0,
                shared: None,
                objects: None,
            };
            let runtime = RuntimeClient::new(folder.path().join("runtime.sock")).unwrap();
            Self {
                archive: Archive::open(settings).unwrap().0,
                embedder: Embedder::new(runtime.clone(), None),
                progress: Progress::default(),
                runtime,
                folder,
            }
        }

        /// Settles the newest picture. Returns how many are left, and whether it has a record.
        async fn settle_newest(&self) -> Result<(u64, bool), Stop> {
            let worker = Worker {
                runtime: &self.runtime,
                archive: &self.archive,
                embedder: &self.embedder,
                progress: &self.progress,
            };
            let (number, name) = self.archive.unembedded(1).await?.remove(0);
            worker.settle(number, &name, "digest").await?;
            let hash = self.archive.stat(&name).await?.sha256;
            let has_record = self.archive.is_embedded(hash, "digest".to_owned()).await?;
            Ok((self.archive.waiting_embeddings(), has_record))
        }

        async fn make_queue(&self) -> u64 {
            self.archive
                .begin_embedding("digest".to_owned())
                .await
                .unwrap();
            self.archive.waiting_embeddings()
        }
    }

    fn new(name: &str) -> NewEntry {
        NewEntry::named(name.parse().unwrap())
    }

    #[tokio::test]
    async fn damaged_picture_is_left_out_without_a_record_and_waits_again_once_it_is_repaired() {
        let bench = Bench::new();
        // A small one is compared with its hash where it is read, a large one by its size only.
        for content in [b"small".to_vec(), vec![7; 5 << 20]] {
            let hash = ContentHash::of(&content);
            let blob = bench.folder.path().join(format!("archive/blobs/{hash}"));
            let entry = new("yard/a.jpg");
            bench
                .archive
                .ingest_bytes(content.clone().into(), entry)
                .await
                .unwrap();
            assert_eq!(bench.make_queue().await, 1);
            let mut damaged = content.clone();
            damaged[3] ^= 1;
            std::fs::write(&blob, damaged).unwrap();
            assert_eq!(bench.settle_newest().await.unwrap(), (0, false));
            // An error of the disk: a folder can't be read.
            assert_eq!(bench.make_queue().await, 1);
            std::fs::remove_file(&blob).unwrap();
            std::fs::create_dir(&blob).unwrap();
            assert_eq!(bench.settle_newest().await.unwrap(), (0, false));
            std::fs::remove_dir(&blob).unwrap();
            std::fs::write(&blob, content).unwrap();
            assert_eq!(bench.make_queue().await, 1);
            // It is read again: now it waits for the runtime, which is away.
            assert!(matches!(
                bench.settle_newest().await,
                Err(Stop::Embedding(_))
            ));
        }
        assert_eq!(bench.progress.stats(&bench.archive).refused, 0);
    }

    #[tokio::test]
    async fn media_of_another_hash_are_left_out_and_a_runtime_that_is_away_stops_all() {
        let bench = Bench::new();
        let reference = (
            new("events/a.jpg"),
            ContentHash::of(b"a"),
            1,
            "m".to_owned(),
        );
        bench
            .archive
            .add_references(vec![reference], 1)
            .await
            .unwrap();
        assert_eq!(bench.make_queue().await, 1);
        let stopped = bench.settle_newest().await;
        assert!(matches!(stopped, Err(Stop::Archive(_))), "{stopped:?}");
        assert_eq!(bench.archive.waiting_embeddings(), 1);
        let socket = bench.folder.path().join("runtime.sock");
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let routes = Router::new().route("/v1/media/m", get(|| async { "other" }));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        assert_eq!(bench.settle_newest().await.unwrap(), (0, false));
        assert_eq!(bench.make_queue().await, 1);
        serving.abort();
    }
}
