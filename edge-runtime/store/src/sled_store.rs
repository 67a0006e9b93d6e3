//! The store on sled 0.34.
//!
//! One sled tree holds every keyspace (`name 0x00 key`), so a batch over several keyspaces is one atomic batch of
//! sled (`Tree::apply_batch` pegs the log: recovered whole or not at all).
//!
//! Durability: `Tree::flush` of sled 0.34 ends in `sync_file_range` (`pagecache/iobuf.rs:736`), which flushes neither
//! the file's metadata nor the drive's cache. So [`SledStore::sync`] does `flush`, then `fdatasync` on a second
//! descriptor of the same file, then the same for blob files that are new, and has the witness written. Concurrent
//! callers share one such round. The second descriptor is also what tells of a failed write of the kernel's that sled
//! did not ask for: each open file hears of it once (`errseq_t`, Linux 4.13), and sled's own background sync only logs it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::batch::{Batch, Keyspace, Op};
use crate::durable::sync_folder;
use crate::error::StoreError;
use crate::guard::{self, Fault};
use crate::lock::FolderLock;
use crate::open::{self, BATCHES, OpenReport, Options};
use crate::witness::{self, Witness};
use crate::{CorruptRecord, Entry, Page, Store, record};

/// A batch of deletes alone may go below the bytes that have to stay free, down to this part of them.
const DELETES_MAY_USE: u64 = 16;

/// Records on disk.
#[derive(Debug)]
pub struct SledStore {
    db: sled::Db,
    /// Second descriptor of sled's file, for `fdatasync`.
    db_file: File,
    data: PathBuf,
    min_free_bytes: u64,
    /// Number of the last batch that was applied; a sync covers all that it sees here when it begins.
    written: AtomicU64,
    /// Batches are numbered in the order in which they are applied.
    writer: Mutex<()>,
    witness: Witness,
    group: Mutex<Group>,
    /// First failure after which nothing is acknowledged any more.
    poison: OnceLock<String>,
    // Last, so that it is given back after the database is closed.
    _lock: FolderLock,
}

#[derive(Debug, Default)]
struct Group {
    synced: u64,
    blobs: BTreeSet<OsString>,
}

impl SledStore {
    /// Opens the store in the folder `root`, making it where it is missing, and says what state it was in.
    ///
    /// Blocks for as long as reading and checking every record takes.
    ///
    /// # Errors
    /// When the folder is in use, can't be written, was written by a newer version (nothing in it is changed then), or the
    /// disk is full. Damage is no error: it is repaired or set aside, and [`OpenReport::outcome`] says so.
    pub fn open(root: &Path, options: &Options) -> Result<(Self, OpenReport), StoreError> {
        Self::open_noting(root, options, |_, _| Ok(Batch::new()))
    }

    /// As [`Self::open`], with a note of what was found: what `note` makes of the store and the report is written in the one batch that
    /// takes damaged records out, and is durable before the witness forgets what is missing. So whatever happens to the caller from
    /// here on, a loss that the next opening can't find any more is in the note.
    ///
    /// # Errors
    /// Those of [`Self::open`], and those of `note`: nothing was taken out then.
    pub fn open_noting(
        root: &Path,
        options: &Options,
        note: impl FnOnce(&dyn Store, &OpenReport) -> Result<Batch, StoreError>,
    ) -> Result<(Self, OpenReport), StoreError> {
        let lock = open::take_folder(root, options)?;
        let (db, data, mut report) = open::open(root, options)?;
        let db_path = data.join("db");
        let db_file = File::options()
            .read(true)
            .write(true)
            .open(&db_path)
            .map_err(|e| StoreError::from_io(&db_path, "open", e))?;
        let (witness, acknowledged) =
            Witness::open(root).map_err(|e| StoreError::from_io(root, "open the witness", e))?;
        report.compare(acknowledged);
        let store = Self {
            db,
            db_file,
            data,
            min_free_bytes: options.min_free_bytes,
            written: AtomicU64::new(report.batches),
            writer: Mutex::new(()),
            witness,
            group: Mutex::new(Group::default()),
            poison: OnceLock::new(),
            _lock: lock,
        };
        let note = note(&store, &report)?;
        store.remove_corrupt(&mut report, &note)?;
        // A run that was killed may have left writes that are only in the kernel's cache.
        store.check()?;
        Ok((store, report))
    }

    /// Takes damaged records out, so that they are reported once and not at every read, and writes the `note` of it.
    fn remove_corrupt(&self, report: &mut OpenReport, note: &Batch) -> Result<(), StoreError> {
        if report.corrupt_raw.is_empty() && note.is_empty() {
            return Ok(());
        }
        note.check()?;
        let mut writes = sled::Batch::default();
        for key in report.corrupt_raw.drain(..) {
            writes.remove(key);
        }
        encode(note, &mut writes);
        self.apply(writes)
    }

    fn apply(&self, mut batch: sled::Batch) -> Result<(), StoreError> {
        // Guards no data of its own, so a panicked holder leaves nothing half done.
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.written.load(Ordering::SeqCst) + 1;
        batch.insert(BATCHES, witness::encode(BATCHES, number));
        guard::call(|| self.db.apply_batch(batch)).map_err(|f| self.poisoned_by(f))?;
        self.written.store(number, Ordering::SeqCst);
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

    fn poisoned_by(&self, fault: Fault) -> StoreError {
        let error = fault_to_error(&self.data, "write", fault);
        // Only the first failure is kept: it is the cause of the others.
        if self.poison.set(error.to_string()).is_ok() {
            tracing::error!(path = %self.data.display(), %error, "store takes no more writes");
        }
        error
    }

    /// Makes durable all that is written, and has it witnessed.
    fn round(&self, group: &mut Group) -> Result<(), StoreError> {
        self.healthy()?;
        let covered = self.written.load(Ordering::SeqCst);
        self.sync_files(group)
            .and_then(|()| self.witness.note(covered).map_err(Fault::Io))
            .map_err(|f| self.poisoned_by(f))?;
        group.synced = covered;
        Ok(())
    }

    fn sync_files(&self, group: &mut Group) -> Result<(), Fault> {
        guard::call(|| self.db.flush())?;
        self.db_file.sync_data().map_err(Fault::Io)?;
        let blobs = self.data.join("blobs");
        let mut fresh = false;
        for file in std::fs::read_dir(&blobs).map_err(Fault::Io)? {
            let file = file.map_err(Fault::Io)?;
            let name = file.file_name();
            if !group.blobs.contains(&name) {
                match File::open(file.path()) {
                    Ok(blob) => blob.sync_all().map_err(Fault::Io)?,
                    // sled removed it in between: nothing refers to it.
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(e) => return Err(Fault::Io(e)),
                }
                group.blobs.insert(name);
                fresh = true;
            }
        }
        if fresh {
            sync_folder(&blobs).map_err(Fault::Io)?;
        }
        Ok(())
    }
}

pub(crate) fn fault_to_error(path: &Path, what: &'static str, fault: Fault) -> StoreError {
    match fault {
        Fault::Io(e) => StoreError::from_io(path, what, e),
        Fault::Damage(why) => StoreError::Damaged {
            path: path.to_owned(),
            why,
        },
        Fault::Newer(newer) => newer.into(),
    }
}

/// Key in sled's tree.
pub(crate) fn full_key(keyspace: &str, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(keyspace.len() + 1 + key.len());
    out.extend_from_slice(keyspace.as_bytes());
    out.push(0);
    out.extend_from_slice(key);
    out
}

/// Keyspace and key of a key in sled's tree.
pub(crate) fn split_key(full: &[u8]) -> (String, Vec<u8>) {
    let at = full.iter().position(|b| *b == 0).unwrap_or(full.len());
    let (name, rest) = full.split_at(at);
    (
        String::from_utf8_lossy(name).into_owned(),
        rest.get(1..).unwrap_or_default().to_vec(),
    )
}

/// Adds `batch` to sled's.
fn encode(batch: &Batch, writes: &mut sled::Batch) {
    for op in batch.ops() {
        match op {
            Op::Put {
                keyspace,
                key,
                value,
            } => {
                let full = full_key(keyspace.name(), key);
                let stored = record::encode(&full, value);
                writes.insert(full, stored);
            }
            Op::Delete { keyspace, key } => writes.remove(full_key(keyspace.name(), key)),
        }
    }
}

/// The first key after every key of `keyspace`.
fn end_of(keyspace: Keyspace) -> Vec<u8> {
    let mut end = keyspace.name().as_bytes().to_vec();
    end.push(1);
    end
}

impl Store for SledStore {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let full = full_key(keyspace.name(), key);
        let raw = guard::call(|| self.db.get(&full))
            .map_err(|f| fault_to_error(&self.data, "read", f))?;
        raw.map(|raw| {
            record::decode(&full, &raw)
                .map(<[u8]>::to_vec)
                .map_err(|bad| StoreError::Corrupt {
                    keyspace: keyspace.name(),
                    key: key.escape_ascii().to_string(),
                    why: bad.to_string(),
                })
        })
        .transpose()
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let from = match from {
            Bound::Included(k) => Bound::Included(full_key(keyspace.name(), k)),
            Bound::Excluded(k) => Bound::Excluded(full_key(keyspace.name(), k)),
            Bound::Unbounded => Bound::Included(full_key(keyspace.name(), &[])),
        };
        let raw: Vec<_> = guard::call(|| {
            self.db
                .range::<Vec<u8>, _>((from, Bound::Excluded(end_of(keyspace))))
                .take(limit)
                .collect::<sled::Result<_>>()
        })
        .map_err(|f| fault_to_error(&self.data, "read", f))?;
        let mut page = Page::default();
        for (full, value) in raw {
            let (_, key) = split_key(&full);
            match record::decode(&full, &value) {
                Ok(payload) => page.entries.push(Entry {
                    key,
                    value: payload.to_vec(),
                }),
                Err(bad) => page.corrupt.push(CorruptRecord {
                    keyspace: keyspace.name().to_owned(),
                    key,
                    why: bad.to_string(),
                }),
            }
        }
        Ok(page)
    }

    fn last(&self, keyspace: Keyspace) -> Result<Option<Entry>, StoreError> {
        let found = guard::call(|| {
            for item in self
                .db
                .range(full_key(keyspace.name(), &[])..end_of(keyspace))
                .rev()
            {
                let (full, value) = item?;
                if let Ok(payload) = record::decode(&full, &value) {
                    return Ok(Some(Entry {
                        key: split_key(&full).1,
                        value: payload.to_vec(),
                    }));
                }
            }
            Ok(None)
        });
        found.map_err(|f| fault_to_error(&self.data, "read", f))
    }

    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check()?;
        self.healthy()?;
        // Deletes stay possible on a nearly full disk: they are how room is made. They too are written to sled's log, so a disk without
        // any room would poison the store.
        let has_puts = batch.ops().iter().any(|op| matches!(op, Op::Put { .. }));
        let floor = if has_puts {
            self.min_free_bytes
        } else {
            self.min_free_bytes / DELETES_MAY_USE
        };
        open::check_free(&self.data, floor.saturating_add(batch.bytes()))?;
        let mut writes = sled::Batch::default();
        encode(&batch, &mut writes);
        self.apply(writes)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mine = self.written.load(Ordering::SeqCst);
        // The lock guards numbers that are set only after success, so a panicked holder leaves them true.
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if group.synced >= mine {
            return Ok(());
        }
        self.round(&mut group)
    }

    fn check(&self) -> Result<(), StoreError> {
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        self.round(&mut group)
    }

    fn poison(&self) -> Option<String> {
        self.poison.get().cloned()
    }

    fn size_on_disk(&self) -> Result<u64, StoreError> {
        guard::call(|| self.db.size_on_disk()).map_err(|f| fault_to_error(&self.data, "measure", f))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_full_key_splits_into_what_it_was_made_of(name in "[a-z0-9_]{1,32}", key: Vec<u8>) {
            prop_assert_eq!(split_key(&full_key(&name, &key)), (name, key));
        }
    }
}
