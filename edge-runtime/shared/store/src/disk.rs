//! The store on redb.
//!
//! One table holds every keyspace (`name 0x00 key`). A batch is one transaction, committed without
//! waiting for the device: readers see it at once. [`DiskStore::sync`] commits an empty transaction
//! that does wait, which makes all of them durable (`redb::Durability`), then writes the witness.
//! Concurrent callers share one such round.
//!
//! A batch number is written to the witness only once the batch is on stable storage.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::{Mutex, MutexGuard};
use redb::{Database, Durability};

use crate::batch::{Batch, Keyspace, Op};
use crate::error::StoreError;
use crate::guard::{self, StoreFault, fault_to_error};
use crate::lock::{self, FolderLock};
use crate::open::{self, OpenReport};
use crate::options::Options;
use crate::table::{BATCHES, FILE, RECORDS, full_key};
use crate::witness::{self, Acknowledged, Witness};
use crate::{Page, Store, reads, record};

/// A batch of deletes alone may use the free bytes down to this fraction of the minimum.
const DELETES_MAY_USE: u64 = 16;

/// Records on disk.
#[derive(Debug)]
pub struct DiskStore {
    db: Database,
    data: PathBuf,
    min_free_bytes: u64,
    /// The last batch that was applied; a sync covers what it sees here when it begins.
    written: Mutex<Acknowledged>,
    /// Batches are numbered in the order in which they are applied.
    writer: Mutex<()>,
    witness: Witness,
    /// The last batch that is durable.
    synced: Mutex<Acknowledged>,
    /// First failure after which nothing is acknowledged any more.
    poison: OnceLock<String>,
    // Last, so that it is released after the database is closed.
    _lock: FolderLock,
}

impl DiskStore {
    /// Opens the store in the folder `root`, creates it if it is missing, and reports its state.
    ///
    /// Blocks while it reads and checks every record.
    ///
    /// # Errors
    /// When the folder is in use, can't be written, or the disk is full. When a newer version wrote
    /// it; nothing in it is changed then. Damage is not an error: damaged files are set aside, and
    /// [`OpenReport::outcome`] reports it.
    pub fn open(root: &Path, options: &Options) -> Result<(Self, OpenReport), StoreError> {
        Self::open_noting(root, options, |_, _| Ok(Batch::new()))
    }

    /// Opens like [`Self::open`], and stores a note about what was found.
    ///
    /// `note` makes a batch from the store and the report. It is written in the batch that removes
    /// damaged records, and is durable before the witness forgets what is missing. A loss that the
    /// next opening can't find any more is therefore in the note.
    ///
    /// # Errors
    /// Those of [`Self::open`], and those of `note`: nothing was removed then.
    pub fn open_noting(
        root: &Path,
        options: &Options,
        note: impl FnOnce(&dyn Store, &OpenReport) -> Result<Batch, StoreError>,
    ) -> Result<(Self, OpenReport), StoreError> {
        let lock = open::take_folder(root, options, None)?;
        Self::open_locked(lock, root, options, || (), note)
    }

    /// Opens like [`Self::open_noting`] a folder whose lock is held. `begin_changes` is called
    /// before a reader of the files could notice a change.
    pub(crate) fn open_locked(
        lock: FolderLock,
        root: &Path,
        options: &Options,
        begin_changes: impl FnOnce(),
        note: impl FnOnce(&dyn Store, &OpenReport) -> Result<Batch, StoreError>,
    ) -> Result<(Self, OpenReport), StoreError> {
        let (db, data, mut report) = open::open(root, options, begin_changes)?;
        let (witness, acknowledged) =
            Witness::open(root).map_err(|e| StoreError::from_io(root, "open the witness", e))?;
        report.compare(acknowledged.number);
        // Numbers of lost batches are not given again; the next batch brings store and witness
        // together.
        let written = Acknowledged {
            number: report.batches.max(acknowledged.number),
            mark: acknowledged.mark.clone(),
        };
        let store = Self {
            db,
            data,
            min_free_bytes: options.min_free_bytes,
            written: Mutex::new(written),
            writer: Mutex::new(()),
            witness,
            synced: Mutex::new(Acknowledged {
                number: 0,
                mark: acknowledged.mark,
            }),
            poison: OnceLock::new(),
            _lock: lock,
        };
        let note = note(&store, &report)?;
        store.settle(&mut report, &note)?;
        lock::note_verified(root);
        Ok((store, report))
    }

    /// Removes damaged records, so that they are reported once and not at every read, writes the
    /// `note` about them, and makes all of it durable.
    ///
    /// A failure poisons nothing: nothing was acknowledged, and the caller drops the handle. So a
    /// disk that refuses only now is the reason to wait that it is elsewhere.
    fn settle(&self, report: &mut OpenReport, note: &Batch) -> Result<(), StoreError> {
        let failed = |fault| fault_to_error(&self.data, "write", fault);
        // Without a note a loss is reported only once: this batch's number is behind all that are
        // missing.
        let is_sound = report.corrupt_raw.is_empty() && report.outcome.is_clean();
        if !is_sound || !note.is_empty() {
            note.check()?;
            let corrupt = std::mem::take(&mut report.corrupt_raw);
            self.apply(&corrupt, note).map_err(failed)?;
        }
        // A killed run may have left writes that are only in the kernel's cache.
        self.round(&mut self.group()).map_err(failed)
    }

    /// Makes a store over another kind of redb backend, in the folder `root`.
    #[cfg(test)]
    pub(crate) fn over(db: Database, root: &Path) -> Result<Self, StoreError> {
        let lock = FolderLock::take(root, None)?;
        let (witness, _) =
            Witness::open(root).map_err(|e| StoreError::from_io(root, "open the witness", e))?;
        Ok(Self {
            db,
            data: root.to_owned(),
            min_free_bytes: 0,
            written: Mutex::default(),
            writer: Mutex::new(()),
            witness,
            synced: Mutex::default(),
            poison: OnceLock::new(),
            _lock: lock,
        })
    }

    /// Applies `batch`, and removes the records at the full keys `gone`.
    fn apply(&self, gone: &[Vec<u8>], batch: &Batch) -> Result<(), StoreFault> {
        let _writer = self.writer.lock();
        let number = self.written().number + 1;
        guard::call(|| apply(&self.db, gone, batch, number))?;
        let mut written = self.written();
        written.number = number;
        if let Some(mark) = batch.new_mark() {
            written.mark = Some(mark.to_vec());
        }
        Ok(())
    }

    fn healthy(&self) -> Result<(), StoreError> {
        match self.poison.get() {
            None => Ok(()),
            Some(why) => Err(StoreError::Poisoned {
                path: self.data.clone(),
                why: why.clone(),
            }),
        }
    }

    fn poisoned_by(&self, what: &'static str, fault: StoreFault) -> StoreError {
        let error = fault_to_error(&self.data, what, fault);
        // Only the first failure is kept: it is the cause of the others.
        if self.poison.set(error.to_string()).is_ok() {
            tracing::error!(path = %self.data.display(), %error, "store accepts no more writes; restart the daemon");
        }
        // Only a restart helps now, even where it was a full disk.
        match error {
            error if error.is_transient() => StoreError::Poisoned {
                path: self.data.clone(),
                why: error.to_string(),
            },
            error => error,
        }
    }

    /// Reports a read that found damage and stops writing: new records would build upon it.
    fn unread(&self, fault: StoreFault) -> StoreError {
        match fault {
            StoreFault::Damage(_) => self.poisoned_by("read", fault),
            fault => fault_to_error(&self.data, "read", fault),
        }
    }

    /// The last applied batch; locked for moments only, never while the database works.
    fn written(&self) -> MutexGuard<'_, Acknowledged> {
        self.written.lock()
    }

    fn group(&self) -> MutexGuard<'_, Acknowledged> {
        self.synced.lock()
    }

    /// Makes everything written durable, and writes the witness.
    fn round(&self, synced: &mut Acknowledged) -> Result<(), StoreFault> {
        let covered = self.written().clone();
        guard::call(|| make_durable(&self.db))?;
        self.witness.note(&covered).map_err(StoreFault::Io)?;
        *synced = covered;
        Ok(())
    }

    /// Runs [`Self::round`], unless an earlier write failed.
    fn acknowledge(&self, synced: &mut Acknowledged) -> Result<(), StoreError> {
        self.healthy()?;
        self.round(synced)
            .map_err(|fault| self.poisoned_by("write", fault))
    }
}

/// Removes the records at the full keys `gone` and applies `batch` with its `number`, all or
/// nothing; not durable yet.
fn apply(db: &Database, gone: &[Vec<u8>], batch: &Batch, number: u64) -> Result<(), redb::Error> {
    let mut transaction = db.begin_write()?;
    transaction.set_durability(Durability::None)?;
    {
        let mut records = transaction.open_table(RECORDS)?;
        for full in gone {
            records.remove(full.as_slice())?;
        }
        for op in batch.ops() {
            match op {
                Op::Put {
                    keyspace,
                    key,
                    value,
                } => {
                    let full = full_key(keyspace.name(), key);
                    records.insert(full.as_slice(), record::encode(&full, value).as_slice())?;
                }
                Op::Delete { keyspace, key } => {
                    records.remove(full_key(keyspace.name(), key).as_slice())?;
                }
            }
        }
        records.insert(BATCHES, witness::encode(BATCHES, number).as_slice())?;
    }
    Ok(transaction.commit()?)
}

/// Makes everything committed durable.
fn make_durable(db: &Database) -> Result<(), redb::Error> {
    let mut transaction = db.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    Ok(transaction.commit()?)
}

impl Store for DiskStore {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        reads::get(&self.db, keyspace, key, |fault| self.unread(fault))
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        reads::scan(&self.db, keyspace, from, limit).map_err(|fault| self.unread(fault))
    }

    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check()?;
        self.healthy()?;
        // Deletes stay possible on a nearly full disk: they make room. They too are written to new
        // pages, so a disk without any room would poison the store.
        let has_puts = batch.ops().iter().any(|op| matches!(op, Op::Put { .. }));
        let floor = if has_puts {
            self.min_free_bytes
        } else {
            self.min_free_bytes / DELETES_MAY_USE
        };
        open::check_free(&self.data, floor.saturating_add(batch.bytes()))?;
        self.apply(&[], &batch)
            .map_err(|fault| self.poisoned_by("write", fault))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mine = self.written().number;
        let mut synced = self.group();
        if synced.number >= mine {
            return Ok(());
        }
        self.acknowledge(&mut synced)
    }

    fn check(&self) -> Result<(), StoreError> {
        let mut synced = self.group();
        if synced.number < self.written().number {
            return self.acknowledge(&mut synced);
        }
        // No batch can be pending then, and an empty transaction would still cost the database
        // pages.
        self.healthy()?;
        self.witness
            .note(&synced)
            .map_err(|e| self.poisoned_by("write", StoreFault::Io(e)))
    }

    fn mark(&self) -> Option<Vec<u8>> {
        self.group().mark.clone()
    }

    fn poison(&self) -> Option<String> {
        self.poison.get().cloned()
    }

    fn size_on_disk(&self) -> Result<u64, StoreError> {
        let file = self.data.join(FILE);
        match std::fs::metadata(&file) {
            Ok(metadata) => Ok(metadata.len()),
            Err(e) => Err(StoreError::from_io(file, "measure", e)),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use proptest::prelude::*;
    use redb::StorageBackend;
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::table::split_key;

    /// A disk that refuses syncs with an error of its quota.
    #[derive(Debug, Default)]
    struct Quota {
        inner: InMemoryBackend,
        is_exceeded: Arc<AtomicBool>,
    }

    impl StorageBackend for Quota {
        fn len(&self) -> io::Result<u64> {
            self.inner.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.inner.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.inner.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            match self.is_exceeded.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::QuotaExceeded.into()),
                false => self.inner.sync_data(),
            }
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.inner.write(offset, data)
        }
    }

    #[test]
    fn refusal_while_opening_is_no_poison_but_a_later_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Quota::default();
        let is_exceeded = Arc::clone(&disk.is_exceeded);
        let db = redb::Builder::new().create_with_backend(disk).unwrap();
        let store = DiskStore::over(db, dir.path()).unwrap();
        is_exceeded.store(true, Ordering::Relaxed);
        let refused = store.settle(&mut OpenReport::empty(), &Batch::new());
        assert!(
            matches!(refused, Err(StoreError::Full { .. })),
            "{refused:?}"
        );
        assert_eq!(store.poison(), None);
        let batch = Batch::new().put(Keyspace::new("k"), b"a", b"b");
        assert!(store.commit(batch).is_err());
        assert!(store.poison().is_some());
    }

    proptest! {
        #[test]
        fn a_full_key_splits_into_what_it_was_made_of(name in "[a-z0-9_]{1,32}", key: Vec<u8>) {
            prop_assert_eq!(split_key(&full_key(&name, &key)), (name, key));
        }
    }
}
