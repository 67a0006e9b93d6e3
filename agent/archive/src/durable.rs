//! The durable tier: contents as files, entries as records. Everything here blocks.
//!
//! - Persist, then speak: content synced and renamed, then its record committed, then the answer.
//! - A removal commits first and deletes the file then. A crash between leaves a file without an
//!   entry, which the next start deletes.
//! - After damage to the records no file is deleted at the start: it may belong to a lost record.
//!   Nor is it at a later start, until the folder has no file without an entry.
//! - After a failed sync the change is seen, in the records and the index, and its files stay: a
//!   restart may undo it.
//! - Changes are made one at a time. Reading a record or a file waits for none of them. A sum, a
//!   selection or the fill of fast tiers waits for a change, but for no sync.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use watchkeeper_store::{Batch, LateStore, Options, Store, StoreError, pages};

use crate::ContentHash;
use crate::blobs::{BlobFolder, Sealed, Staged, unless_damaged};
use crate::entry::{Content, Entry, NewEntry};
use crate::error::{ArchiveError, Uncommitted};
pub use crate::eviction::Limits;
use crate::eviction::{make_room, make_room_for_references};
use crate::index::Index;
use crate::name::EntryName;
use crate::on_disk::{self, EMBEDDINGS, ENTRIES, ObjectTask};
use crate::open_report::{OpenReport, scan_entries, settle_files};
use crate::slot::Slot;
use crate::vectors::VectorCache;

/// Share of the bytes of records that the index may take in memory for details: 32 MiB of 1 GiB.
const DETAILS_SHARE: u64 = 32;
/// Entries that are read at a time: at most 12 MiB with the longest metadata.
const ENTRIES_PAGE: usize = 256;

#[derive(Debug)]
pub struct Durable {
    blobs: BlobFolder,
    store: Arc<dyn Store>,
    limits: Limits,
    /// Whether contents are copied to an object tier.
    has_objects: bool,
    writer: Mutex<()>,
    index: Mutex<Index>,
    vectors: VectorCache,
    /// Stored entries that made room for others since the start.
    evictions: AtomicU64,
}

/// Entries and contents that a change removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    pub names: Vec<EntryName>,
    /// Contents without an entry now.
    pub contents: Vec<ContentHash>,
}

impl Removed {
    pub(crate) fn extend(&mut self, other: Self) {
        self.names.extend(other.names);
        self.contents.extend(other.contents);
    }
}

impl Durable {
    /// Opens the tier in the folder `root`.
    ///
    /// # Errors
    /// If its store or its folders can't be opened or read.
    pub fn open(
        root: &Path,
        limits: Limits,
        has_objects: bool,
    ) -> Result<(Self, OpenReport), ArchiveError> {
        let note = Box::new(|_: &dyn Store, _: &_| Ok(Batch::new()));
        let (store, report) = LateStore::open(&root.join("records"), &Options::default(), note)?;
        let is_clean = report.outcome.is_clean() && report.corrupt.is_empty();
        Self::over(root, Arc::new(store), is_clean, limits, has_objects)
    }

    /// Opens the tier over a store. `is_clean`: no record of the store was lost.
    ///
    /// # Errors
    /// If the store or a folder can't be read.
    pub fn over(
        root: &Path,
        store: Arc<dyn Store>,
        is_clean: bool,
        limits: Limits,
        has_objects: bool,
    ) -> Result<(Self, OpenReport), ArchiveError> {
        let blobs = BlobFolder::open(root)?;
        let mut report = OpenReport::default();
        let details = usize::try_from(limits.max_record_bytes / DETAILS_SHARE);
        let mut index = Index::new(details.unwrap_or(usize::MAX));
        scan_entries(&*store, &mut index, &mut report)?;
        report.entries = index.totals().stored + index.totals().references;
        let is_sound = is_clean && report.unreadable == 0;
        settle_files(&*store, &blobs, &index, is_sound, &mut report)?;
        let durable = Self {
            blobs,
            store,
            limits,
            has_objects,
            writer: Mutex::new(()),
            index: Mutex::new(index),
            vectors: VectorCache::default(),
            evictions: AtomicU64::new(0),
        };
        Ok((durable, report))
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    pub(crate) fn vectors(&self) -> &VectorCache {
        &self.vectors
    }

    pub(crate) fn write_lock(&self) -> MutexGuard<'_, ()> {
        self.writer.lock()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Begins a content.
    ///
    /// # Errors
    /// If the disk is full or refuses.
    pub fn stage(&self) -> Result<Staged, ArchiveError> {
        self.blobs.stage(self.limits.largest())
    }

    /// Makes a content an entry, durable when this returns. An entry of that name is replaced; a
    /// protected one with this content stays unchanged, with its metadata.
    ///
    /// # Errors
    /// If a field is invalid, the name is protected, protected entries leave no room, or the disk
    /// refuses. Nothing is changed then, unless the sync failed.
    pub fn commit(
        &self,
        sealed: &Sealed,
        new: NewEntry,
        now: Timestamp,
    ) -> Result<(Entry, Removed), ArchiveError> {
        new.check()?;
        // A sound content that has an entry was copied to the object tier, or has its task.
        let is_copied = self.has_objects && self.is_sound(&sealed.hash).unwrap_or_default();
        let _writer = self.write_lock();
        if let Some(entry) = self.protected(&new.name, now)? {
            if entry.sha256 != sealed.hash {
                return Err(ArchiveError::Protected(entry.name.to_string()));
            }
            // Its file may be damaged.
            self.blobs.publish(sealed)?;
            return Ok((entry, Removed::default()));
        }
        let (entry, evicted, current) = {
            let index = self.index();
            let content = (sealed.hash, sealed.bytes);
            let entry = new.into_entry(content, Content::Stored, index.next_number(), now);
            let slot = Slot::of(&entry);
            let now_us = now.as_microsecond();
            let room = make_room(&index, &slot, &self.limits, now_us)?;
            let slots = room.iter().filter_map(|name| index.slot(name));
            let current = slots.filter(|slot| slot.is_there(now_us)).count();
            (entry, room, current)
        };
        // It may be that of an entry whose removal was not synced.
        let had_file = self.blobs.open_file(&sealed.hash).is_ok();
        self.blobs.publish(sealed)?;
        let mut batch = Batch::new();
        on_disk::put_entry(&mut batch, &entry);
        let is_new = self.index().blob(&sealed.hash).is_none();
        if self.has_objects && (is_new || !is_copied) {
            on_disk::put_task(&mut batch, &entry.sha256, ObjectTask::Copy);
        }
        let removed = self.apply(batch, &evicted, std::slice::from_ref(&entry));
        if let Err(Uncommitted::Untouched(_)) = &removed
            && !had_file
        {
            self.blobs.remove(&sealed.hash);
        }
        let removed = removed?;
        self.evictions.fetch_add(current as u64, Ordering::Relaxed);
        Ok((entry, removed))
    }

    /// Number of stored entries that made room for others since the start.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Returns the entry of a name if it is protected.
    fn protected(&self, name: &EntryName, now: Timestamp) -> Result<Option<Entry>, ArchiveError> {
        let slot = self.index().slot(name).cloned();
        match slot {
            Some(slot) if slot.is_protected => self.entry(name, now),
            _ => Ok(None),
        }
    }

    /// Adds references to media of the runtime, and the journal's cursor after them, in one step.
    /// An entry of such a name that is stored stays.
    ///
    /// # Errors
    /// If the disk refuses. Nothing is changed then, unless the sync failed.
    pub fn add_references(
        &self,
        new: Vec<(NewEntry, ContentHash, u64, String)>,
        cursor: u64,
        now: Timestamp,
    ) -> Result<Removed, ArchiveError> {
        let _writer = self.write_lock();
        let mut batch = Batch::new();
        let (entries, evicted) = {
            let index = self.index();
            let from = index.next_number();
            let is_free = |name: &EntryName| index.slot(name).is_none_or(|slot| !slot.is_stored);
            let new = new.into_iter().filter(|(new, ..)| is_free(&new.name));
            // A page of the journal is far below the bound of references.
            let new = new.filter(|(new, ..)| is_sound_reference(new));
            let entries: Vec<Entry> = (from..)
                .zip(new)
                .map(|(number, (new, hash, bytes, media))| {
                    new.into_entry((hash, bytes), Content::Media(media), number, now)
                })
                .collect();
            let records = entries.iter();
            let records = records.map(|entry| (entry.name.clone(), entry.record_bytes()));
            let evicted = make_room_for_references(&index, &records.collect(), &self.limits);
            (entries, evicted)
        };
        entries
            .iter()
            .for_each(|entry| on_disk::put_entry(&mut batch, entry));
        on_disk::put_cursor(&mut batch, cursor);
        Ok(self.apply(batch, &evicted, &entries)?)
    }

    /// Returns the number of the last journal record indexed; 0 if none.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn cursor(&self) -> Result<u64, StoreError> {
        on_disk::cursor(&*self.store)
    }

    /// Commits `batch` with the removal of `gone`, then applies both to index and files. The caller
    /// holds the writer's lock.
    pub(crate) fn apply(
        &self,
        mut batch: Batch,
        gone: &[EntryName],
        put: &[Entry],
    ) -> Result<Removed, Uncommitted> {
        gone.iter()
            .for_each(|name| on_disk::delete_entry(&mut batch, name));
        // Contents that lose their last entry are known only after the changes are made on the
        // index. No reader may see them there before the commit, so the lock is held over it.
        let mut index = self.index();
        let changed = gone.iter().chain(put.iter().map(|entry| &entry.name));
        let before = changed.filter_map(|name| index.slot(name).cloned());
        let before: Vec<Arc<Slot>> = before.collect();
        let mut contents: Vec<ContentHash> = Vec::new();
        contents.extend(put.iter().filter_map(|e| index.put(Slot::of(e))));
        contents.extend(gone.iter().filter_map(|name| index.remove(name)));
        contents.retain(|hash| index.blob(hash).is_none());
        let lost = before.iter().filter(|slot| slot.is_picture());
        let lost = lost
            .map(|slot| slot.hash)
            .filter(|hash| !index.has_picture(hash));
        let lost: Vec<ContentHash> = lost.collect();
        for hash in &lost {
            batch = batch.delete(EMBEDDINGS, &hash.0);
        }
        if self.has_objects {
            let delete = |hash| on_disk::put_task(&mut batch, hash, ObjectTask::Delete);
            contents.iter().for_each(delete);
        }
        if let Err(error) = self.store.write(batch) {
            for entry in put {
                index.remove(&entry.name);
            }
            for slot in before {
                index.put_shared(slot);
            }
            return Err(Uncommitted::Untouched(error));
        }
        // Readers may see a change that is not synced, as they do after a failed sync. The writer's
        // lock keeps the order of changes.
        drop(index);
        lost.iter()
            .for_each(|hash| self.vectors.follow(*hash, None));
        self.store.sync().map_err(Uncommitted::Unsynced)?;
        contents.iter().for_each(|hash| self.blobs.remove(hash));
        Ok(Removed {
            names: gone.to_vec(),
            contents,
        })
    }

    /// Returns an entry that has not expired.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn entry(&self, name: &EntryName, now: Timestamp) -> Result<Option<Entry>, ArchiveError> {
        let stored = self.store.get(ENTRIES, name.as_str().as_bytes())?;
        let entry = stored.and_then(|v| on_disk::read_entry(name.as_str().as_bytes(), &v));
        Ok(entry.filter(|entry| !entry.is_expired(now)))
    }

    /// Returns the entry of a slot; `None` if it was replaced or removed, or its record is damaged.
    pub(crate) fn entry_of(
        &self,
        slot: &Slot,
        now: Timestamp,
    ) -> Result<Option<Entry>, ArchiveError> {
        let entry = match self.entry(slot.name(), now) {
            Err(ArchiveError::Store(StoreError::Corrupt { .. })) => None,
            read => read?,
        };
        Ok(entry.filter(|entry| entry.number == slot.number))
    }

    /// Returns whether a scan of all entries takes less time than reads of so many. One record by
    /// itself takes about three times as long as one of a page.
    pub(crate) fn are_most(&self, slots: usize) -> bool {
        let totals = self.index().totals();
        slots > 0 && slots * 3 >= totals.stored + totals.references
    }

    /// Calls `visit` with the entries of these slots, and perhaps with others. One that was
    /// replaced, removed or damaged is left out.
    pub(crate) fn visit(
        &self,
        slots: &[&Arc<Slot>],
        now: Timestamp,
        mut visit: impl FnMut(Entry),
    ) -> Result<(), ArchiveError> {
        if self.are_most(slots.len()) {
            return self.scan(now, visit);
        }
        for slot in slots {
            self.entry_of(slot, now)?.map(&mut visit);
        }
        Ok(())
    }

    /// Calls `visit` with every entry that has not expired, in the order of names. A damaged record
    /// is left out.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn scan(&self, now: Timestamp, mut visit: impl FnMut(Entry)) -> Result<(), ArchiveError> {
        for page in pages(&*self.store, ENTRIES, ENTRIES_PAGE) {
            let records = page?.entries.into_iter();
            let entries = records.filter_map(|r| on_disk::read_entry(&r.key, &r.value));
            entries
                .filter(|entry| !entry.is_expired(now))
                .for_each(&mut visit);
        }
        Ok(())
    }

    /// Reads a content whole; `None` if its file is missing or damaged.
    ///
    /// # Errors
    /// If the disk can't be read.
    pub fn read(&self, entry: &Entry) -> Result<Option<Bytes>, ArchiveError> {
        unless_damaged(self.blobs.read(&entry.sha256, entry.bytes), &entry.name)
    }

    /// Reads a content whole; false if its file is missing or has other bytes.
    pub(crate) fn is_sound(&self, hash: &ContentHash) -> Result<bool, ArchiveError> {
        Ok(unless_damaged(self.blobs.open_sound(hash), hash)?.is_some())
    }

    /// Opens a content, read whole and compared with its hash; `None` if its file is missing or
    /// damaged.
    ///
    /// # Errors
    /// If the disk can't be read.
    pub fn open_content(&self, entry: &Entry) -> Result<Option<File>, ArchiveError> {
        unless_damaged(self.blobs.open_sound(&entry.sha256), &entry.name)
    }

    /// Replaces a damaged file by a copy from another tier, if the content still has an entry. A
    /// picture waits for its embedding again.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn repair(&self, hash: &ContentHash, content: &[u8]) -> Result<(), ArchiveError> {
        let mut staged = self.blobs.stage((u64::MAX, "none"))?;
        staged.append(content)?;
        let sealed = staged.seal()?;
        let _writer = self.write_lock();
        if sealed.hash == *hash && self.index().blob(hash).is_some() {
            self.blobs.publish(&sealed)?;
            self.index().queue_content(hash);
        }
        Ok(())
    }

    /// Returns the content with this hash, for a copy; `None` if it has no entry any more.
    ///
    /// # Errors
    /// If the disk can't be read.
    pub(crate) fn content(&self, hash: &ContentHash) -> Result<Option<Bytes>, ArchiveError> {
        let Some(blob) = self.index().blob(hash) else {
            return Ok(None);
        };
        unless_damaged(self.blobs.read(hash, blob.bytes), hash)
    }
}

/// Whether a reference fulfils the bounds of an entry; one that does not is logged.
fn is_sound_reference(new: &NewEntry) -> bool {
    let checked = new.check();
    if let Err(error) = &checked {
        tracing::warn!(name = %new.name, %error, "archive: media of an event are not indexed");
    }
    checked.is_ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::store_for_tests::HookedStore;

    #[test]
    fn query_waits_for_no_sync() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::<HookedStore>::default();
        let shared = Arc::clone(&store) as Arc<dyn Store>;
        let opened = Durable::over(folder.path(), shared, true, Limits::default(), false);
        let durable = Arc::new(opened.unwrap().0);
        let syncs = Arc::<AtomicUsize>::default();
        let (watched, count) = (Arc::clone(&durable), Arc::clone(&syncs));
        let hook = Box::new(move || {
            assert!(
                watched.index.try_lock().is_some(),
                "queries wait for a sync"
            );
            count.fetch_add(1, Ordering::SeqCst);
        });
        assert!(store.hook.set(hook).is_ok());
        let name: EntryName = "yard/a.jpg".parse().unwrap();
        let sealed = durable.stage().unwrap().seal().unwrap();
        let new = NewEntry::named(name.clone());
        durable.commit(&sealed, new, Timestamp::now()).unwrap();
        durable.destroy(&[name]).unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), 2);
    }
}
