//! The records of a store whose disk accepts no write.
//!
//! - The disk is left as it is: what opening has to repair is repaired in memory.
//! - Files that can't be read, for damage or any other reason, give an empty store that is not
//!   complete. Repairing and reporting damage is left to the next opening for writing.
//! - Holds the folder's lock where the disk has a lock file.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::{Builder, Database, ReadableDatabase, ReadableTable};

use crate::batch::{Batch, Keyspace};
use crate::error::StoreError;
use crate::guard::{self, StoreFault, fault_to_error};
use crate::open::OpenReport;
use crate::options::Options;
use crate::overlay::Overlay;
use crate::record::{self, BadRecord};
use crate::table::{FILE, RECORDS, newer_record};
use crate::{Entry, Page, Store, format, lock, reads, witness};

#[derive(Debug)]
pub(crate) struct ReadOnlyStore {
    db: Database,
    data: PathBuf,
    mark: Option<Vec<u8>>,
    is_complete: bool,
    lock: Mutex<Option<File>>,
}

impl ReadOnlyStore {
    /// Opens what the folder `root` holds.
    ///
    /// # Errors
    /// When another process uses the folder, or a newer version wrote it.
    pub(crate) fn open(root: &Path, options: &Options) -> Result<(Self, OpenReport), StoreError> {
        let held = lock::take_existing(root)?;
        let data = root.join("data");
        let file = data.join(FILE);
        let opened = match File::open(&file) {
            Ok(file) => {
                let is_old = format::check(root)?.is_some();
                read(&data, Some(file), options).map(|(db, report)| (db, report, !is_old))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // With other data there is something to set aside first.
                let is_new = !data.exists();
                read(&data, None, options).map(|(db, report)| (db, report, is_new))
            }
            Err(e) => Err(StoreFault::Io(e)),
        };
        let (db, report, is_complete) = match opened {
            Ok(opened) => opened,
            Err(StoreFault::Newer(newer)) => return Err(newer.into()),
            Err(fault) => {
                tracing::error!(path = %file.display(), ?fault, "stored records can't be read");
                let empty = read(&data, None, options);
                let (db, report) = empty.map_err(|f| fault_to_error(&data, "read", f))?;
                (db, report, false)
            }
        };
        let acknowledged = witness::read(root);
        let lost = acknowledged.number > report.batches;
        let store = Self {
            db,
            data,
            mark: acknowledged.mark,
            is_complete: is_complete && !lost && report.corrupt.is_empty(),
            lock: Mutex::new(held),
        };
        Ok((store, report))
    }

    /// Whether these are the records that opening for writing will find.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Releases the folder's lock, for an attempt to open it for writing.
    pub(crate) fn release(&self) {
        drop(self.held().take());
    }

    /// Takes the folder's lock again after a failed attempt.
    pub(crate) fn take_lock(&self, root: &Path) -> Result<(), StoreError> {
        *self.held() = lock::take_existing(root)?;
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Option<File>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unread(&self, fault: StoreFault) -> StoreError {
        fault_to_error(&self.data, "read", fault)
    }
}

/// Opens the database in `file`, or an empty one, and counts its records.
fn read(
    data: &Path,
    file: Option<File>,
    options: &Options,
) -> Result<(Database, OpenReport), StoreFault> {
    let is_new = file.is_none();
    let overlay = Overlay::new(file).map_err(StoreFault::Io)?;
    let mut report = OpenReport::empty();
    let mut newer = None;
    let db = guard::call(|| {
        let db = Builder::new()
            .set_cache_size(options.cache_bytes())
            .set_check_integrity_on_open(true)
            .create_with_backend(overlay)?;
        if is_new {
            let transaction = db.begin_write()?;
            transaction.open_table(RECORDS)?;
            transaction.commit()?;
        }
        for item in db.begin_read()?.open_table(RECORDS)?.iter()? {
            let (full, raw) = item?;
            match record::decode(full.value(), raw.value()) {
                Err(BadRecord::Newer(found)) => {
                    newer = Some(newer_record(data, full.value(), found));
                    break;
                }
                decoded => report.add(full.value(), decoded),
            }
        }
        Ok(db)
    })?;
    match newer {
        Some(newer) => Err(StoreFault::Newer(newer)),
        None => Ok((db, report)),
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

    fn last(&self, keyspace: Keyspace) -> Result<Option<Entry>, StoreError> {
        reads::last(&self.db, keyspace).map_err(|fault| self.unread(fault))
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
        self.mark.clone()
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
