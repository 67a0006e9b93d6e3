//! Durable records behind one small trait.
//!
//! Owns the base of the runtime's journal and the agent's outbox: ordered keyspaces of checksummed
//! records. An acknowledged write survives a killed process and a power cut.
//!
//! - When [`Store::commit`] (or [`Store::sync`]) has returned `Ok`, everything written before is on
//!   stable storage.
//! - A [`Batch`] is applied whole or not at all, over keyspaces too.
//! - A damaged record is reported and skipped, never returned and never a panic.
//! - What a newer version wrote is refused and left unchanged ([`NewerFormat`]).
//! - Acknowledged records that are gone after damage are noticed at opening ([`OpenOutcome`]). The
//!   opener's note about it ([`DiskStore::open_noting`]) is stored in one step with the repair. The
//!   mark of the last acknowledged batch ([`Batch::mark`]) survives outside the database's file.
//! - After a failed sync nothing more is acknowledged until the store is opened again. The kernel
//!   may have dropped the pages and would report the next sync as a success. See Rebello et al.,
//!   "Can Applications Recover from fsync Failures?", USENIX ATC 2020.
//!
//! Not here: what the records mean, retention, media files.

mod batch;
pub mod chain;
mod disk;
pub mod durable;
mod error;
mod faulty;
pub mod file_lock;
mod format;
mod guard;
mod json_records;
mod late;
mod limits;
mod lock;
mod memory;
mod newer;
mod open;
mod options;
mod pages;
#[cfg(test)]
mod power_tests;
pub mod private_folder;
mod read_only;
mod reads;
mod record;
mod salvage;
mod table;
mod waiting;
mod witness;

/// The format of a record, open to the fuzz targets in `tests` only: through a [`Store`] no damaged
/// byte gets in.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::record::{decode, encode};
}

use std::fmt::Debug;
use std::ops::Bound;

pub use batch::{Batch, Keyspace, Op, log_key, log_seq};
pub use disk::DiskStore;
pub use error::StoreError;
pub use faulty::{FaultyStore, Fuse};
pub use json_records::JsonRecords;
pub use late::{LateStore, Note};
pub use limits::{MAX_KEY_BYTES, MAX_MARK_BYTES, MAX_VALUE_BYTES};
pub use lock::{in_use, machine_boot};
pub use memory::MemoryStore;
pub use newer::NewerFormat;
pub use open::{OpenOutcome, OpenReport};
pub use options::Options;
pub use pages::{Pages, pages};
pub use record::BadRecord;
pub use waiting::Waiting;

/// One record: its key without the keyspace, and its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key within the keyspace.
    pub key: Vec<u8>,
    /// Payload as it was written.
    pub value: Vec<u8>,
}

/// A damaged record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorruptRecord {
    /// Keyspace it was found in.
    pub keyspace: String,
    /// Key within the keyspace.
    pub key: Vec<u8>,
    /// The damage, as a phrase.
    pub why: String,
}

/// Part of a keyspace, in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// Damaged records among them.
    pub corrupt: Vec<CorruptRecord>,
}

/// Ordered keyspaces of records. Shared by reference among threads.
pub trait Store: Send + Sync + Debug {
    /// Returns the payload at `key`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the record is damaged, any other when the store can't be read.
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns at most `limit` records of `keyspace` from `from` on, smallest key first. Damaged
    /// records count towards `limit`.
    ///
    /// # Errors
    /// When the store can't be read.
    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError>;

    /// Applies `batch` whole or not at all. Visible to readers at once, durable only after
    /// [`Store::sync`].
    ///
    /// # Errors
    /// When the batch is too large, the disk is full or the store is poisoned; nothing of the batch
    /// is applied then.
    fn write(&self, batch: Batch) -> Result<(), StoreError>;

    /// Makes every write that returned before this call durable. Concurrent callers share one sync.
    ///
    /// # Errors
    /// When the device refuses; the store is poisoned from then on.
    fn sync(&self) -> Result<(), StoreError>;

    /// Runs [`Store::write`] and [`Store::sync`]: durable on return.
    ///
    /// # Errors
    /// Those of the two.
    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.write(batch)?;
        self.sync()
    }

    /// Checks that the store can still be written, without writing a record: makes pending writes
    /// durable and writes a few bytes through.
    ///
    /// Cheap enough for every few seconds, so a failed disk is known before the next write.
    ///
    /// # Errors
    /// When it can't be written; the store is poisoned from then on.
    fn check(&self) -> Result<(), StoreError>;

    /// Returns the mark of the last acknowledged batch that had one. `None` if it is not known,
    /// also when it may be of an earlier batch.
    fn mark(&self) -> Option<Vec<u8>> {
        None
    }

    /// Returns why nothing can be written until the store is opened again, if that is so.
    fn poison(&self) -> Option<String>;

    /// Returns why the store still waits for a full or read-only disk ([`LateStore`]), if it does.
    fn waiting(&self) -> Option<Waiting> {
        None
    }

    /// Returns the bytes of the store's files.
    ///
    /// # Errors
    /// When the files can't be read.
    fn size_on_disk(&self) -> Result<u64, StoreError>;
}

impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(keyspace, key)
    }
    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        (**self).scan(keyspace, from, limit)
    }
    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        (**self).write(batch)
    }
    fn sync(&self) -> Result<(), StoreError> {
        (**self).sync()
    }
    fn check(&self) -> Result<(), StoreError> {
        (**self).check()
    }
    fn mark(&self) -> Option<Vec<u8>> {
        (**self).mark()
    }
    fn poison(&self) -> Option<String> {
        (**self).poison()
    }
    fn waiting(&self) -> Option<Waiting> {
        (**self).waiting()
    }
    fn size_on_disk(&self) -> Result<u64, StoreError> {
        (**self).size_on_disk()
    }
}
