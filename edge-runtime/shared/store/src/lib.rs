//! Durable records behind one small trait.
//!
//! Owns what the journal of the runtime and the outbox of the agent rest on: ordered keyspaces of checksummed
//! records in which an acknowledged write survives a killed process and a pulled plug.
//!
//! Invariants:
//! - when [`Store::commit`] (or [`Store::sync`]) has returned `Ok`, everything written before is on stable storage;
//! - a [`Batch`] is applied whole or not at all, over keyspaces too;
//! - a damaged record is reported and skipped, never returned and never a panic;
//! - what a newer version wrote is refused and left as it is, never taken for damage ([`NewerFormat`]);
//! - acknowledged records that are gone after damage are noticed at opening ([`OpenOutcome`]), so that a loss is a record; what the
//!   opener notes of it ([`DiskStore::open_noting`]) is stored in one step with the repair;
//! - after a failed sync nothing more is acknowledged until the store is opened again, because the kernel may have
//!   dropped the pages that it could not write and would report the next sync as a success
//!   (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
//!
//! Not here: what the records mean (see the callers), retention, media files.
//!
//! ```
//! use watchkeeper_store::{Batch, Keyspace, Options, DiskStore, Store, log_key};
//!
//! const EVENTS: Keyspace = Keyspace::new("events");
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let (store, report) = DiskStore::open(folder.path(), &Options::default())?;
//! assert!(report.outcome.is_clean());
//! store.commit(Batch::new().put(EVENTS, &log_key(1), b"first"))?;
//! assert_eq!(store.get(EVENTS, &log_key(1))?.as_deref(), Some(&b"first"[..]));
//! # Ok(()) }
//! ```

mod batch;
mod disk;
pub mod durable;
mod error;
mod faulty;
mod format;
mod guard;
mod lock;
mod memory;
mod open;
mod pages;
#[cfg(test)]
mod power;
pub mod private_folder;
mod record;
mod salvage;
mod witness;

/// The form of a record, open to the fuzz targets in `tests` only: through a [`Store`] no damaged byte gets in.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::record::{decode, encode};
}

use std::fmt::Debug;
use std::ops::Bound;

pub use batch::{Batch, Keyspace, MAX_KEY_BYTES, MAX_VALUE_BYTES, Op, log_key, log_seq};
pub use disk::DiskStore;
pub use error::StoreError;
pub use faulty::{FaultyStore, Fuse};
pub use format::NewerFormat;
pub use lock::in_use;
pub use memory::MemoryStore;
pub use open::{Compaction, OpenOutcome, OpenReport, Options};
pub use pages::{Pages, pages};
pub use record::BadRecord;

/// One record: its key without the keyspace, and its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key within the keyspace.
    pub key: Vec<u8>,
    /// Payload as it was written.
    pub value: Vec<u8>,
}

/// A record that is there but can't be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorruptRecord {
    /// Keyspace it was found in.
    pub keyspace: String,
    /// Key within the keyspace.
    pub key: Vec<u8>,
    /// What is wrong with it, as a phrase.
    pub why: String,
}

/// Part of a keyspace, in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Sound records.
    pub entries: Vec<Entry>,
    /// Damaged records that lay among them.
    pub corrupt: Vec<CorruptRecord>,
}

/// Ordered keyspaces of records. Shared by reference among threads.
pub trait Store: Send + Sync + Debug {
    /// The payload at `key`, or `None`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the record is damaged, any other when the store can't be read.
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// At most `limit` records of `keyspace` from `from` on, smallest key first. Damaged records count towards `limit`.
    ///
    /// # Errors
    /// When the store can't be read.
    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError>;

    /// The record with the greatest key of `keyspace`; damaged ones are passed over.
    ///
    /// # Errors
    /// When the store can't be read.
    fn last(&self, keyspace: Keyspace) -> Result<Option<Entry>, StoreError>;

    /// Applies `batch` whole or not at all. Visible to readers at once, durable only after [`Store::sync`].
    ///
    /// # Errors
    /// When the batch is too large, the disk is full or the store is poisoned; nothing of the batch is applied then.
    fn write(&self, batch: Batch) -> Result<(), StoreError>;

    /// Makes every write that returned before this call durable. Concurrent callers share one sync.
    ///
    /// # Errors
    /// When the device refuses; the store is poisoned from then on.
    fn sync(&self) -> Result<(), StoreError>;

    /// [`Store::write`] and [`Store::sync`]: durable on return.
    ///
    /// # Errors
    /// Those of the two.
    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.write(batch)?;
        self.sync()
    }

    /// Finds out whether the store can still be written, without writing a record: makes good what is not durable yet
    /// and writes a few bytes through. Cheap enough for every few seconds, so that a disk that failed while nothing
    /// happened is known before something does.
    ///
    /// # Errors
    /// When it can't; the store is poisoned from then on.
    fn check(&self) -> Result<(), StoreError>;

    /// Why nothing can be written until the store is opened again, if that is so. Only looks.
    fn poison(&self) -> Option<String>;

    /// Bytes that the store's files take.
    ///
    /// # Errors
    /// When the files can't be looked at.
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
    fn last(&self, keyspace: Keyspace) -> Result<Option<Entry>, StoreError> {
        (**self).last(keyspace)
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
    fn poison(&self) -> Option<String> {
        (**self).poison()
    }
    fn size_on_disk(&self) -> Result<u64, StoreError> {
        (**self).size_on_disk()
    }
}
