//! Records of a keyspace that are JSON behind one version byte.
//!
//! - A record of a newer version is refused and left as it is ([`NewerFormat`]).
//! - Any other record that can't be read is `None`: its owner decides what that costs.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Keyspace, NewerFormat, Op, Store, StoreError, pages};

/// Records read at a time.
const PAGE: usize = 64;

/// A keyspace with the version of its records.
#[derive(Debug, Clone, Copy)]
pub struct JsonRecords {
    keyspace: Keyspace,
    version: u8,
    /// What one record is, for the refusal of a newer one.
    what: &'static str,
}

impl JsonRecords {
    #[must_use]
    pub const fn new(keyspace: Keyspace, version: u8, what: &'static str) -> Self {
        Self {
            keyspace,
            version,
            what,
        }
    }

    /// Serialises a value that has string keys and finite numbers.
    pub fn encode(&self, value: &impl Serialize) -> Vec<u8> {
        let mut bytes = vec![self.version];
        // Plain data with string keys: serde_json can't fail on it.
        bytes.extend(serde_json::to_vec(value).unwrap_or_default());
        bytes
    }

    /// Reads a record; `None` for another version or other content.
    #[must_use]
    pub fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Option<T> {
        let json = bytes.strip_prefix(&[self.version])?;
        serde_json::from_slice(json).ok()
    }

    /// Returns whether a newer version wrote a record.
    #[must_use]
    pub fn is_newer(&self, bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|found| *found > self.version)
    }

    /// Sets a record.
    pub fn put(&self, key: impl Into<Vec<u8>>, value: &impl Serialize) -> Op {
        Op::put(self.keyspace, key, self.encode(value))
    }

    /// Removes a record.
    pub fn delete(&self, key: impl Into<Vec<u8>>) -> Op {
        Op::delete(self.keyspace, key)
    }

    /// Reads one record of the store in `folder`. A damaged one is `Some(None)`.
    ///
    /// # Errors
    /// When the store can't be read, or a newer version wrote the record.
    pub fn get<T: DeserializeOwned>(
        &self,
        store: &dyn Store,
        folder: &Path,
        key: &[u8],
    ) -> Result<Option<Option<T>>, StoreError> {
        match store.get(self.keyspace, key) {
            Ok(None) => Ok(None),
            Ok(Some(value)) => Ok(Some(self.read(folder, key, &value)?)),
            Err(StoreError::Corrupt { .. }) => Ok(Some(None)),
            Err(error) => Err(error),
        }
    }

    /// Passes every sound record of the store in `folder` to `take`, in the order of keys.
    ///
    /// # Errors
    /// When the store can't be read, or a newer version wrote a record.
    pub fn for_each<T: DeserializeOwned>(
        &self,
        store: &dyn Store,
        folder: &Path,
        mut take: impl FnMut(Vec<u8>, Option<T>),
    ) -> Result<(), StoreError> {
        for page in pages(store, self.keyspace, PAGE) {
            for entry in page?.entries {
                let value = self.read(folder, &entry.key, &entry.value)?;
                take(entry.key, value);
            }
        }
        Ok(())
    }

    fn read<T: DeserializeOwned>(
        &self,
        folder: &Path,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<T>, StoreError> {
        match value.first() {
            Some(found) if self.is_newer(value) => {
                let key = String::from_utf8_lossy(key);
                let what = format!("{} {}", self.what, key.escape_debug());
                Err(NewerFormat::new(folder, what, found, self.version).into())
            }
            _ => Ok(self.decode(value)),
        }
    }
}
