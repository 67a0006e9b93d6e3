//! The outbox with its store: the batch being committed, and who waits for it.
//!
//! Invariants:
//! - One batch is written at a time, on a blocking thread; the loop never waits for the disk.
//! - Operations of other keyspaces join the outbox's next batch, so both are stored or neither.
//! - An owner is returned only after the batch with its operations is durable.
//! - A full or read-only disk is waited for: meanwhile the journal keeps what the outbox cannot.
//!   [`DurableOutbox::refusal`] says so.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinHandle};
use watchkeeper_contract::id::EventId;
use watchkeeper_store::{Batch, Op, Store, StoreError};

use super::future_slot::take_output;
use crate::fleet::command::CommandKey;
use crate::fleet::outbox::{Change, Content, Input, Outbox, OutboxId, Output, store};
use crate::notify::service::PendingNotice;

/// Pause before a write to a full disk is retried.
const DISK_RETRY: Duration = Duration::from_secs(1);

/// Owner of operations in a batch, notified once the batch is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BatchOwner {
    /// A command, with the version of its record.
    Command(CommandKey, u32),
    /// A second opinion, with the version of its record.
    Opinion(EventId, u32),
    /// A notice of the box that channels have still to receive.
    Notice(PendingNotice),
}

/// The result of one write: the number of the batch, unless the store or its thread failed.
pub(crate) type WriteResult = Result<Result<u64, StoreError>, JoinError>;

/// Why the disk refuses the present batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskRefusal {
    /// A phrase with the remedy.
    pub(crate) why: String,
    pub(crate) since: Instant,
    pub(crate) is_read_only: bool,
}

/// Set by the thread that writes, while the disk refuses.
type SharedRefusal = Arc<Mutex<Option<DiskRefusal>>>;

/// The outbox and the store that its changes go to.
#[derive(Debug)]
pub(crate) struct DurableOutbox {
    core: Outbox,
    store: Arc<dyn Store>,
    /// Operations of other keyspaces that join the next batch.
    extra_ops: Vec<Op>,
    staged_owners: Vec<BatchOwner>,
    in_flight_owners: Vec<BatchOwner>,
    writing: Option<JoinHandle<Result<u64, StoreError>>>,
    refusal: SharedRefusal,
}

impl DurableOutbox {
    pub(crate) fn new(core: Outbox, store: Arc<dyn Store>) -> Self {
        Self {
            core,
            store,
            extra_ops: Vec::new(),
            staged_owners: Vec::new(),
            in_flight_owners: Vec::new(),
            writing: None,
            refusal: SharedRefusal::default(),
        }
    }

    pub(crate) fn core(&self) -> &Outbox {
        &self.core
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Adds `op` to the next batch.
    pub(crate) fn stage(&mut self, op: Op) {
        self.extra_ops.push(op);
    }

    /// Adds `ops` to the next batch, which then belongs to `owner` too.
    pub(crate) fn stage_for(&mut self, owner: BatchOwner, ops: impl IntoIterator<Item = Op>) {
        self.extra_ops.extend(ops);
        self.staged_owners.push(owner);
    }

    pub(crate) fn has_staged(&self) -> bool {
        !self.extra_ops.is_empty()
    }

    /// Why nothing can be stored at the moment; it is retried every second.
    pub(crate) fn refusal(&self) -> Option<DiskRefusal> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.clone()
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.core.handle(Instant::now(), input);
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.core.poll()
    }

    /// Starts to write `change` with everything staged and with `lazy_ops`, which need no sync.
    pub(crate) fn start_write(&mut self, change: &Change, lazy_ops: Vec<Op>) {
        let mut batch = store::batch_of(change);
        let must_sync = change.must_sync() || !self.extra_ops.is_empty();
        for op in self.extra_ops.drain(..).chain(lazy_ops) {
            batch.push(op);
        }
        self.in_flight_owners = std::mem::take(&mut self.staged_owners);
        let (store, number) = (Arc::clone(&self.store), change.batch);
        let refusal = Arc::clone(&self.refusal);
        self.writing = Some(tokio::task::spawn_blocking(move || {
            write_until_done(&*store, &batch, must_sync, &refusal).map(|()| number)
        }));
    }

    /// Waits for the write in progress. Dropping this future loses nothing.
    pub(crate) async fn written(&mut self) -> WriteResult {
        take_output(&mut self.writing).await
    }

    /// Owners of the batch that was written last.
    pub(crate) fn take_owners(&mut self) -> Vec<BatchOwner> {
        std::mem::take(&mut self.in_flight_owners)
    }

    /// Reads an entry back; `None` where the store holds a damaged one.
    pub(crate) fn load(&self, id: OutboxId) -> Result<Option<Content>, StoreError> {
        store::load(&*self.store, id)
    }

    /// Waits at most `timeout` for the write in progress.
    pub(crate) async fn finish(&mut self, timeout: Duration) -> WriteResult {
        let Some(writing) = self.writing.take() else {
            return Ok(Ok(0));
        };
        match tokio::time::timeout(timeout, writing).await {
            Ok(written) => written,
            Err(_) => {
                tracing::warn!(
                    "outbox: the last write did not finish; the journal delivers its events again"
                );
                Ok(Ok(0))
            }
        }
    }

    /// Writes `ops` at once, without sync.
    pub(crate) fn write_now(&self, ops: Vec<Op>) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        for op in ops {
            batch.push(op);
        }
        self.store.write(batch)
    }
}

/// Writes `batch`, waits for stable storage where `must_sync`, and retries while the disk is full
/// or read-only.
fn write_until_done(
    store: &dyn Store,
    batch: &Batch,
    must_sync: bool,
    refusal: &SharedRefusal,
) -> Result<(), StoreError> {
    let known = || refusal.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let written = if must_sync {
            store.commit(batch.clone())
        } else {
            store.write(batch.clone())
        };
        match written {
            Err(error) if error.is_transient() => {
                let since = known().as_ref().map(|refusal| refusal.since);
                if since.is_none() {
                    tracing::error!(%error, "outbox: cannot write; retrying every second");
                }
                *known() = Some(DiskRefusal {
                    why: error.to_string(),
                    since: since.unwrap_or_else(Instant::now),
                    is_read_only: matches!(error, StoreError::NotWritable { .. }),
                });
                std::thread::sleep(DISK_RETRY);
            }
            done => {
                if known().take().is_some() {
                    tracing::info!("outbox: writes succeed again");
                }
                return done;
            }
        }
    }
}
