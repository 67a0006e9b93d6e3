//! The records of a store whose disk accepts no write.
//!
//! - The disk is left unchanged: what opening has to repair is repaired in memory.
//! - Files that can't be read, for damage or any other reason, give an empty store that is not
//!   complete. Repairing and reporting damage is left to the next opening for writing.
//! - Holds the folder's lock where the disk has a lock file. Without one, another process may
//!   change the files: [`ReadOnlyStore::is_found_by`] says whether one did.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use redb::{Builder, Database};

use crate::batch::{Batch, Keyspace};
use crate::error::StoreError;
use crate::guard::{self, StoreFault, fault_to_error};
use crate::open::{OpenOutcome, OpenReport};
use crate::options::Options;
use crate::overlay::{EndSwitch, Overlay};
use crate::table::{FILE, RECORDS};
use crate::{Page, Store, format, lock, reads, witness};

#[derive(Debug)]
pub(crate) struct ReadOnlyStore {
    // Before the database, whose closing then finds no disk.
    _end: EndSwitch,
    db: Database,
    data: PathBuf,
    contents: Contents,
    /// Whether opening for writing has nothing to repair.
    is_complete: bool,
    lock: Option<File>,
}

/// Numbers that change with every batch.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    batches: u64,
    records: u64,
    live_bytes: u64,
    mark: Option<Vec<u8>>,
}

impl Contents {
    fn new(report: &OpenReport, mark: Option<Vec<u8>>) -> Self {
        Self {
            batches: report.batches,
            records: report.records,
            live_bytes: report.live_bytes,
            mark,
        }
    }
}

impl ReadOnlyStore {
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
        let file = data.join(FILE);
        format::check(root)?;
        let opened = match File::open(&file) {
            Ok(file) => read(&data, Some(file), options),
            Err(e) if e.kind() == io::ErrorKind::NotFound => read(&data, None, options),
            Err(e) => Err(StoreFault::Io(e)),
        };
        let (read, is_complete) = match opened {
            Ok(read) => (read, true),
            Err(StoreFault::Newer(newer)) => return Err(newer.into()),
            Err(fault) => {
                tracing::error!(path = %file.display(), ?fault, "stored records can't be read");
                let empty = read(&data, None, options);
                let empty = empty.map_err(|f| fault_to_error(&data, "read", f))?;
                (empty, false)
            }
        };
        let Read { end, db, report } = read;
        let acknowledged = witness::read(root);
        let lost = acknowledged.number > report.batches;
        let store = Self {
            _end: end,
            db,
            data,
            contents: Contents::new(&report, acknowledged.mark),
            is_complete: is_complete && !lost && report.corrupt.is_empty(),
            lock: held,
        };
        Ok((store, report))
    }

    /// Returns whether opening for writing, with this `report` and `mark`, found these records.
    pub(crate) fn is_found_by(&self, report: &OpenReport, mark: Option<Vec<u8>>) -> bool {
        let is_sound = report.outcome == OpenOutcome::Clean && report.corrupt.is_empty();
        self.is_complete && is_sound && Contents::new(report, mark) == self.contents
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

/// A database that was read.
struct Read {
    end: EndSwitch,
    db: Database,
    report: OpenReport,
}

/// Opens the database in `file`, or an empty one, and counts its records.
fn read(data: &Path, file: Option<File>, options: &Options) -> Result<Read, StoreFault> {
    let is_new = file.is_none();
    let overlay = Overlay::new(file).map_err(StoreFault::Io)?;
    let end = overlay.end_switch();
    let mut report = OpenReport::empty();
    let (db, newer) = guard::call(|| {
        let db = Builder::new()
            .set_cache_size(options.cache_bytes())
            .set_check_integrity_on_open(true)
            .create_with_backend(overlay)?;
        if is_new {
            let transaction = db.begin_write()?;
            transaction.open_table(RECORDS)?;
            transaction.commit()?;
        }
        let newer = report.count(&db, data)?;
        Ok((db, newer))
    })?;
    match newer {
        Some(newer) => Err(StoreFault::Newer(newer)),
        None => Ok(Read { end, db, report }),
    }
}

impl Store for ReadOnlyStore {
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
