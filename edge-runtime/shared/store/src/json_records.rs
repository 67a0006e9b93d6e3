//! Records of a keyspace that are JSON after one version byte.
//!
//! - A record of a newer version is refused and left unchanged ([`NewerFormat`]).
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
    /// Kind of a record, for the refusal of a newer one.
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

    /// Serialises a value that has string keys, and no path: one that is not UTF-8 is not JSON.
    pub fn encode(&self, value: &impl Serialize) -> Vec<u8> {
        let mut bytes = vec![self.version];
        // Plain data: serde_json can't fail on it.
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

    /// Reads one record of the store in `folder`. One that can't be read is `Some(None)`.
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

    /// Passes every record of the store in `folder` to `take`, in the order of keys; one that can't
    /// be read as `None`.
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
            let page = page?;
            let corrupt = page.corrupt.into_iter().map(|record| (record.key, None));
            let sound = page.entries.into_iter();
            let mut all: Vec<_> = corrupt
                .chain(sound.map(|entry| (entry.key, Some(entry.value))))
                .collect();
            all.sort_unstable();
            for (key, value) in all {
                let value = match value {
                    Some(value) => self.read(folder, &key, &value)?,
                    None => None,
                };
                take(key, value);
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::{Batch, CorruptRecord, MemoryStore, Page};

    const ROWS: Keyspace = Keyspace::new("rows");
    const RECORDS: JsonRecords = JsonRecords::new(ROWS, 1, "row");

    /// A store whose record `b` is damaged.
    #[derive(Debug, Default)]
    struct Damaged(MemoryStore);

    impl Store for Damaged {
        fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.0.get(keyspace, key)
        }
        fn scan(
            &self,
            keyspace: Keyspace,
            from: Bound<&[u8]>,
            limit: usize,
        ) -> Result<Page, StoreError> {
            let mut page = self.0.scan(keyspace, from, limit)?;
            page.entries.retain(|entry| entry.key != b"b");
            page.corrupt.push(CorruptRecord {
                keyspace: keyspace.name().to_owned(),
                key: b"b".to_vec(),
                why: "its checksum is wrong".to_owned(),
            });
            Ok(page)
        }
        fn write(&self, batch: Batch) -> Result<(), StoreError> {
            self.0.write(batch)
        }
        fn sync(&self) -> Result<(), StoreError> {
            self.0.sync()
        }
        fn check(&self) -> Result<(), StoreError> {
            self.0.check()
        }
        fn poison(&self) -> Option<String> {
            self.0.poison()
        }
        fn size_on_disk(&self) -> Result<u64, StoreError> {
            self.0.size_on_disk()
        }
    }

    #[test]
    fn damaged_and_unreadable_records_are_passed_as_none_in_order() {
        let store = Damaged::default();
        let batch = Batch::from_iter([
            RECORDS.put(*b"a", &1),
            RECORDS.put(*b"b", &2),
            Op::put(ROWS, *b"c", *b"\x01?"),
            RECORDS.put(*b"d", &4),
        ]);
        store.commit(batch).unwrap();
        let mut found = Vec::new();
        let take = |key: Vec<u8>, value: Option<u8>| found.push((key, value));
        RECORDS.for_each(&store, Path::new("/state"), take).unwrap();
        let expected = [(b"a", Some(1)), (b"b", None), (b"c", None), (b"d", Some(4))];
        assert_eq!(found, expected.map(|(key, value)| (key.to_vec(), value)));
    }
}
