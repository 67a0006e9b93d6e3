//! The embeddings of one model in memory, loaded by the first query by likeness.
//!
//! - One load runs at a time; queries that need it wait for it.
//! - A change of a record waits for no load: the content is listed, and its record read again once
//!   the others are there.
//! - The list is no longer than the contents that change during a load.

use std::collections::HashSet;
use std::mem::take;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use watchkeeper_store::{Store, StoreError};

use crate::ContentHash;
use crate::on_disk::EMBEDDINGS;
use crate::vectors::Vectors;

#[derive(Debug, Default)]
pub(crate) struct VectorCache {
    load: Mutex<()>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    known: Option<Vectors>,
    /// Contents whose records have changed since a load began.
    changed: Option<HashSet<ContentHash>>,
}

impl State {
    /// The embeddings of a model, if they are loaded.
    pub(crate) fn of(&self, digest: &str) -> Option<&Vectors> {
        self.known.as_ref().filter(|known| known.digest() == digest)
    }
}

impl VectorCache {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a record that was written, or deleted where `record` is absent.
    pub(crate) fn follow(&self, hash: ContentHash, record: Option<&[u8]>) {
        let State { known, changed } = &mut *self.write();
        if let Some(known) = known {
            known.follow(hash, record);
        }
        if let Some(changed) = changed {
            changed.insert(hash);
        }
    }

    /// Loads the embeddings of a model, unless they are there; `order` returns contents in the
    /// order in which queries walk them.
    ///
    /// # Errors
    /// If the store can't be read.
    pub(crate) fn load(
        &self,
        store: &dyn Store,
        digest: &str,
        order: impl FnOnce() -> Vec<ContentHash>,
    ) -> Result<(), StoreError> {
        if self.read().of(digest).is_some() {
            return Ok(());
        }
        let _load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        if self.read().of(digest).is_some() {
            return Ok(());
        }
        self.write().changed = Some(HashSet::new());
        let _end = LoadEnd(self);
        self.load_beside_changes(store, digest, order)
    }

    fn load_beside_changes(
        &self,
        store: &dyn Store,
        digest: &str,
        order: impl FnOnce() -> Vec<ContentHash>,
    ) -> Result<(), StoreError> {
        let mut all = Vectors::load(store, digest)?;
        all.arrange(&order());
        let changed = self.write().changed.as_mut().map(take).unwrap_or_default();
        read_again(&mut all, store, changed)?;
        // Few are left; none can come.
        let mut state = self.write();
        read_again(&mut all, store, state.changed.take().unwrap_or_default())?;
        state.known = Some(all);
        Ok(())
    }
}

/// Ends the list of changes with the load, also one that failed or panicked.
struct LoadEnd<'a>(&'a VectorCache);

impl Drop for LoadEnd<'_> {
    fn drop(&mut self) {
        self.0.write().changed = None;
    }
}

fn read_again(
    all: &mut Vectors,
    store: &dyn Store,
    changed: HashSet<ContentHash>,
) -> Result<(), StoreError> {
    for hash in changed {
        let record = match store.get(EMBEDDINGS, &hash.0) {
            Err(StoreError::Corrupt { .. }) => None,
            read => read?,
        };
        all.follow(hash, record.as_deref());
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use watchkeeper_store::{Batch, FaultyStore, MemoryStore};

    use super::*;
    use crate::store_for_tests::{HookedStore, StoreCall};
    use crate::vectors::{Packed, Record};

    /// Writes the embedding of a content, and follows it.
    fn put(store: &dyn Store, cache: &VectorCache, hash: &ContentHash, vector: [f32; 2]) {
        let record = Record {
            digest: "d".to_owned(),
            refused: None,
        };
        let record = record.encode(Some(&Packed::of(&vector)));
        let batch = Batch::new().put(EMBEDDINGS, &hash.0, &record);
        store.write(batch).unwrap();
        cache.follow(*hash, Some(&record));
    }

    #[test]
    fn changes_during_a_load_neither_wait_nor_get_lost() {
        let (store, cache) = (MemoryStore::new(), VectorCache::default());
        let [changed, deleted, kept, added] = [0_u8, 1, 2, 3].map(|n| ContentHash::of(&[n]));
        [changed, deleted, kept]
            .iter()
            .for_each(|hash| put(&store, &cache, hash, [1.0, 0.0]));
        // It is called between the records and the end: a lock that is held would block it.
        let order = || {
            put(&store, &cache, &changed, [0.0, 1.0]);
            put(&store, &cache, &added, [1.0, 1.0]);
            store
                .write(Batch::new().delete(EMBEDDINGS, &deleted.0))
                .unwrap();
            cache.follow(deleted, None);
            vec![kept, changed]
        };
        cache.load(&store, "d", order).unwrap();
        let expected = Vectors::load(&store, "d").unwrap();
        let state = cache.read();
        let known = state.of("d").unwrap();
        for hash in [changed, deleted, kept, added] {
            assert_eq!(known.numbers_of(&hash), expected.numbers_of(&hash));
        }
        assert!(state.changed.is_none());
    }

    #[test]
    fn change_during_the_first_repeated_read_is_not_lost() {
        let (store, cache) = (Arc::<HookedStore>::default(), Arc::<VectorCache>::default());
        let [early, late] = [0_u8, 1].map(|n| ContentHash::of(&[n]));
        let (changing, following) = (Arc::clone(&store), Arc::clone(&cache));
        let is_first = AtomicBool::new(true);
        let hook = Box::new(move |call| {
            // The first read of one record is that of `early`; no lock may be held then.
            if call == StoreCall::Get && is_first.swap(false, Ordering::SeqCst) {
                put(&changing.inner, &following, &late, [0.0, 1.0]);
            }
        });
        assert!(store.hook.set(hook).is_ok());
        let order = || {
            put(&store.inner, &cache, &early, [1.0, 0.0]);
            Vec::new()
        };
        cache.load(&*store, "d", order).unwrap();
        let expected = Vectors::load(&*store, "d").unwrap();
        let state = cache.read();
        for hash in [early, late] {
            let numbers = expected.numbers_of(&hash);
            assert!(numbers.is_some());
            assert_eq!(state.of("d").unwrap().numbers_of(&hash), numbers);
        }
    }

    #[test]
    fn load_that_fails_ends_the_list_of_changes() {
        let store = FaultyStore::new(MemoryStore::new());
        let cache = VectorCache::default();
        let hash = ContentHash::of(b"alpha");
        store.reads.blow_at(1);
        cache.load(&store, "d", Vec::new).unwrap_err();
        assert!(cache.read().changed.is_none());
        store.reads.repair();
        let fails_later = || {
            put(&store, &cache, &hash, [1.0, 0.0]);
            store.reads.blow_at(1);
            Vec::new()
        };
        cache.load(&store, "d", fails_later).unwrap_err();
        assert!(cache.read().changed.is_none() && cache.read().of("d").is_none());
        store.reads.repair();
        cache.load(&store, "d", Vec::new).unwrap();
        let state = cache.read();
        assert!(state.of("d").unwrap().numbers_of(&hash).is_some());
    }

    #[test]
    fn load_that_panics_ends_the_list_of_changes() {
        let (store, cache) = (MemoryStore::new(), VectorCache::default());
        let load = || cache.load(&store, "d", || panic!("order"));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(load)).unwrap_err();
        assert!(cache.read().changed.is_none());
        cache.load(&store, "d", Vec::new).unwrap();
        assert!(cache.read().of("d").is_some());
    }
}
