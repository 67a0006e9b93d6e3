//! Copies and deletions that the object tier has still to do.
//!
//! - A task is a record, written in the batch of its entry; so none is lost by a crash.
//! - A task is removed once the tier has done it. A content has one task at most, the latest.
//! - A tier that is down delays tasks and nothing else.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::Notify;
use watchkeeper_store::{Batch, Store, pages};

use crate::archive::Archive;
use crate::durable::Durable;
use crate::error::ArchiveError;
use crate::hash::ContentHash;
use crate::on_disk::{self, OBJECTS, ObjectTask};
use crate::stats::count;
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

/// Does tasks for ever.
pub(crate) async fn serve(
    archive: &Archive,
    objects: &dyn Tier,
    has_tasks: &Notify,
    too_large: &AtomicU64,
) {
    loop {
        let is_done = match serve_page(archive, objects, too_large).await {
            Ok(is_done) => is_done,
            Err(error) => {
                tracing::warn!(%error, "archive: a task of the object tier stays");
                true
            }
        };
        if is_done {
            // A failed task is tried again after the pause, a new one wakes at once.
            let woken = tokio::time::timeout(RETRY, has_tasks.notified()).await;
            drop(woken);
        }
    }
}

/// Does a page of tasks. Returns whether to pause: none is left, or the tier failed.
async fn serve_page(
    archive: &Archive,
    objects: &dyn Tier,
    too_large: &AtomicU64,
) -> Result<bool, ArchiveError> {
    let read = |durable: &Durable| {
        let page = durable
            .store()
            .scan(OBJECTS, std::ops::Bound::Unbounded, PAGE)?;
        let tasks = page.entries.iter();
        Ok(tasks
            .map(|task| on_disk::read_task(&task.key, &task.value))
            .collect::<Vec<_>>())
    };
    let tasks = archive.on_disk(read).await?;
    let is_last = tasks.len() < PAGE;
    for (hash, task) in tasks.into_iter().flatten() {
        let done = match task {
            ObjectTask::Copy => copy(archive, objects, hash, too_large).await?,
            ObjectTask::Delete => objects.remove(&hash).await.is_ok(),
        };
        if !done {
            return Ok(true);
        }
        archive
            .on_disk(move |durable| durable.finish_task(hash, task))
            .await?;
    }
    Ok(is_last)
}

/// Copies a content. Returns whether its task is done: copied, too large, or without an entry.
async fn copy(
    archive: &Archive,
    objects: &dyn Tier,
    hash: ContentHash,
    too_large: &AtomicU64,
) -> Result<bool, ArchiveError> {
    let max = objects.max_bytes();
    let read = move |durable: &Durable| match durable.content_bytes(&hash) {
        Some(bytes) if bytes > max => Ok(Err(())),
        _ => durable.content(&hash).map(Ok),
    };
    match archive.on_disk(read).await? {
        Err(()) => count(too_large),
        Ok(None) => {}
        Ok(Some(content)) => {
            return Ok(objects.put(&hash, content, Duration::ZERO).await.is_ok());
        }
    }
    Ok(true)
}

impl Durable {
    /// Removes a task, unless the content has got another one meanwhile.
    fn finish_task(&self, hash: ContentHash, task: ObjectTask) -> Result<(), ArchiveError> {
        let _writer = self.write_lock();
        let stored = self.store().get(OBJECTS, hash.bytes())?;
        let now = stored.and_then(|value| on_disk::read_task(hash.bytes(), &value));
        if now == Some((hash, task)) {
            let mut batch = Batch::new();
            on_disk::delete_task(&mut batch, &hash);
            self.store().commit(batch)?;
        }
        Ok(())
    }

    fn content_bytes(&self, hash: &ContentHash) -> Option<u64> {
        self.index().blob(hash).map(|blob| blob.bytes)
    }
}
