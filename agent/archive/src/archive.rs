//! The archive as its callers see it: all tiers behind the verbs.
//!
//! - Ingest is write-through: durable first and acknowledged only then; fast tiers best effort.
//! - Reads are cache-aside: memory, memcached, disk. A damaged file is replaced by the copy of any
//!   other tier.
//! - A tier that fails costs its timeout once, then it is marked down. It never fails a verb.
//! - Blocking work runs on blocking threads.

use std::fs::File;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use jiff::{Timestamp, Zoned};
use tokio::sync::mpsc;

use crate::ContentHash;
use crate::blobs::{MAX_CACHED, Sealed, Staged};
use crate::blocking::on_blocking_thread;
use crate::copies::Copies;
use crate::durable::{Durable, Limits, Removed};
use crate::embeddings::QueryVector;
use crate::entry::{Content, Entry, NewEntry};
use crate::error::ArchiveError;
use crate::exif::add_exif;
use crate::name::EntryName;
use crate::object_queue::ObjectQueue;
use crate::open_report::OpenReport;
use crate::query::{Matches, Query};
use crate::search;
use crate::stats::{TierCounts, count};
use crate::tier::Tier;
use crate::verb;
use crate::words::CameraNames;

/// Chunks of a content that wait for the disk.
const CHUNKS_AHEAD: usize = 4;
/// Times that an entry is read, where it is replaced meanwhile.
const MAX_READS: usize = 8;

/// What an archive needs to open.
#[derive(Debug)]
pub struct Settings {
    /// Folder of contents and records.
    pub folder: PathBuf,
    pub limits: Limits,
    /// Bytes of the fast tier in memory.
    pub memory_bytes: u64,
    /// The shared fast tier.
    pub shared: Option<Arc<dyn Tier>>,
    /// The object tier.
    pub objects: Option<Arc<dyn Tier>>,
}

/// The archive; clones share it.
#[derive(Debug, Clone)]
pub struct Archive(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    durable: Arc<Durable>,
    copies: Copies,
    objects: Option<ObjectQueue>,
    durable_counts: TierCounts,
    report: OpenReport,
}

/// The content of an entry.
#[derive(Debug)]
pub enum Body {
    Bytes(Bytes),
    /// A large content, from its file, whose bytes have been compared with its SHA-256.
    File(File),
    /// Media of the runtime, by its id.
    Media(String),
}

/// An entry with its content.
#[derive(Debug)]
pub struct Retrieved {
    pub entry: Entry,
    /// Tier that had the content; `runtime` for a reference.
    pub tier: &'static str,
    pub body: Body,
}

impl Archive {
    /// Opens an archive. Blocks while it reads all records.
    ///
    /// # Errors
    /// If its store or its folders can't be opened or read.
    pub fn open(settings: Settings) -> Result<(Self, OpenReport), ArchiveError> {
        let Settings {
            folder,
            limits,
            memory_bytes,
            shared,
            objects,
        } = settings;
        let (durable, report) = Durable::open(&folder, limits, objects.is_some())?;
        let inner = Inner {
            copies: Copies::new(memory_bytes, shared),
            objects: ObjectQueue::open(&durable, objects)?,
            durable: Arc::new(durable),
            durable_counts: TierCounts::default(),
            report,
        };
        Ok((Self(Arc::new(inner)), report))
    }

    /// Runs `work` on a blocking thread.
    pub(crate) async fn blocking<T, F>(&self, work: F) -> Result<T, ArchiveError>
    where
        T: Send + 'static,
        F: FnOnce(&Durable) -> Result<T, ArchiveError> + Send + 'static,
    {
        on_blocking_thread(&self.0.durable, work).await
    }

    /// Begins a content; [`Archive::ingest`] makes it an entry. Blocks shortly.
    ///
    /// # Errors
    /// If the disk is full or refuses.
    pub fn stage(&self) -> Result<Staged, ArchiveError> {
        self.0.durable.stage()
    }

    /// Writes a content as it comes; an error of `chunks` ends it. Deleted unless it is ingested.
    ///
    /// # Errors
    /// That of `chunks`, or if the content is too large or the disk refuses.
    pub async fn stage_stream<S>(&self, chunks: S) -> Result<Sealed, ArchiveError>
    where
        S: Stream<Item = Result<Bytes, ArchiveError>> + Send,
    {
        let (sender, mut receiver) = mpsc::channel::<Bytes>(CHUNKS_AHEAD);
        let writer = self.blocking(move |durable| {
            let mut staged = durable.stage()?;
            while let Some(chunk) = receiver.blocking_recv() {
                staged.append(&chunk)?;
            }
            staged.seal()
        });
        let reader = async move {
            let mut chunks = pin!(chunks);
            while let Some(chunk) = chunks.next().await {
                // A writer that ended has the error.
                if sender.send(chunk?).await.is_err() {
                    break;
                }
            }
            Ok::<(), ArchiveError>(())
        };
        let (sealed, read) = tokio::join!(writer, reader);
        read?;
        sealed
    }

    /// Makes a content an entry: durable when this returns. An entry of that name is replaced.
    ///
    /// # Errors
    /// As [`Durable::commit`].
    pub async fn ingest(&self, sealed: Sealed, new: NewEntry) -> Result<Entry, ArchiveError> {
        let head = sealed.head.clone();
        let commit = move |durable: &Durable| {
            let mut new = new;
            let now = Zoned::now();
            add_exif(&mut new.metadata, &sealed, &now);
            durable.commit(&sealed, new, now.timestamp())
        };
        let (entry, removed) = self.blocking(commit).await?;
        self.drop_copies(&removed).await;
        if let Some(content) = head {
            self.fill(&entry.sha256, content, estimated_cost(entry.bytes))
                .await;
        }
        self.wake_objects();
        Ok(entry)
    }

    /// Makes bytes in memory an entry.
    ///
    /// # Errors
    /// As [`Archive::ingest`], and if there are too many.
    pub async fn ingest_bytes(&self, content: Bytes, new: NewEntry) -> Result<Entry, ArchiveError> {
        let sealed = self.stage_bytes(content).await?;
        self.ingest(sealed, new).await
    }

    /// Writes bytes in memory as a content. Deleted unless it is ingested.
    ///
    /// # Errors
    /// If there are too many or the disk refuses.
    pub async fn stage_bytes(&self, content: Bytes) -> Result<Sealed, ArchiveError> {
        let stage = move |durable: &Durable| {
            let mut staged = durable.stage()?;
            staged.append(&content)?;
            staged.seal()
        };
        self.blocking(stage).await
    }

    /// Adds references to media of the runtime, and the journal's cursor after them.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn add_references(
        &self,
        new: Vec<(NewEntry, ContentHash, u64, String)>,
        cursor: u64,
    ) -> Result<(), ArchiveError> {
        let add = move |durable: &Durable| durable.add_references(new, cursor, Timestamp::now());
        self.blocking(add).await.map(drop)
    }

    /// Returns the number of the last journal record indexed; 0 if none.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn cursor(&self) -> Result<u64, ArchiveError> {
        self.blocking(|durable| Ok(durable.cursor()?)).await
    }

    /// Returns the metadata of an entry.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if there is none of that name.
    pub async fn stat(&self, name: &EntryName) -> Result<Entry, ArchiveError> {
        let wanted = name.clone();
        let find = move |durable: &Durable| durable.entry(&wanted, Timestamp::now());
        let found = self.blocking(find).await?;
        found.ok_or_else(|| ArchiveError::NotFound(name.to_string()))
    }

    /// Returns an entry with its content. `skip_cache`: not from fast tiers; they are filled again.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] and [`ArchiveError::Damaged`], or if the disk can't be read.
    /// [`ArchiveError::Source`] if the content is replaced faster than it can be read. Also if it
    /// is damaged and a tier that may have a copy does not answer.
    pub async fn retrieve(
        &self,
        name: &EntryName,
        skip_cache: bool,
    ) -> Result<Retrieved, ArchiveError> {
        let mut entry = self.stat(name).await?;
        for _ in 0..MAX_READS {
            if let Some(found) = self.read_tiers(&entry, skip_cache).await? {
                return Ok(found);
            }
            // The entry may have been destroyed or replaced, and its file deleted.
            let now = self.stat(name).await?;
            if now.number == entry.number {
                return self.retrieve_copy(entry).await;
            }
            entry = now;
        }
        Err(ArchiveError::Source(format!(
            "{name} was replaced {MAX_READS} times while it was read; ask again"
        )))
    }

    /// Reads an entry from the fast tiers or the disk; `None` if its file is missing or damaged.
    async fn read_tiers(
        &self,
        entry: &Entry,
        skip_cache: bool,
    ) -> Result<Option<Retrieved>, ArchiveError> {
        let found = |tier: &'static str, body: Body| {
            Ok(Some(Retrieved {
                entry: entry.clone(),
                tier,
                body,
            }))
        };
        if let Content::Media(id) = &entry.content {
            return found("runtime", Body::Media(id.clone()));
        }
        if !skip_cache && let Some((tier, content)) = self.0.copies.get(entry).await {
            return found(tier, Body::Bytes(content));
        }
        let begun = Instant::now();
        let Some(body) = self.read_disk(entry).await? else {
            return Ok(None);
        };
        count(&self.0.durable_counts.hits);
        if let Body::Bytes(content) = &body {
            self.fill(&entry.sha256, content.clone(), begun.elapsed())
                .await;
        }
        found("durable", body)
    }

    /// Restores a damaged or missing content from another tier.
    async fn retrieve_copy(&self, entry: Entry) -> Result<Retrieved, ArchiveError> {
        count(&self.0.durable_counts.invalid);
        tracing::error!(name = %entry.name, "archive: a content is damaged or missing");
        let copy = self.repair(&entry).await?;
        let (tier, content) = copy.ok_or_else(|| ArchiveError::Damaged(entry.name.clone()))?;
        Ok(Retrieved {
            entry,
            tier,
            body: Body::Bytes(content),
        })
    }

    /// Reads a stored content past the fast tiers, compared with its SHA-256; `None` if its file is
    /// missing or damaged.
    ///
    /// # Errors
    /// If the disk can't be read.
    pub async fn read_disk(&self, entry: &Entry) -> Result<Option<Body>, ArchiveError> {
        let entry = entry.clone();
        let read = move |durable: &Durable| match entry.bytes <= MAX_CACHED {
            true => Ok(durable.read(&entry)?.map(Body::Bytes)),
            false => Ok(durable.open_content(&entry)?.map(Body::File)),
        };
        self.blocking(read).await
    }

    /// Restores a content from the first tier with a copy, and names that tier; `None` if all
    /// answer that they have none.
    ///
    /// # Errors
    /// [`ArchiveError::Source`] if no tier gives a copy and one gives no sound answer, or if the
    /// disk refuses: there may be a copy then.
    pub(crate) async fn repair(
        &self,
        entry: &Entry,
    ) -> Result<Option<(&'static str, Bytes)>, ArchiveError> {
        let mut silent = Vec::new();
        let mut found = self.0.copies.find(entry).await.unwrap_or_else(|why| {
            silent.push(why);
            None
        });
        if found.is_none()
            && let Some(objects) = &self.0.objects
        {
            match objects.get(&entry.sha256).await {
                Ok(copy) => found = copy.map(|content| (objects.name(), content)),
                Err(error) => silent.push(format!("{}: {error}", objects.name())),
            }
        }
        let Some((tier, content)) = found else {
            if silent.is_empty() {
                return Ok(None);
            }
            return Err(ArchiveError::Source(format!(
                "{}: its content is damaged or missing, and a tier may have a copy but gives \
                 none: {}; keep the entry, and try again when that tier answers",
                entry.name,
                silent.join("; ")
            )));
        };
        let (hash, copy) = (entry.sha256, content.clone());
        self.blocking(move |durable| durable.repair(&hash, &copy))
            .await?;
        Ok(Some((tier, content)))
    }

    /// Gives a content to the fast tiers, unless its last entry was destroyed meanwhile.
    async fn fill(&self, hash: &ContentHash, content: Bytes, cost: Duration) {
        self.0.copies.put(hash, content, cost).await;
        let wanted = *hash;
        let is_gone = move |durable: &Durable| Ok(durable.index().blob(&wanted).is_none());
        if self.blocking(is_gone).await.is_ok_and(|is_gone| is_gone) {
            self.0.copies.remove(&[*hash]).await;
        }
    }

    /// Removes contents without an entry from the fast tiers. Returns those that did not answer.
    pub(crate) async fn drop_copies(&self, removed: &Removed) -> Vec<String> {
        if !removed.contents.is_empty() {
            self.wake_objects();
        }
        let copies = self.0.copies.remove(&removed.contents).await;
        copies.unreachable.into_iter().collect()
    }

    fn wake_objects(&self) {
        if let Some(objects) = &self.0.objects {
            objects.wake();
        }
    }

    /// Answers a query.
    ///
    /// # Errors
    /// If a condition is invalid, or likeness is asked for without embeddings.
    pub async fn query(&self, query: Query) -> Result<Matches, ArchiveError> {
        self.query_near(query, None).await
    }

    /// Answers a query; with `near` the most alike to that direction first.
    ///
    /// # Errors
    /// As [`Archive::query`].
    pub async fn query_near(
        &self,
        query: Query,
        near: Option<QueryVector>,
    ) -> Result<Matches, ArchiveError> {
        self.blocking(move |durable| search::query(durable, &query, near, Timestamp::now()))
            .await
    }

    /// Answers a query in plain words. `now` is the time of the box, with its zone; `cameras` are
    /// the names that cameras have beside their IDs.
    ///
    /// # Errors
    /// If the words are too many, none is understood, or one is not and nothing is named beside it.
    pub async fn find(
        &self,
        words: String,
        now: Zoned,
        cameras: CameraNames,
    ) -> Result<verb::Found, ArchiveError> {
        let find = move |durable: &Durable| search::find(durable, &words, &now, cameras);
        self.blocking(find).await
    }

    /// Removes what has expired.
    ///
    /// # Errors
    /// If the disk refuses.
    pub async fn expire(&self) -> Result<usize, ArchiveError> {
        let removed = self
            .blocking(|durable| durable.expire(Timestamp::now()))
            .await?;
        self.drop_copies(&removed).await;
        Ok(removed.names.len())
    }

    /// Copies to the object tier and deletes there, without end; returns at once without such a
    /// tier.
    pub async fn serve_objects(&self) {
        if let Some(objects) = &self.0.objects {
            objects.serve(&self.0.durable).await;
        }
    }

    pub(crate) fn durable(&self) -> &Durable {
        &self.0.durable
    }

    pub(crate) fn copies(&self) -> &Copies {
        &self.0.copies
    }

    pub(crate) fn objects(&self) -> Option<&ObjectQueue> {
        self.0.objects.as_ref()
    }

    /// State of the durable tier at the start.
    pub(crate) fn open_report(&self) -> &OpenReport {
        &self.0.report
    }

    pub(crate) fn durable_counts(&self) -> &TierCounts {
        &self.0.durable_counts
    }
}

/// Estimates the time to read a content that was just written.
fn estimated_cost(bytes: u64) -> Duration {
    Duration::from_nanos(500_000_u64.saturating_add(bytes.saturating_mul(10)))
}
