//! The task that gives the archive's pictures their embeddings.
//!
//! - The archive has the queue: pictures without an embedding, the newest first. A crash loses at
//!   most the computation in progress.
//! - A runtime that is away, and a missing model, delay all pictures. A picture that the model
//!   refuses is recorded. One that can't be read, or on which the network failed
//!   [`MAX_STEP_FAILURES`] times, waits for its repair or for a new queue. No picture delays
//!   another one for longer.
//! - After each picture it pauses for as long as that took: the runtime has other work.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use watchkeeper_archive::{
    Archive, ArchiveError, Body, Content, EmbeddingOutcome, EmbeddingStats, Entry, EntryName,
};
use watchkeeper_client::RuntimeClient;
use watchkeeper_client::backoff::Backoff;

use super::media::{self, MediaError};
use crate::embedding::{Embedder, EmbeddingError, EmbeddingModel, MAX_STEP_FAILURES};

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
}

/// Embeds pictures without end.
pub(super) async fn embed_pictures(
    runtime: &RuntimeClient,
    archive: &Archive,
    embedder: &Embedder,
    progress: &Progress,
) {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, fastrand::u64(..));
    let mut queued = None;
    let mut worker = Worker {
        runtime,
        archive,
        embedder,
        progress,
        failing: None,
    };
    loop {
        if let Err(stop) = worker.run(&mut queued, &mut backoff).await {
            let why = stop.to_string();
            if progress.0.lock().why.as_ref() != Some(&why) {
                tracing::warn!("archive: pictures wait for their embeddings: {why}");
            }
            progress.0.lock().why = Some(why);
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }
}

struct Worker<'a> {
    runtime: &'a RuntimeClient,
    archive: &'a Archive,
    embedder: &'a Embedder,
    progress: &'a Progress,
    /// The last picture whose step failed, by its number, and how often.
    failing: Option<(u64, u32)>,
}

impl Worker<'_> {
    /// Embeds what waits until [`MODEL_CHECK`] has passed. `queued` is the digest of the model for
    /// which the queue was made, and when.
    async fn run(
        &mut self,
        queued: &mut Option<(String, Instant)>,
        backoff: &mut Backoff,
    ) -> Result<(), Stop> {
        let model = self.embedder.model().await?;
        self.progress.0.lock().model = Some(model.name.clone());
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
                if self.embed_one(number, &name, &model).await? {
                    backoff.reset();
                    self.progress.0.lock().why = None;
                    tokio::time::sleep(begun.elapsed()).await;
                }
            }
        }
        Ok(())
    }

    /// Takes one picture from the queue. Returns whether the model was asked.
    async fn embed_one(
        &mut self,
        number: u64,
        name: &EntryName,
        model: &EmbeddingModel,
    ) -> Result<bool, Stop> {
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
            .is_embedded(entry.sha256, model.digest.clone())
            .await?
        {
            self.archive.settle_embedding(number, None).await?;
            return Ok(false);
        }
        let outcome = match self.picture(&entry).await? {
            Picture::Gone => None,
            Picture::Unreadable(why) => {
                tracing::warn!(%name, "archive: a picture is left out for now: {why}");
                None
            }
            Picture::TooLarge(why) => Some(EmbeddingOutcome::Refused(why)),
            Picture::Bytes(bytes) => self.ask_model(number, name, bytes, model).await?,
        };
        let is_asked = outcome.is_some();
        if let Some(EmbeddingOutcome::Refused(why)) = &outcome {
            tracing::info!(%name, "archive: a picture has no embedding: {why}");
        }
        outcome.iter().for_each(|made| self.progress.count(made));
        let made = outcome.map(|made| (entry.sha256, model.digest.clone(), made));
        self.archive.settle_embedding(number, made).await?;
        Ok(is_asked)
    }

    /// Returns what the model makes of a picture; `None` if its step failed too often.
    async fn ask_model(
        &mut self,
        number: u64,
        name: &EntryName,
        picture: Vec<u8>,
        model: &EmbeddingModel,
    ) -> Result<Option<EmbeddingOutcome>, Stop> {
        use EmbeddingOutcome as O;
        match self.embedder.embed_picture_with(model, picture).await {
            Ok(embedding) => Ok(Some(O::Vector(embedding.vector))),
            Err(EmbeddingError::Refused(why)) => Ok(Some(O::Refused(why))),
            Err(EmbeddingError::Step(why)) => {
                let before = self.failing.filter(|(failing, _)| *failing == number);
                let count = before.map_or(0, |(_, count)| count) + 1;
                self.failing = Some((number, count));
                if count < MAX_STEP_FAILURES {
                    return Err(EmbeddingError::Step(why).into());
                }
                tracing::warn!(%name, count, "archive: a picture is left out for now: {why}");
                Ok(None)
            }
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
            Ok(Some(Body::File(file))) => media::read_file(file, MAX_PICTURE).await,
            Ok(_) => Err("its content is damaged or missing".to_owned()),
            Err(ArchiveError::Gone(_)) => return Ok(Picture::Gone),
            Err(error) => Err(error.to_string()),
        };
        Ok(read.map_or_else(Picture::Unreadable, Picture::Bytes))
    }
}

enum Picture {
    Bytes(Vec<u8>),
    /// Why the picture is never embedded.
    TooLarge(String),
    /// Why the picture can't be read for now.
    Unreadable(String),
    /// The runtime no longer keeps it; its entry is dropped.
    Gone,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::cell::Cell;
    use std::io::Cursor;

    use axum::routing::{get, post};
    use axum::{Json, Router};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use image::{ImageFormat, Rgb, RgbImage};
    use serde_json::json;
    use watchkeeper_archive::{ContentHash, Limits, NewEntry, Settings};

    use super::*;

    /// An archive whose pictures wait for a model, with a runtime that may be away.
    struct Bench {
        folder: tempfile::TempDir,
        archive: Archive,
        runtime: RuntimeClient,
        embedder: Embedder,
        progress: Progress,
        failing: Cell<Option<(u64, u32)>>,
    }

    fn info() -> serde_json::Value {
        json!({"name": "look", "task": "image-embedding", "labels": [], "digest": "digest",
            "makes_embeddings": true, "state": {"state": "present", "path": "/m"}})
    }

    fn model() -> EmbeddingModel {
        let info = serde_json::from_value(info()).unwrap();
        EmbeddingModel::among(&[info], "look").unwrap()
    }

    /// A PNG file of one colour with so many bytes after its end.
    fn png(colour: u8, more: usize) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        let picture = RgbImage::from_pixel(8, 8, Rgb([colour; 3]));
        picture.write_to(&mut file, ImageFormat::Png).unwrap();
        let mut file = file.into_inner();
        file.resize(file.len() + more, 0);
        file
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
                embedder: Embedder::new(runtime.clone(), Some("look".to_owned())),
                progress: Progress::default(),
                failing: Cell::default(),
                runtime,
                folder,
            }
        }

        /// Embeds the newest picture. Returns how many are left, and whether it has a record.
        async fn embed_newest(&self) -> Result<(u64, bool), Stop> {
            let mut worker = Worker {
                runtime: &self.runtime,
                archive: &self.archive,
                embedder: &self.embedder,
                progress: &self.progress,
                failing: self.failing.take(),
            };
            let (number, name) = self.archive.unembedded(1).await?.remove(0);
            let embedded = worker.embed_one(number, &name, &model()).await;
            self.failing.set(worker.failing);
            embedded?;
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
    async fn damaged_picture_is_skipped_and_queued_again_after_repair() {
        let bench = Bench::new();
        // A large one is compared with its hash as a file.
        for content in [png(1, 0), png(2, 5 << 20)] {
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
            assert_eq!(bench.embed_newest().await.unwrap(), (0, false));
            // An error of the disk: a folder can't be read.
            assert_eq!(bench.make_queue().await, 1);
            std::fs::remove_file(&blob).unwrap();
            std::fs::create_dir(&blob).unwrap();
            assert_eq!(bench.embed_newest().await.unwrap(), (0, false));
            std::fs::remove_dir(&blob).unwrap();
            std::fs::write(&blob, content).unwrap();
            assert_eq!(bench.make_queue().await, 1);
            // It is read again: now it waits for the runtime, which is away.
            assert!(matches!(
                bench.embed_newest().await,
                Err(Stop::Embedding(_))
            ));
        }
        assert_eq!(bench.progress.stats(&bench.archive).refused, 0);
    }

    #[tokio::test]
    async fn other_hash_skips_a_picture_and_absent_runtime_stops_all() {
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
        let stopped = bench.embed_newest().await;
        assert!(matches!(stopped, Err(Stop::Archive(_))), "{stopped:?}");
        assert_eq!(bench.archive.waiting_embeddings(), 1);
        let socket = bench.folder.path().join("runtime.sock");
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let routes = Router::new().route("/v1/media/m", get(|| async { "other" }));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        assert_eq!(bench.embed_newest().await.unwrap(), (0, false));
        assert_eq!(bench.make_queue().await, 1);
        serving.abort();
    }

    #[tokio::test]
    async fn picture_is_skipped_after_three_failures_of_network() {
        let bench = Bench::new();
        for (name, colour) in [("yard/a.png", 1), ("yard/b.png", 2)] {
            let content = png(colour, 0).into();
            bench
                .archive
                .ingest_bytes(content, new(name))
                .await
                .unwrap();
        }
        let run = async |Json(run): Json<serde_json::Value>| {
            let newest = BASE64.encode(png(2, 0));
            Json(match run["images"][0] == newest {
                true => json!({"results": [{"embedding": null}],
                    "failed": [{"step": "embed", "message": "not finite"}]}),
                false => json!({"results": [{"embedding": [1.0, 0.0]}], "failed": []}),
            })
        };
        let models = async || Json([info()]);
        let routes = Router::new()
            .route("/v1/workflows/run", post(run))
            .route("/v1/models", get(models));
        let socket = bench.folder.path().join("runtime.sock");
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        assert_eq!(bench.make_queue().await, 2);
        for _ in 1..MAX_STEP_FAILURES {
            let failed = bench.embed_newest().await.unwrap_err();
            assert!(
                matches!(failed, Stop::Embedding(EmbeddingError::Step(_))),
                "{failed:?}"
            );
        }
        assert_eq!(bench.embed_newest().await.unwrap(), (1, false));
        assert_eq!(bench.embed_newest().await.unwrap(), (0, true));
        // It is tried again once the queue is made again.
        assert_eq!(bench.make_queue().await, 1);
        serving.abort();
    }
}
