//! A store in memory that calls a test before each sync.

use std::fmt;
use std::ops::Bound;
use std::sync::OnceLock;

use watchkeeper_store::{Batch, Keyspace, MemoryStore, Page, Store, StoreError};

type Hook = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(crate) struct HookedStore {
    pub(crate) inner: MemoryStore,
    pub(crate) hook: OnceLock<Hook>,
}

impl fmt::Debug for HookedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedStore")
    }
}

impl Store for HookedStore {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(keyspace, key)
    }
    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.inner.scan(keyspace, from, limit)
    }
    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.write(batch)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.hook.get().inspect(|hook| hook());
        self.inner.sync()
    }
    fn check(&self) -> Result<(), StoreError> {
        self.inner.check()
    }
    fn poison(&self) -> Option<String> {
        self.inner.poison()
    }
    fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.inner.size_on_disk()
    }
}
