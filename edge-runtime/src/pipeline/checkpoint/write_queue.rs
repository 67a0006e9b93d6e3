//! Which checkpoint files are to be written or removed next.
//!
//! - At most one operation per pipeline waits; a newer one replaces it.
//! - Only the latest run of a pipeline may write.
//! - Nothing is read from a file while an operation on it is pending.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use watchkeeper_contract::id::PipelineId;

/// Pause before a failed removal is retried.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Pending operation on a file.
#[derive(Debug)]
pub(super) enum WriteOp {
    Write(Vec<u8>),
    Remove,
}

/// The pending operation on one file.
#[derive(Debug, Default)]
struct Slot {
    /// The run that may write.
    run: u64,
    op: Option<WriteOp>,
    /// The file on disk is outdated: it must be replaced, or else removed.
    is_stale: bool,
    /// A failed removal is not retried before this moment.
    not_before: Option<Instant>,
    /// Why a stale file could not be removed.
    removal_error: Option<String>,
}

/// One operation for the thread.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: PipelineId,
    run: u64,
    pub(super) op: WriteOp,
    pub(super) is_stale: bool,
}

#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    runs: u64,
    slots: BTreeMap<PipelineId, Slot>,
    /// The pipeline whose file is being written or removed.
    active: Option<PipelineId>,
    pub(super) is_closing: bool,
}

impl WriteQueue {
    /// Starts a run of `id` and returns its number; older runs may not write any more.
    pub(super) fn begin_run(&mut self, id: &PipelineId) -> u64 {
        self.runs += 1;
        self.slots.entry(id.clone()).or_default().run = self.runs;
        self.runs
    }

    /// Queues `op` in place of a waiting one, if `run` may write. `is_stale` marks the file on disk
    /// as outdated, even if the operation fails.
    pub(super) fn push(&mut self, id: &PipelineId, run: u64, op: WriteOp, is_stale: bool) {
        if let Some(slot) = self.slots.get_mut(id)
            && slot.run == run
        {
            slot.op = Some(op);
            slot.is_stale |= is_stale;
            slot.not_before = None;
        }
    }

    /// The next operation due at `now`; when closing, waiting retries are due at once.
    pub(super) fn next(&mut self, now: Instant) -> Option<Job> {
        let is_closing = self.is_closing;
        let job = self.slots.iter_mut().find_map(|(id, slot)| {
            let is_due = is_closing || slot.not_before.is_none_or(|at| at <= now);
            let op = is_due.then(|| slot.op.take()).flatten()?;
            Some(Job {
                id: id.clone(),
                run: slot.run,
                op,
                is_stale: std::mem::take(&mut slot.is_stale),
            })
        })?;
        self.active = Some(job.id.clone());
        Some(job)
    }

    /// When the next failed removal is retried.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.slots.values().filter_map(|slot| slot.not_before).min()
    }

    /// Records the result of a job; `removal_error` says why a stale file is still there.
    pub(super) fn done(&mut self, job: &Job, removal_error: Option<String>, now: Instant) {
        self.active = None;
        let is_closing = self.is_closing;
        let Some(slot) = self.slots.get_mut(&job.id) else {
            return;
        };
        slot.not_before = None;
        slot.removal_error = removal_error;
        if slot.removal_error.is_some() {
            slot.is_stale = true;
            // A newer operation runs at once, and replaces or removes the file too.
            if slot.op.is_none() && !is_closing {
                slot.op = Some(WriteOp::Remove);
                slot.not_before = Some(now + RETRY_INTERVAL);
            }
        } else if matches!(job.op, WriteOp::Remove) && slot.op.is_none() && slot.run == job.run {
            // No newer run needs the slot.
            self.slots.remove(&job.id);
        }
    }

    /// Whether an operation on the file of `id` is waiting or running.
    pub(super) fn is_pending(&self, id: &PipelineId) -> bool {
        let waits = self.slots.get(id).is_some_and(|slot| slot.op.is_some());
        waits || self.active.as_ref() == Some(id)
    }

    /// Why the file of `id` could not be removed.
    pub(super) fn removal_error(&self, id: &PipelineId) -> Option<String> {
        let slot = self.slots.get(id)?;
        slot.removal_error.clone()
    }

    /// Forgets the error of an earlier removal.
    pub(super) fn clear_removal_error(&mut self, id: &PipelineId) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.removal_error = None;
        }
    }
}

/// The queue as the thread and its users share it.
#[derive(Debug, Default)]
pub(super) struct SharedQueue {
    pub(super) queue: Mutex<WriteQueue>,
    pub(super) changed: Condvar,
}
