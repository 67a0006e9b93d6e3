//! A store in memory that keeps durable records apart from merely written ones.
//!
//! For tests of everything that rests on a [`Store`]: [`MemoryStore::power_cut`] returns what a
//! power cut would leave.

use std::collections::BTreeMap;
use std::ops::Bound;

use parking_lot::{Mutex, MutexGuard};

use crate::batch::{Batch, Keyspace, Op};
use crate::error::StoreError;
use crate::{Entry, Page, Store};

type Map = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

#[derive(Debug, Default, Clone)]
struct State {
    written: Map,
    durable: Map,
    written_mark: Option<Vec<u8>>,
    durable_mark: Option<Vec<u8>>,
}

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

impl MemoryStore {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns what a power cut at this moment would leave: only what was synced.
    pub fn power_cut(&self) -> Self {
        let state = self.lock();
        Self {
            state: Mutex::new(State {
                written: state.durable.clone(),
                durable: state.durable.clone(),
                written_mark: state.durable_mark.clone(),
                durable_mark: state.durable_mark.clone(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Store for MemoryStore {
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self
            .lock()
            .written
            .get(&(keyspace.name(), key.to_vec()))
            .cloned())
    }

    fn scan(
        &self,
        keyspace: Keyspace,
        from: Bound<&[u8]>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let from = match from {
            Bound::Included(k) => Bound::Included((keyspace.name(), k.to_vec())),
            Bound::Excluded(k) => Bound::Excluded((keyspace.name(), k.to_vec())),
            Bound::Unbounded => Bound::Included((keyspace.name(), Vec::new())),
        };
        let entries = self
            .lock()
            .written
            .range((from, Bound::Unbounded))
            .take_while(|((name, _), _)| *name == keyspace.name())
            .take(limit)
            .map(|((_, key), value)| Entry {
                key: key.clone(),
                value: value.clone(),
            })
            .collect();
        Ok(Page {
            entries,
            corrupt: Vec::new(),
        })
    }

    fn write(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check()?;
        let mut state = self.lock();
        if let Some(mark) = batch.new_mark() {
            state.written_mark = Some(mark.to_vec());
        }
        for op in batch.ops() {
            match op {
                Op::Put {
                    keyspace,
                    key,
                    value,
                } => {
                    state
                        .written
                        .insert((keyspace.name(), key.clone()), value.clone());
                }
                Op::Delete { keyspace, key } => {
                    state.written.remove(&(keyspace.name(), key.clone()));
                }
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        state.durable = state.written.clone();
        state.durable_mark = state.written_mark.clone();
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn mark(&self) -> Option<Vec<u8>> {
        self.lock().durable_mark.clone()
    }

    fn poison(&self) -> Option<String> {
        None
    }

    fn size_on_disk(&self) -> Result<u64, StoreError> {
        Ok(self
            .lock()
            .written
            .iter()
            .map(|((_, k), v)| (k.len() + v.len()) as u64)
            .sum())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    const K: Keyspace = Keyspace::new("k");

    #[test]
    fn a_power_cut_forgets_what_was_not_synced() {
        let store = MemoryStore::new();
        store.commit(Batch::new().put(K, b"kept", b"1")).unwrap();
        store.write(Batch::new().put(K, b"lost", b"2")).unwrap();
        let after = store.power_cut();
        assert!(after.get(K, b"kept").unwrap().is_some());
        assert!(after.get(K, b"lost").unwrap().is_none());
    }
}
