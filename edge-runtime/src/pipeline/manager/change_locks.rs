//! Serialises changes of each pipeline.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::id::PipelineId;

/// Pipelines that are being changed.
#[derive(Debug, Default)]
pub(super) struct ChangeLocks {
    held: Mutex<BTreeSet<PipelineId>>,
    released: Condvar,
}

/// The turn to change one pipeline, until it is dropped.
pub(super) struct ChangeLock<'a> {
    change_locks: &'a ChangeLocks,
    id: PipelineId,
}

impl ChangeLocks {
    /// Waits until no one else changes `id`.
    pub(super) fn acquire(&self, id: &PipelineId) -> ChangeLock<'_> {
        let mut held = self.held.lock();
        while !held.insert(id.clone()) {
            self.released.wait(&mut held);
        }
        ChangeLock {
            change_locks: self,
            id: id.clone(),
        }
    }
}

impl Drop for ChangeLock<'_> {
    fn drop(&mut self) {
        self.change_locks.held.lock().remove(&self.id);
        self.change_locks.released.notify_all();
    }
}
