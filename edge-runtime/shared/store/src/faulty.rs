//! A store that fails when a test says so.

use std::ops::Bound;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::batch::{Batch, Keyspace};
use crate::error::StoreError;
use crate::{Page, Store};

/// Counts calls down and fails the chosen one.
#[derive(Debug)]
pub struct Fuse(AtomicI64);

impl Fuse {
    /// Fails the `n`-th call from now, counted from 1, and every one after it.
    pub fn blow_at(&self, n: u32) {
        self.0.store(i64::from(n), Ordering::SeqCst);
    }

    /// Stops failing calls.
    pub fn repair(&self) {
        self.0.store(i64::MAX, Ordering::SeqCst);
    }

    fn burn(&self, what: &'static str) -> Result<(), StoreError> {
        if self.0.fetch_sub(1, Ordering::SeqCst) <= 1 {
            return Err(StoreError::Injected(what));
        }
        Ok(())
    }
}

impl Default for Fuse {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

/// Passes calls on to another store until a fuse blows. A refused write or sync changes nothing
/// underneath.
#[derive(Debug, Default)]
pub struct FaultyStore<S> {
    inner: S,
    /// Counts every read.
    pub reads: Fuse,
    /// Counts every write.
    pub writes: Fuse,
    /// Counts every sync.
    pub syncs: Fuse,
    /// Counts every check; a failed one poisons the store, as it does a real one.
    pub checks: Fuse,
    poison: OnceLock<String>,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps `inner`, with fuses that hold.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            reads: Fuse::default(),
            writes: Fuse::default(),
            syncs: Fuse::default(),
            checks: Fuse::default(),
            poison: OnceLock::new(),
        }
    }

    /// Returns the store underneath.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.reads.burn("get")?;
        self.inner.get(keyspace, key)
    }
    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.reads.burn("scan")?;
        self.inner.scan(keyspace, from, limit)
    }
    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        self.writes.burn("write")?;
        self.inner.write(batch)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.syncs.burn("sync")?;
        self.inner.sync()
    }
    fn check(&self) -> Result<(), StoreError> {
        self.checks.burn("check").inspect_err(|error| {
            self.poison.get_or_init(|| error.to_string());
        })?;
        self.inner.check()
    }
    fn mark(&self) -> Option<Vec<u8>> {
        self.inner.mark()
    }
    fn poison(&self) -> Option<String> {
        self.poison.get().cloned()
    }
    fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.inner.size_on_disk()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn chosen_call_fails_until_the_fuse_is_repaired() {
        const K: Keyspace = Keyspace::new("k");
        let store = FaultyStore::new(MemoryStore::new());
        store.writes.blow_at(2);
        let put = || store.commit(Batch::new().put(K, b"a", b"b"));
        assert!(put().is_ok());
        assert!(matches!(put(), Err(StoreError::Injected("write"))));
        store.writes.repair();
        assert!(put().is_ok());
    }
}
