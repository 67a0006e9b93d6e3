//! The records of a store that is not open for writing yet.
//!
//! - The disk is left unchanged: redb reads the last commit as it is, or the one before it.
//! - A store that its last process closed, or a kill left since this boot, is whole: it may be read
//!   before it is verified. Of another one, all records are read first.
//! - Files that can't be read, for damage or any other reason, give an empty store that is not
//!   complete. Repairing and reporting damage is left to the next opening for writing.
//! - Holds the folder's lock where the disk has a lock file. Without one, another process may
//!   change the files: [`ReadOnlyStore::is_found_by`] says whether one did.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use redb::backends::InMemoryBackend;
use redb::{Builder, ReadableDatabase};

use crate::batch::{Batch, Keyspace};
use crate::error::StoreError;
use crate::guard::{self, StoreFault, fault_to_error};
use crate::open::{self, OpenOutcome, OpenReport};
use crate::options::Options;
use crate::table::{BATCHES, FILE, RECORDS};
use crate::{Page, Store, format, lock, reads, record, salvage, witness};

type Reader = Box<dyn ReadableDatabase + Send + Sync>;

pub(crate) struct ReadOnlyStore {
    db: Reader,
    data: PathBuf,
    contents: Contents,
    /// Whether opening for writing has nothing to repair.
    is_complete: bool,
    lock: Option<File>,
}

/// What changes with every batch: its number, and the mark of the last one.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    batches: u64,
    mark: Option<Vec<u8>>,
}

impl fmt::Debug for ReadOnlyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ReadOnlyStore");
        debug
            .field("data", &self.data)
            .field("contents", &self.contents);
        debug.finish_non_exhaustive()
    }
}

impl ReadOnlyStore {
    /// Opens a folder in which records can be written, and reads none of them. `None` where the
    /// store has to be verified first: after a power cut, a repair that was cut, or a loss.
    pub(crate) fn open_unverified(root: &Path, options: &Options) -> Option<Self> {
        let lock = open::take_folder(root, options, None).ok()?;
        format::check(root).ok()?;
        let data = root.join("data");
        let file = File::open(data.join(FILE)).ok()?;
        let is_whole = lock.was_verified || salvage::is_closed(&file);
        if !is_whole || root.join(open::NEW).exists() {
            return None;
        }
        let opened = guard::call(|| {
            let db = salvage::open_as_it_is(file, 0, options)?;
            let records = db.begin_read()?.open_table(RECORDS)?;
            let raw = records.get(BATCHES)?;
            let number =
                raw.and_then(|raw| witness::number(record::decode(BATCHES, raw.value()).ok()?));
            Ok((db, number))
        });
        let (db, number) = opened.ok()?;
        let acknowledged = witness::read(root);
        let batches = number.filter(|number| *number >= acknowledged.number)?;
        Some(Self {
            db: Box::new(db),
            data,
            contents: Contents {
                batches,
                mark: acknowledged.mark,
            },
            is_complete: true,
            lock: Some(lock.share().ok()?),
        })
    }

    /// Opens what the folder `root` holds.
    ///
    /// # Errors
    /// When another process uses the folder, or a newer version wrote it.
    pub(crate) fn open(root: &Path, options: &Options) -> Result<(Self, OpenReport), StoreError> {
        let held = lock::take_existing(root)?;
        Self::open_locked(held, root, options)
    }

    /// Opens like [`Self::open`], with the lock `held` if there is one.
    pub(crate) fn open_locked(
        held: Option<File>,
        root: &Path,
        options: &Options,
    ) -> Result<(Self, OpenReport), StoreError> {
        let data = root.join("data");
        format::check(root)?;
        let (read, is_complete) = match read(&data, options) {
            Ok(read) => (Ok(read), true),
            Err(StoreFault::Newer(newer)) => return Err(newer.into()),
            Err(StoreFault::Io(e)) if e.kind() == io::ErrorKind::NotFound => (empty(), true),
            Err(fault) => {
                tracing::error!(path = %data.display(), ?fault, "stored records can't be read");
                (empty(), false)
            }
        };
        let (db, report) = read.map_err(|fault| fault_to_error(&data, "read", fault))?;
        let acknowledged = witness::read(root);
        let lost = acknowledged.number > report.batches;
        let store = Self {
            db,
            data,
            contents: Contents {
                batches: report.batches,
                mark: acknowledged.mark,
            },
            is_complete: is_complete && !lost && report.corrupt.is_empty(),
            lock: held,
        };
        Ok((store, report))
    }

    /// Returns whether opening for writing, with this `report` and `mark`, found these records.
    pub(crate) fn is_found_by(&self, report: &OpenReport, mark: Option<Vec<u8>>) -> bool {
        let is_sound = report.outcome == OpenOutcome::Clean && report.corrupt.is_empty();
        let batches = report.batches;
        self.is_complete && is_sound && Contents { batches, mark } == self.contents
    }

    /// Returns whether `other` has the same records.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.is_complete == other.is_complete && self.contents == other.contents
    }

    /// Returns the folder's lock, if it is held.
    pub(crate) fn lock(&self) -> Option<&File> {
        self.lock.as_ref()
    }

    fn unread(&self, fault: StoreFault) -> StoreError {
        fault_to_error(&self.data, "read", fault)
    }
}

/// Opens the database of the folder `data` as it is, or the commit before where the last one can't
/// be read, and counts its records.
fn read(data: &Path, options: &Options) -> Result<(Reader, OpenReport), StoreFault> {
    let of_commit = |turned| {
        let file = File::open(data.join(FILE)).map_err(StoreFault::Io)?;
        let mut report = OpenReport::empty();
        let (db, newer) = guard::call(|| {
            let db = salvage::open_as_it_is(file, turned, options)?;
            let newer = report.count(&db, data)?;
            Ok((db, newer))
        })?;
        match newer {
            Some(newer) => Err(StoreFault::Newer(newer)),
            None => Ok((Box::new(db) as Reader, report)),
        }
    };
    match of_commit(0) {
        Err(StoreFault::Damage(_)) => of_commit(salvage::PRIMARY_SLOT),
        last => last,
    }
}

/// A database without records, in memory.
fn empty() -> Result<(Reader, OpenReport), StoreFault> {
    let db = guard::call(|| {
        let db = Builder::new().create_with_backend(InMemoryBackend::new())?;
        let transaction = db.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.commit()?;
        Ok(db)
    })?;
    Ok((Box::new(db), OpenReport::empty()))
}

impl Store for ReadOnlyStore {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        reads::get(&*self.db, keyspace, key, |fault| self.unread(fault))
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        reads::scan(&*self.db, keyspace, from, limit).map_err(|fault| self.unread(fault))
    }

    fn write(&self, _: Batch) -> Result<(), StoreError> {
        Err(self.refusal())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Err(self.refusal())
    }

    fn check(&self) -> Result<(), StoreError> {
        Err(self.refusal())
    }

    fn mark(&self) -> Option<Vec<u8>> {
        self.contents.mark.clone()
    }

    fn poison(&self) -> Option<String> {
        None
    }

    fn size_on_disk(&self) -> Result<u64, StoreError> {
        match std::fs::metadata(self.data.join(FILE)) {
            Ok(metadata) => Ok(metadata.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(StoreError::from_io(self.data.join(FILE), "measure", e)),
        }
    }
}

impl ReadOnlyStore {
    fn refusal(&self) -> StoreError {
        let source = io::ErrorKind::ReadOnlyFilesystem.into();
        StoreError::NotWritable {
            path: self.data.clone(),
            source,
        }
    }
}
