//! Serialises changes of each pipeline, and lets changes of different ones run at once.
//!
//! - The lock of a pipeline is held over its whole change: loading its model, and the wait for the
//!   end of the old one. It comes before every other lock of the manager.
//! - A pipeline need not exist; nothing is left of a lock that is released.

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
