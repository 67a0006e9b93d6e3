//! The archive as its callers see it: all tiers behind the verbs.
//!
//! - Ingest is write-through: durable first and acknowledged only then; fast tiers best effort.
//! - Reads are cache-aside: memory, memcached, disk; the object tier where the file is damaged.
//! - A tier that fails costs its timeout once, then it is marked down. It never fails a verb.
//! - Whatever blocks runs on blocking threads.

use std::fs::File;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use jiff::{Timestamp, Zoned};
use tokio::sync::{Notify, mpsc};

use crate::blobs::{MAX_CACHED, Sealed, Staged};
use crate::durable::{Durable, Found, Limits, Removed};
use crate::entry::{Content, Entry, Exif, Metadata, NewEntry, Retention};
use crate::error::ArchiveError;
use crate::hash::ContentHash;
use crate::memory_tier::MemoryTier;
use crate::name::{EntryName, check_collection};
use crate::query::{Matches, Query, Search};
use crate::stats::{Stats, TierCounts, count};
use crate::tier::Tier;
use crate::verb::{self, Answer, Destroyed, Pruned, Selection, Verb};
use crate::words::{self, Vocabulary};

/// Bytes of a picture that are searched for its metadata.
const EXIF_BYTES: u64 = 1 << 20;

/// Chunks of a content that wait for the disk.
const CHUNKS_AHEAD: usize = 4;

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
    durable: Durable,
    memory: MemoryTier,
    shared: Option<Arc<dyn Tier>>,
    objects: Option<Arc<dyn Tier>>,
    memory_counts: TierCounts,
    shared_counts: TierCounts,
    durable_counts: TierCounts,
    object_counts: TierCounts,
    objects_too_large: AtomicU64,
    /// Wakes the task that serves the object tier.
    has_tasks: Notify,
}

/// The content of an entry.
#[derive(Debug)]
pub enum Body {
    Bytes(Bytes),
    /// A large content, from its file.
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
    pub fn open(settings: Settings) -> Result<(Self, Found), ArchiveError> {
        let Settings {
            folder,
            limits,
            memory_bytes,
            shared,
            objects,
        } = settings;
        let (durable, found) = Durable::open(&folder, limits, objects.is_some())?;
        let inner = Inner {
            durable,
            memory: MemoryTier::new(memory_bytes),
            shared,
            objects,
            memory_counts: TierCounts::default(),
            shared_counts: TierCounts::default(),
            durable_counts: TierCounts::default(),
            object_counts: TierCounts::default(),
            objects_too_large: AtomicU64::new(0),
            has_tasks: Notify::new(),
        };
        Ok((Self(Arc::new(inner)), found))
    }

    /// Runs `work` on a blocking thread.
    async fn blocking<T, F>(&self, work: F) -> Result<T, ArchiveError>
    where
        T: Send + 'static,
        F: FnOnce(&Durable) -> Result<T, ArchiveError> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&inner.durable)).await;
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "archive: a request panicked");
            let sentence = "the archive failed inside; its log says more".to_owned();
            Err(ArchiveError::Refused(sentence))
        })
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
            add_exif(&mut new.metadata, &sealed);
            durable.commit(&sealed, new, Timestamp::now())
        };
        let (entry, removed) = self.blocking(commit).await?;
        self.drop_copies(&removed).await;
        if let Some(content) = head {
            self.fill(&entry.sha256, content, estimated_cost(entry.bytes))
                .await;
        }
        self.0.has_tasks.notify_one();
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

    /// Adds references to media of the runtime, and the journal's cursor behind them.
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

    /// Returns what is known of an entry.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if there is none of that name.
    pub async fn stat(&self, name: &EntryName) -> Result<Entry, ArchiveError> {
        let wanted = name.clone();
        let find = move |durable: &Durable| durable.entry(&wanted, Timestamp::now());
        let found = self.blocking(find).await?;
        found.ok_or_else(|| ArchiveError::NotFound(name.to_string()))
    }

    /// Returns an entry with its content. `skip_cache`: not from a fast tier; they get it anew.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] and [`ArchiveError::Damaged`], or if the disk can't be read.
    pub async fn retrieve(
        &self,
        name: &EntryName,
        skip_cache: bool,
    ) -> Result<Retrieved, ArchiveError> {
        let entry = self.stat(name).await?;
        if let Content::Media(id) = &entry.content {
            let body = Body::Media(id.clone());
            return Ok(Retrieved {
                entry,
                tier: "runtime",
                body,
            });
        }
        if !skip_cache && let Some((tier, content)) = self.from_fast_tiers(&entry).await {
            let body = Body::Bytes(content);
            return Ok(Retrieved { entry, tier, body });
        }
        let begun = Instant::now();
        if let Some(body) = self.from_disk(&entry).await? {
            count(&self.0.durable_counts.hits);
            if let Body::Bytes(content) = &body {
                self.fill(&entry.sha256, content.clone(), begun.elapsed())
                    .await;
            }
            let tier = "durable";
            return Ok(Retrieved { entry, tier, body });
        }
        // The entry may have been destroyed meanwhile.
        self.stat(name).await?;
        count(&self.0.durable_counts.invalid);
        tracing::error!(%name, "archive: a content is damaged or missing");
        let content = self.repair(&entry).await?;
        let content = content.ok_or_else(|| ArchiveError::Damaged(name.clone()))?;
        let body = Body::Bytes(content);
        Ok(Retrieved {
            entry,
            tier: "s3",
            body,
        })
    }

    async fn from_fast_tiers(&self, entry: &Entry) -> Option<(&'static str, Bytes)> {
        let inner = &*self.0;
        let memory = asked(&inner.memory, &inner.memory_counts, &entry.sha256, true).await;
        if let Some(content) = memory {
            return Some((inner.memory.name(), content));
        }
        let shared = inner.shared.as_deref()?;
        if entry.bytes > shared.max_bytes() {
            return None;
        }
        let begun = Instant::now();
        let content = asked(shared, &inner.shared_counts, &entry.sha256, false).await?;
        self.fill_memory(&entry.sha256, content.clone(), begun.elapsed())
            .await;
        Some((shared.name(), content))
    }

    async fn from_disk(&self, entry: &Entry) -> Result<Option<Body>, ArchiveError> {
        let entry = entry.clone();
        let read = move |durable: &Durable| match entry.bytes <= MAX_CACHED {
            true => Ok(durable.read(&entry)?.map(Body::Bytes)),
            false => Ok(durable.open_content(&entry)?.map(Body::File)),
        };
        self.blocking(read).await
    }

    /// Brings a content back from the object tier.
    async fn repair(&self, entry: &Entry) -> Result<Option<Bytes>, ArchiveError> {
        let Some(objects) = self.0.objects.as_deref() else {
            return Ok(None);
        };
        let found = asked(objects, &self.0.object_counts, &entry.sha256, false).await;
        let Some(content) = found else {
            return Ok(None);
        };
        let (hash, copy) = (entry.sha256, content.clone());
        self.blocking(move |durable| durable.repair(&hash, &copy))
            .await?;
        Ok(Some(content))
    }

    /// Gives a content to the fast tiers, unless its last entry was destroyed meanwhile.
    async fn fill(&self, hash: &ContentHash, content: Bytes, cost: Duration) {
        self.fill_copies(hash, content, cost).await;
        let wanted = *hash;
        let is_gone = move |durable: &Durable| Ok(durable.index().blob(&wanted).is_none());
        if self.blocking(is_gone).await.is_ok_and(|is_gone| is_gone) {
            self.remove_copies(&[*hash]).await;
        }
    }

    async fn fill_copies(&self, hash: &ContentHash, content: Bytes, cost: Duration) {
        self.fill_memory(hash, content.clone(), cost).await;
        if let Some(shared) = &self.0.shared
            && content.len() as u64 <= shared.max_bytes()
            && shared.put(hash, content, cost).await.is_err()
        {
            count(&self.0.shared_counts.errors);
        }
    }

    async fn fill_memory(&self, hash: &ContentHash, content: Bytes, cost: Duration) {
        let memory = &self.0.memory;
        if content.len() as u64 <= memory.max_bytes() {
            // Memory never fails.
            memory.put(hash, content, cost).await.ok();
        }
    }

    /// Removes contents without an entry from the fast tiers. Returns those that did not answer.
    async fn drop_copies(&self, removed: &Removed) -> Vec<String> {
        if !removed.contents.is_empty() {
            self.0.has_tasks.notify_one();
        }
        let (_, unreachable) = self.remove_copies(&removed.contents).await;
        unreachable
    }

    /// Removes contents from the fast tiers. Returns the removed copies by tier.
    async fn remove_copies(
        &self,
        contents: &[ContentHash],
    ) -> (std::collections::BTreeMap<String, u64>, Vec<String>) {
        let memory: Option<&dyn Tier> = Some(&self.0.memory);
        let tiers = memory.into_iter().chain(self.0.shared.as_deref());
        let (mut removed, mut unreachable) = (std::collections::BTreeMap::new(), Vec::new());
        for tier in tiers {
            let mut count = 0;
            for hash in contents {
                match tier.remove(hash).await {
                    Ok(was_there) => count += u64::from(was_there),
                    Err(error) => {
                        tracing::warn!(tier = tier.name(), %error, "archive: a copy stays");
                        unreachable.push(tier.name().to_owned());
                        break;
                    }
                }
            }
            removed.insert(tier.name().to_owned(), count);
        }
        (removed, unreachable)
    }

    /// Answers a query.
    ///
    /// # Errors
    /// If a condition is invalid, or likeness is asked for without embeddings.
    pub async fn query(&self, query: Query) -> Result<Matches, ArchiveError> {
        self.blocking(move |durable| search(durable, &query, Timestamp::now()))
            .await
    }

    /// Answers a query in plain words; `now` is the time of the box, with its zone.
    ///
    /// # Errors
    /// If the words are too many, or no word is understood.
    pub async fn find(&self, words: String, now: Zoned) -> Result<verb::Found, ArchiveError> {
        let find = move |durable: &Durable| {
            let mut known = Vocabulary::default();
            durable.scan(None, None, now.timestamp(), |entry| known.add(&entry))?;
            let read = words::read(&words, &known, &now)?;
            let matches = search(durable, &read.query, now.timestamp())?;
            Ok(verb::Found {
                query: read.query,
                not_understood: read.not_understood,
                matches,
            })
        };
        self.blocking(find).await
    }

    /// The names and contents of a selection.
    async fn selected(
        &self,
        selection: Selection,
    ) -> Result<Vec<(EntryName, ContentHash, bool)>, ArchiveError> {
        let shown = match &selection {
            Selection::Entry(name) => name.to_string(),
            Selection::Collection(name) => {
                check_collection(name)?;
                format!("of the collection {name}")
            }
        };
        let select = move |durable: &Durable| {
            let index = durable.index();
            Ok(match &selection {
                Selection::Entry(name) => {
                    let slot = index
                        .slot(name)
                        .map(|slot| (name.clone(), slot.hash, slot.is_stored));
                    slot.into_iter().collect::<Vec<_>>()
                }
                Selection::Collection(name) => {
                    let found = index.in_collection(name);
                    found
                        .map(|(name, slot)| (name.clone(), slot.hash, slot.is_stored))
                        .collect()
                }
            })
        };
        let found = self.blocking(select).await?;
        match found.is_empty() {
            true => Err(ArchiveError::NotFound(shown)),
            false => Ok(found),
        }
    }

    /// Returns the references of a selection; none where nothing is selected.
    ///
    /// # Errors
    /// If the collection is invalid.
    pub async fn references(&self, selection: Selection) -> Result<Vec<EntryName>, ArchiveError> {
        let selected = match self.selected(selection).await {
            Err(ArchiveError::NotFound(_)) => Vec::new(),
            selected => selected?,
        };
        let references = selected.into_iter().filter(|(_, _, is_stored)| !is_stored);
        Ok(references.map(|(name, ..)| name).collect())
    }

    /// Removes the copies of a selection from the fast tiers. Its entries stay.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if nothing is selected.
    pub async fn prune(&self, selection: Selection) -> Result<Pruned, ArchiveError> {
        let selected = self.selected(selection).await?;
        let stored = selected.iter().filter(|(_, _, is_stored)| *is_stored);
        let contents: Vec<ContentHash> = stored.map(|(_, hash, _)| *hash).collect();
        let (removed, unreachable) = self.remove_copies(&contents).await;
        Ok(Pruned {
            entries: selected.len() as u64,
            removed,
            unreachable,
        })
    }

    /// Removes a selection from all tiers, for good when this returns; from the object tier soon.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if nothing is selected, [`ArchiveError::Protected`] if one of it
    /// is protected. Nothing is removed then.
    pub async fn destroy(&self, selection: Selection) -> Result<Destroyed, ArchiveError> {
        let selected = self.selected(selection).await?;
        let references = selected
            .iter()
            .filter(|(_, _, is_stored)| !is_stored)
            .count();
        let names: Vec<EntryName> = selected.into_iter().map(|(name, ..)| name).collect();
        let removed = self
            .blocking(move |durable| durable.destroy(&names))
            .await?;
        let unreachable = self.drop_copies(&removed).await;
        Ok(Destroyed {
            entries: removed.names.len() as u64,
            contents: removed.contents.len() as u64,
            references: references as u64,
            unreachable,
        })
    }

    /// Changes how long a selection is kept.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] if nothing is selected, [`ArchiveError::Reference`] when a
    /// reference is to be protected.
    pub async fn set_retention(
        &self,
        selection: Selection,
        retention: Retention,
    ) -> Result<usize, ArchiveError> {
        let selected = self.selected(selection).await?;
        let names: Vec<EntryName> = selected.into_iter().map(|(name, ..)| name).collect();
        let set =
            move |durable: &Durable| durable.set_retention(&names, retention, Timestamp::now());
        self.blocking(set).await
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

    /// Counts contents and reads.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn stats(&self) -> Result<Stats, ArchiveError> {
        let read = |durable: &Durable| {
            let waiting = crate::object_queue::count_waiting(durable.store())?;
            Ok((
                durable.totals(),
                durable.index().collections(),
                waiting,
                durable.limits(),
            ))
        };
        let (totals, collections, objects_waiting, limits) = self.blocking(read).await?;
        let inner = &*self.0;
        let (cached_contents, cached_bytes, cache_evictions) = {
            let memory = inner.memory.contents();
            (memory.contents() as u64, memory.bytes(), memory.evictions())
        };
        let mut tiers = vec![inner.memory_counts.stats("memory", Vec::new())];
        let shared = inner.shared.as_deref();
        tiers.extend(shared.map(|t| inner.shared_counts.stats(t.name(), t.endpoints())));
        tiers.push(inner.durable_counts.stats("durable", Vec::new()));
        let objects = inner.objects.as_deref();
        tiers.extend(objects.map(|t| inner.object_counts.stats(t.name(), t.endpoints())));
        Ok(Stats {
            entries: totals.stored as u64,
            references: totals.references as u64,
            contents: totals.contents as u64,
            bytes: totals.bytes,
            max_bytes: limits.max_bytes,
            cached_contents,
            cached_bytes,
            max_cached_bytes: inner.memory.total_bytes(),
            cache_evictions,
            objects_waiting,
            objects_too_large: inner
                .objects_too_large
                .load(std::sync::atomic::Ordering::Relaxed),
            collections,
            tiers,
        })
    }

    /// Serves the object tier for ever; ends at once without one.
    pub async fn serve_objects(&self) {
        let Some(objects) = self.0.objects.clone() else {
            return;
        };
        let inner = &self.0;
        let too_large = &inner.objects_too_large;
        crate::object_queue::serve(self, &*objects, &inner.has_tasks, too_large).await;
    }

    pub(crate) async fn on_disk<T, F>(&self, work: F) -> Result<T, ArchiveError>
    where
        T: Send + 'static,
        F: FnOnce(&Durable) -> Result<T, ArchiveError> + Send + 'static,
    {
        self.blocking(work).await
    }

    /// Runs a verb that needs nothing outside the archive; `now` is the time of the box.
    ///
    /// # Errors
    /// Those of the verb. [`ArchiveError::Refused`] for `ingest`: its caller reads the source.
    pub async fn run(&self, verb: Verb, now: Zoned) -> Result<Answer, ArchiveError> {
        let changed = |count: usize| Answer::Changed {
            entries: count as u64,
        };
        Ok(match verb {
            Verb::Ingest(_) => {
                let sentence = "this caller reads no sources; ingest over the agent".to_owned();
                return Err(ArchiveError::Refused(sentence));
            }
            Verb::Query { query } => Answer::Matches(self.query(*query).await?),
            Verb::Find { words } => Answer::Found(Box::new(self.find(words, now).await?)),
            Verb::List => {
                let list = |durable: &Durable| Ok(durable.index().collections());
                let collections = self.blocking(list).await?;
                Answer::Collections { collections }
            }
            Verb::Stat { name } => {
                let entry = Box::new(self.stat(&name).await?);
                Answer::Entry { entry }
            }
            Verb::Prune { selection } => Answer::Pruned(self.prune(selection).await?),
            Verb::Destroy { selection } => Answer::Destroyed(self.destroy(selection).await?),
            Verb::Protect { selection } => {
                changed(self.set_retention(selection, Retention::Protected).await?)
            }
            Verb::Unprotect { selection } => {
                changed(self.set_retention(selection, Retention::Normal).await?)
            }
            Verb::Stats => Answer::Stats(Box::new(self.stats().await?)),
        })
    }
}

/// Asks a tier for a content and checks it. Memory is trusted.
async fn asked(
    tier: &dyn Tier,
    counts: &TierCounts,
    hash: &ContentHash,
    is_trusted: bool,
) -> Option<Bytes> {
    match tier.get(hash).await {
        Ok(Some(content)) if is_trusted || ContentHash::of(&content) == *hash => {
            count(&counts.hits);
            Some(content)
        }
        Ok(Some(_)) => {
            count(&counts.invalid);
            tracing::warn!(tier = tier.name(), "archive: a copy is not what was stored");
            // A failure leaves it; the next read checks it again.
            tier.remove(hash).await.ok();
            None
        }
        Ok(None) => {
            count(&counts.misses);
            None
        }
        Err(_) => {
            count(&counts.errors);
            None
        }
    }
}

/// Estimates the time to bring back a content that was just written.
fn estimated_cost(bytes: u64) -> Duration {
    Duration::from_nanos(500_000_u64.saturating_add(bytes.saturating_mul(10)))
}

fn search(durable: &Durable, query: &Query, now: Timestamp) -> Result<Matches, ArchiveError> {
    let like = match &query.like {
        Some(name) => Some(embedding(durable, name, now)?),
        None => None,
    };
    let mut search = Search::new(query, like.as_deref())?;
    let collection = search.collection().map(str::to_owned);
    durable.scan(collection.as_deref(), query.after.as_ref(), now, |entry| {
        search.visit(entry);
        true
    })?;
    Ok(search.finish())
}

fn embedding(
    durable: &Durable,
    name: &EntryName,
    now: Timestamp,
) -> Result<Vec<f32>, ArchiveError> {
    let found = durable.entry(name, now)?;
    let found = found.ok_or_else(|| ArchiveError::NotFound(name.to_string()))?;
    match found.metadata.embedding.is_empty() {
        false => Ok(found.metadata.embedding),
        true => Err(ArchiveError::Refused(format!(
            "{name} has no embedding, so likeness is unknown; ingest it with metadata.embedding of \
             a CLIP model"
        ))),
    }
}

/// Adds what a picture file says of itself, where the caller did not.
fn add_exif(metadata: &mut Metadata, sealed: &Sealed) {
    if metadata.exif.is_some() {
        return;
    }
    let head = sealed.first_bytes(EXIF_BYTES);
    let is_picture = head.starts_with(b"\xff\xd8") || head.starts_with(b"\x89PNG");
    let found = is_picture.then(|| watchkeeper_pictures::metadata::read(&head));
    let Some(found) = found else { return };
    let exif = Exif {
        taken: found.taken.map(|at| at.to_string()),
        camera: found.camera,
        latitude: found.place.map(|place| place.latitude),
        longitude: found.place.map(|place| place.longitude),
    };
    if exif != Exif::default() {
        metadata.exif = Some(exif);
    }
}
