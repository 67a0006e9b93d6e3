//! The outbox with its store: the batch being committed, and the senders that wait for it.
//!
//! Invariants:
//! - One batch is written at a time, on a blocking thread; the loop never waits for a write.
//! - Operations of other keyspaces join the outbox's next batch, so both are stored or neither.
//! - An owner is returned only after the batch with its operations is durable.
//! - A full or read-only disk is waited for: meanwhile the journal keeps what the outbox can't.
//!   [`DurableOutbox::refusal`] says so. Any other error of the store ends the agent.
//! - What is staged meanwhile is bounded: a newer operation without owner replaces the older one of
//!   its key. Over [`MAX_STAGED`] entries or [`MAX_STAGED_NOTICES`] notices, the oldest is dropped,
//!   logged, and its owner never returned: a command is then resumed or sent again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::{JoinError, JoinHandle};
use watchkeeper_store::{Batch, Keyspace, Op, Store, StoreError};

use crate::fleet::command::CommandKey;
use crate::fleet::outbox::{Change, Content, Input, Outbox, OutboxId, Output, store};
use crate::future_slot::take_output;
use crate::notify::pending::MAX_PENDING;
use crate::notify::service::PendingNotice;

/// Pause before a write to a full disk is retried.
const DISK_RETRY: Duration = Duration::from_secs(1);

/// Maximum number of entries that wait for the next batch. It is more than one for each remembered
/// command, because all of them may be forgotten at once.
const MAX_STAGED: usize = 8192;

/// Maximum number of notices among them: as many as a channel keeps.
const MAX_STAGED_NOTICES: usize = MAX_PENDING;

/// Owner of operations in a batch, notified once the batch is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BatchOwner {
    /// A command, with the version of its record.
    Command(CommandKey, u32),
    /// A notice of the box that channels have still to receive.
    Notice(PendingNotice),
}

/// A batch that is durable.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) batch: u64,
    pub(crate) owners: Vec<BatchOwner>,
}

/// The result of one write, unless the store or its thread failed.
pub(crate) type WriteResult = Result<Result<Written, StoreError>, JoinError>;

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
    staged: StagedOps,
    writing: Option<JoinHandle<Result<Written, StoreError>>>,
    refusal: SharedRefusal,
}

/// Operations of other keyspaces that join the next batch, oldest first.
#[derive(Debug, Default)]
struct StagedOps(VecDeque<Staged>);

#[derive(Debug)]
struct Staged {
    ops: Vec<Op>,
    owner: Option<BatchOwner>,
}

impl StagedOps {
    fn push(&mut self, op: Op) {
        let is_older = |staged: &Staged| {
            staged.owner.is_none() && staged.ops.iter().all(|older| place(older) == place(&op))
        };
        self.0.retain(|staged| !is_older(staged));
        self.add(Staged {
            ops: vec![op],
            owner: None,
        });
    }

    fn push_for(&mut self, owner: BatchOwner, ops: Vec<Op>) {
        self.add(Staged {
            ops,
            owner: Some(owner),
        });
    }

    fn add(&mut self, staged: Staged) {
        self.0.push_back(staged);
        let notices = self.0.iter().filter(|one| one.is_notice());
        if notices.count() > MAX_STAGED_NOTICES {
            self.drop_oldest_notice();
        }
        if self.0.len() > MAX_STAGED {
            tracing::warn!("outbox: too much waits for the disk; the oldest change is dropped");
            self.0.pop_front();
        }
    }

    /// Drops all but its deletes, which may be about records on disk.
    fn drop_oldest_notice(&mut self) {
        if let Some(oldest) = self.0.iter_mut().find(|one| one.is_notice()) {
            tracing::warn!("outbox: too many notices wait for the disk; the oldest is dropped");
            oldest.owner = None;
            oldest.ops.retain(|op| matches!(op, Op::Delete { .. }));
        }
        self.0
            .retain(|one| one.owner.is_some() || !one.ops.is_empty());
    }
}

impl Staged {
    fn is_notice(&self) -> bool {
        matches!(self.owner, Some(BatchOwner::Notice(_)))
    }
}

/// Key that an operation writes.
fn place(op: &Op) -> (Keyspace, &[u8]) {
    match op {
        Op::Put { keyspace, key, .. } | Op::Delete { keyspace, key } => (*keyspace, key),
    }
}

impl DurableOutbox {
    pub(crate) fn new(core: Outbox, store: Arc<dyn Store>) -> Self {
        Self {
            core,
            store,
            staged: StagedOps::default(),
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
        self.staged.push(op);
    }

    /// Adds `ops` to the next batch, which then belongs to `owner` too.
    pub(crate) fn stage_for(&mut self, owner: BatchOwner, ops: impl IntoIterator<Item = Op>) {
        self.staged.push_for(owner, ops.into_iter().collect());
    }

    pub(crate) fn has_staged(&self) -> bool {
        !self.staged.0.is_empty()
    }

    /// Why nothing can be stored at the moment; it is retried every second.
    pub(crate) fn refusal(&self) -> Option<DiskRefusal> {
        let refusal = self.refusal.lock();
        refusal.clone()
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.core.handle(Instant::now(), input);
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.core.poll()
    }

    /// Starts to write `change` with everything staged.
    pub(crate) fn start_write(&mut self, change: &Change) {
        let mut batch = store::batch_of(change);
        let must_sync = change.must_sync() || self.has_staged();
        let mut owners = Vec::new();
        for Staged { ops, owner } in self.staged.0.drain(..) {
            batch.extend(ops);
            owners.extend(owner);
        }
        let store = Arc::clone(&self.store);
        let refusal = Arc::clone(&self.refusal);
        let written = Written {
            batch: change.batch,
            owners,
        };
        self.writing = Some(tokio::task::spawn_blocking(move || {
            write_until_done(&*store, &batch, must_sync, &refusal).map(|()| written)
        }));
    }

    /// Waits for the write in progress. Dropping this future loses nothing.
    pub(crate) async fn written(&mut self) -> WriteResult {
        take_output(&mut self.writing).await
    }

    /// Reads an entry back; `None` if the store holds a damaged one.
    pub(crate) fn load(&self, id: OutboxId) -> Result<Option<Content>, StoreError> {
        store::load(&*self.store, id)
    }

    /// Waits at most `timeout` for the write in progress.
    pub(crate) async fn finish(
        &mut self,
        timeout: Duration,
    ) -> Result<Result<(), StoreError>, JoinError> {
        let Some(writing) = self.writing.take() else {
            return Ok(Ok(()));
        };
        match tokio::time::timeout(timeout, writing).await {
            Ok(written) => written.map(|written| written.map(drop)),
            Err(_) => {
                tracing::warn!(
                    "outbox: the last write did not finish; the journal delivers its events again"
                );
                Ok(Ok(()))
            }
        }
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
    let known = || refusal.lock();
    loop {
        let written = if must_sync {
            store.commit(batch.clone())
        } else {
            store.write(batch.clone())
        };
        match written {
            Err(error) if error.is_disk_refusal() => {
                let since = known().as_ref().map(|refusal| refusal.since);
                if since.is_none() {
                    tracing::error!(%error, "outbox: can't write; retrying every second");
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

#[cfg(test)]
mod tests {
    use watchkeeper_contract::rule::Severity;
    use watchkeeper_contract::time::{TimeQuality, Wall};

    use super::*;
    use crate::notify::message::Notice;

    const STATES: Keyspace = Keyspace::new("states");

    fn put(key: &str, value: &str) -> Op {
        Op::put(STATES, key, value)
    }

    fn notice(id: usize) -> BatchOwner {
        let at = Wall {
            unix_ms: 0,
            quality: TimeQuality::Synced,
        };
        BatchOwner::Notice(PendingNotice {
            notice: Notice {
                id: id.to_string(),
                at,
                severity: Severity::Info,
                reason: String::new(),
                camera: None,
                by_model: None,
                payload: Vec::new(),
            },
            numbers: Vec::new(),
        })
    }

    #[test]
    fn newer_operation_replaces_the_older_of_its_key() {
        let mut staged = StagedOps::default();
        let owner = notice(1);
        staged.push(put("a", "1"));
        staged.push_for(owner, vec![put("a", "owned")]);
        staged.push(put("b", "1"));
        staged.push(put("a", "2"));
        let ops: Vec<Op> = staged.0.into_iter().flat_map(|one| one.ops).collect();
        assert_eq!(ops, [put("a", "owned"), put("b", "1"), put("a", "2")]);
    }

    #[test]
    fn oldest_notice_is_dropped_and_its_deletes_stay() {
        let mut staged = StagedOps::default();
        let delete = Op::Delete {
            keyspace: STATES,
            key: b"evicted".to_vec(),
        };
        staged.push(put("a", "1"));
        staged.push_for(notice(0), vec![put("first", ""), delete.clone()]);
        for id in 1..=MAX_STAGED_NOTICES {
            staged.push_for(notice(id), vec![put(&id.to_string(), "")]);
        }
        let owners: Vec<&BatchOwner> = staged.0.iter().flat_map(|one| &one.owner).collect();
        assert_eq!(owners.len(), MAX_STAGED_NOTICES);
        assert!(!owners.contains(&&notice(0)));
        let ops: Vec<&Op> = staged.0.iter().flat_map(|one| &one.ops).collect();
        assert_eq!(ops[..2], [&put("a", "1"), &delete]);
        assert!(!ops.contains(&&put("first", "")));
    }

    #[test]
    fn number_of_staged_operations_is_bounded() {
        let mut staged = StagedOps::default();
        for id in 0..MAX_STAGED + 10 {
            staged.push(put(&id.to_string(), ""));
        }
        assert_eq!(staged.0.len(), MAX_STAGED);
        let last = staged.0.back().map(|one| one.ops.clone());
        assert_eq!(last, Some(vec![put(&(MAX_STAGED + 9).to_string(), "")]));
    }
}
