//! Copies and deletions that the object tier has still to do.
//!
//! - A task is a record, written in the batch of its entry; so none is lost by a crash.
//! - A task is removed once the tier has done it. A content has one task at most, the latest.
//! - A tier that is down delays tasks and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use watchkeeper_store::{Batch, Store, pages};

use crate::blocking::on_blocking_thread;
use crate::copies::asked;
use crate::durable::Durable;
use crate::error::ArchiveError;
use crate::hash::ContentHash;
use crate::on_disk::{self, OBJECTS, ObjectTask};
use crate::stats::{TierCounts, TierStats, count};
use crate::tier::Tier;

/// Tasks that are read at a time.
const PAGE: usize = 100;
/// Pause after a failure, and the longest pause between two looks.
const RETRY: Duration = Duration::from_secs(5);

/// Counts the tasks.
pub(crate) fn count_waiting(store: &dyn Store) -> Result<u64, ArchiveError> {
    let mut count = 0;
    for page in pages(store, OBJECTS, 1_000) {
        count += page?.entries.len() as u64;
    }
    Ok(count)
}

/// The object tier, and what wakes its task.
#[derive(Debug)]
pub(crate) struct ObjectQueue {
    tier: Arc<dyn Tier>,
    has_tasks: Notify,
    counts: TierCounts,
    too_large: AtomicU64,
}

impl ObjectQueue {
    pub(crate) fn new(tier: Arc<dyn Tier>) -> Self {
        Self {
            tier,
            has_tasks: Notify::new(),
            counts: TierCounts::default(),
            too_large: AtomicU64::new(0),
        }
    }

    /// Says that there are new tasks.
    pub(crate) fn wake(&self) {
        self.has_tasks.notify_one();
    }

    /// Returns a content, checked.
    pub(crate) async fn get(&self, hash: &ContentHash) -> Option<Bytes> {
        asked(&*self.tier, &self.counts, hash, false).await
    }

    pub(crate) fn stats(&self) -> TierStats {
        self.counts.stats(self.tier.name(), self.tier.endpoints())
    }

    /// Contents that were too large for the tier since the start.
    pub(crate) fn too_large(&self) -> u64 {
        self.too_large.load(Ordering::Relaxed)
    }

    /// Does tasks for ever.
    pub(crate) async fn serve(&self, durable: &Arc<Durable>) {
        loop {
            let is_done = match self.serve_page(durable).await {
                Ok(is_done) => is_done,
                Err(error) => {
                    tracing::warn!(%error, "archive: a task of the object tier stays");
                    true
                }
            };
            if is_done {
                // A failed task is tried again after the pause, a new one wakes at once.
                let woken = tokio::time::timeout(RETRY, self.has_tasks.notified()).await;
                drop(woken);
            }
        }
    }

    /// Does a page of tasks. Returns whether to pause: none is left, or the tier failed.
    async fn serve_page(&self, durable: &Arc<Durable>) -> Result<bool, ArchiveError> {
        let read = |durable: &Durable| {
            let page = durable
                .store()
                .scan(OBJECTS, std::ops::Bound::Unbounded, PAGE)?;
            let tasks = page.entries.iter();
            let tasks = tasks.map(|task| on_disk::read_task(&task.key, &task.value));
            Ok(tasks.collect::<Vec<_>>())
        };
        let tasks = on_blocking_thread(durable, read).await?;
        let is_last = tasks.len() < PAGE;
        for (hash, task) in tasks.into_iter().flatten() {
            let done = match task {
                ObjectTask::Copy => self.copy(durable, hash).await?,
                ObjectTask::Delete => self.tier.remove(&hash).await.is_ok(),
            };
            if !done {
                return Ok(true);
            }
            let finish = move |durable: &Durable| finish_task(durable, hash, task);
            on_blocking_thread(durable, finish).await?;
        }
        Ok(is_last)
    }

    /// Copies a content. Returns whether its task is done: copied, too large, or without an entry.
    async fn copy(&self, durable: &Arc<Durable>, hash: ContentHash) -> Result<bool, ArchiveError> {
        let max = self.tier.max_bytes();
        let read = move |durable: &Durable| {
            // A guard in the head of the match would still be held where `content` locks.
            let blob = durable.index().blob(&hash);
            match blob {
                Some(blob) if blob.bytes > max => Ok(Err(())),
                _ => durable.content(&hash).map(Ok),
            }
        };
        match on_blocking_thread(durable, read).await? {
            Err(()) => count(&self.too_large),
            Ok(None) => {}
            Ok(Some(content)) => {
                return Ok(self.tier.put(&hash, content, Duration::ZERO).await.is_ok());
            }
        }
        Ok(true)
    }
}

/// Removes a task, unless the content has got another one meanwhile.
fn finish_task(durable: &Durable, hash: ContentHash, task: ObjectTask) -> Result<(), ArchiveError> {
    let _writer = durable.write_lock();
    let stored = durable.store().get(OBJECTS, hash.bytes())?;
    let now = stored.and_then(|value| on_disk::read_task(hash.bytes(), &value));
    if now == Some((hash, task)) {
        let mut batch = Batch::new();
        on_disk::delete_task(&mut batch, &hash);
        durable.store().commit(batch)?;
    }
    Ok(())
}
