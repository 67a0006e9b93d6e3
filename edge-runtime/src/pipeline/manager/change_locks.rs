//! Serialises changes of each pipeline, and lets changes of different ones run at once.
//!
//! - The lock of a pipeline is held over its whole change: loading its model, and the wait for the
//!   end of the old one. It comes before every other lock of the manager.
//! - A pipeline need not exist; nothing is left of a lock that is released.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::problem::Problem;

/// Longest wait for another change of the same pipeline, which may load a model.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

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
    ///
    /// # Errors
    /// [`Problem`] when the other change lasts longer than [`CHANGE_TIMEOUT`].
    pub(super) fn acquire(&self, id: &PipelineId) -> Result<ChangeLock<'_>, Problem> {
        self.acquire_within(id, CHANGE_TIMEOUT).ok_or_else(|| {
            Problem::not_ready(format!(
                "pipeline {:?} is still being changed, perhaps loading a model; try again later",
                id.as_str()
            ))
        })
    }

    /// The lock of `id`, if it is free within `timeout`.
    pub(super) fn acquire_within(
        &self,
        id: &PipelineId,
        timeout: Duration,
    ) -> Option<ChangeLock<'_>> {
        let mut held = self.held.lock();
        let is_held = |held: &mut BTreeSet<PipelineId>| held.contains(id);
        self.released.wait_while_for(&mut held, is_held, timeout);
        held.insert(id.clone()).then(|| ChangeLock {
            change_locks: self,
            id: id.clone(),
        })
    }
}

impl Drop for ChangeLock<'_> {
    fn drop(&mut self) {
        self.change_locks.held.lock().remove(&self.id);
        self.change_locks.released.notify_all();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn change_waits_only_for_its_own_pipeline_and_not_forever() {
        let (locks, a, b) = (
            ChangeLocks::default(),
            PipelineId::new("a").unwrap(),
            PipelineId::new("b").unwrap(),
        );
        let held = locks.acquire_within(&a, Duration::ZERO).unwrap();
        assert!(locks.acquire_within(&a, Duration::from_millis(1)).is_none());
        assert!(locks.acquire_within(&b, Duration::ZERO).is_some());
        drop(held);
        assert!(locks.acquire_within(&a, Duration::ZERO).is_some());
    }
}
