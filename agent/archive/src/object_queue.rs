//! Copies and deletions that the object tier has still to do.
//!
//! - A task is a record, written in the batch of its entry; so none is lost by a crash.
//! - No task is done before that batch is durable: a crash may undo a removal, and the copy must
//!   still be there then.
//! - A task is removed once the tier has done it. A content has one task at most, the latest.
//! - A tier that is down delays tasks and nothing else. A task that fails delays no other one.
//! - A verification queues the copies that the tier has lost.
//! - A tier at a new place gets a task for every content. One endpoint in common with the place
//!   before is the same bucket.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::ready;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::sync::Notify;
use watchkeeper_store::{Batch, Store, pages};

use crate::ContentHash;
use crate::blocking::on_blocking_thread;
use crate::copies::get_checked;
use crate::durable::Durable;
use crate::error::ArchiveError;
use crate::index::BlobUse;
use crate::on_disk::{self, OBJECTS, ObjectTask};
use crate::stats::{TierCounts, TierStats};
use crate::tier::{Tier, TierError};

/// Tasks that are read at a time.
const PAGE: usize = 100;
/// Pause after the first failure of a task, and the longest pause between two looks.
const RETRY: Duration = Duration::from_secs(5);
/// Longest pause between two tries of a task.
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// Contents about which the tier is asked at a time.
const MAX_ASKED: usize = 8;
/// Failed tasks whose pause is kept.
const MAX_RETRIES: usize = 10_000;

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
}

impl ObjectQueue {
    /// Makes the queue of a tier; without a tier it has none.
    ///
    /// # Errors
    /// If the tasks of a new place can't be read or written.
    pub(crate) fn open(
        durable: &Durable,
        tier: Option<Arc<dyn Tier>>,
    ) -> Result<Option<Self>, ArchiveError> {
        match queue_all(durable, tier.as_deref()) {
            // A full disk: reads work on, and the next start queues them.
            Err(error) if durable.store().waiting().is_some() => {
                tracing::warn!(%error, "archive: the object tier gets old contents later");
            }
            queued => queued?,
        }
        Ok(tier.map(Self::new))
    }

    fn new(tier: Arc<dyn Tier>) -> Self {
        Self {
            tier,
            has_tasks: Notify::new(),
            counts: TierCounts::default(),
        }
    }

    /// Notifies the task of new work.
    pub(crate) fn wake(&self) {
        self.has_tasks.notify_one();
    }

    /// Returns a content, checked; `None` if the tier has none.
    pub(crate) async fn get(&self, hash: &ContentHash) -> Result<Option<Bytes>, TierError> {
        let found = get_checked(&*self.tier, &self.counts, hash).await;
        self.counts.count_read(&found);
        found
    }

    /// Returns those of these contents that the tier lacks, of the contents that it takes.
    pub(crate) async fn missing(
        &self,
        contents: Vec<(ContentHash, u64)>,
    ) -> Result<Vec<ContentHash>, TierError> {
        let taken = contents
            .into_iter()
            .filter(|(_, bytes)| *bytes <= self.max_bytes());
        let asked = taken.map(|(hash, _)| async move {
            let has = self.tier.has(&hash).await?;
            Ok((!has).then_some(hash))
        });
        let answers = stream::iter(asked).buffer_unordered(MAX_ASKED);
        answers
            .try_filter_map(|missing| ready(Ok(missing)))
            .try_collect()
            .await
    }

    pub(crate) fn name(&self) -> &'static str {
        self.tier.name()
    }

    pub(crate) fn stats(&self) -> TierStats {
        self.counts.stats(self.tier.name(), self.tier.endpoints())
    }

    /// Largest content that the tier takes, in bytes.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.tier.max_bytes()
    }

    /// Does tasks without end.
    pub(crate) async fn serve(&self, durable: &Arc<Durable>) {
        let (mut retries, mut reported) = (Retries::default(), None);
        loop {
            let served = self.serve_all(durable, &mut retries).await;
            let error = served.err().map(|error| error.to_string());
            if let Some(error) = error.as_ref().filter(|_| error != reported) {
                let fault = "archive: the tasks of the object tier can't be read or made durable";
                tracing::warn!(error, "{fault}");
            }
            reported = error;
            // A failed task is tried again after a pause, a new one wakes at once.
            let woken = tokio::time::timeout(RETRY, self.has_tasks.notified()).await;
            drop(woken);
        }
    }

    /// Tries every task that is due once, until all endpoints are down.
    async fn serve_all(
        &self,
        durable: &Arc<Durable>,
        retries: &mut Retries,
    ) -> Result<(), ArchiveError> {
        let mut from = Bound::Unbounded;
        loop {
            let begin = from.clone();
            let read = move |durable: &Durable| {
                let begin = begin.as_ref().map(Vec::as_slice);
                let page = durable.store().scan(OBJECTS, begin, PAGE)?;
                durable.store().sync()?;
                Ok(page.entries)
            };
            let page = on_blocking_thread(durable, read).await?;
            for record in &page {
                let Some((hash, task)) = on_disk::read_task(&record.key, &record.value) else {
                    continue;
                };
                if !retries.is_due(&hash, Instant::now()) {
                    continue;
                }
                match self.attempt(durable, hash, task).await {
                    Ok(()) => retries.forget(&hash),
                    Err(Failure::AllDown) => return Ok(()),
                    Err(Failure::Task(why)) => {
                        tracing::warn!(%hash, why, "archive: a task of the object tier stays");
                        retries.failed(hash, Instant::now());
                    }
                }
            }
            match page.last() {
                Some(last) if page.len() == PAGE => from = Bound::Excluded(last.key.clone()),
                _ => return Ok(()),
            }
        }
    }

    async fn attempt(
        &self,
        durable: &Arc<Durable>,
        hash: ContentHash,
        task: ObjectTask,
    ) -> Result<(), Failure> {
        match task {
            ObjectTask::Copy => self.copy(durable, hash).await?,
            ObjectTask::Delete => drop(self.tier.remove(&hash).await?),
        }
        let finish = move |durable: &Durable| finish_task(durable, hash, task);
        Ok(on_blocking_thread(durable, finish).await?)
    }

    /// Copies a content; done too if it is too large, or has no entry or no sound file.
    async fn copy(&self, durable: &Arc<Durable>, hash: ContentHash) -> Result<(), Failure> {
        let max = self.tier.max_bytes();
        let read = move |durable: &Durable| {
            // A guard in the head of the match would still be held where `content` locks.
            let blob = durable.index().blob(&hash);
            match blob {
                Some(BlobUse { bytes, .. }) if bytes > max => {
                    tracing::warn!(%hash, bytes, max, "archive: too large for S3; it has no copy");
                    Ok(None)
                }
                _ => durable.content(&hash),
            }
        };
        if let Some(content) = on_blocking_thread(durable, read).await? {
            self.tier.put(&hash, content).await?;
        }
        Ok(())
    }
}

/// Why a task was not done.
enum Failure {
    /// Any other task would fail too.
    AllDown,
    Task(String),
}

impl From<TierError> for Failure {
    fn from(error: TierError) -> Self {
        match error {
            TierError::Down => Self::AllDown,
            error => Self::Task(error.to_string()),
        }
    }
}

impl From<ArchiveError> for Failure {
    fn from(error: ArchiveError) -> Self {
        Self::Task(error.to_string())
    }
}

/// When failed tasks are tried again: after 5 s, then twice as long, at most 10 min.
#[derive(Debug, Default)]
struct Retries(HashMap<ContentHash, (u32, Instant)>);

impl Retries {
    fn is_due(&self, hash: &ContentHash, now: Instant) -> bool {
        self.0.get(hash).is_none_or(|(_, at)| *at <= now)
    }

    /// Records a failure. Beyond [`MAX_RETRIES`] a task is tried at every look.
    fn failed(&mut self, hash: ContentHash, now: Instant) {
        let failures = self.0.get(&hash).map_or(0, |(failures, _)| *failures);
        if failures == 0 && self.0.len() >= MAX_RETRIES {
            return;
        }
        let pause = RETRY.saturating_mul(2_u32.saturating_pow(failures.min(16)));
        let again = now + pause.min(MAX_PAUSE);
        self.0.insert(hash, (failures.saturating_add(1), again));
    }

    fn forget(&mut self, hash: &ContentHash) {
        self.0.remove(hash);
    }
}

/// Queues a copy of every content if the object tier has none of the copies made before. `None`:
/// there is no tier, so a later one has no copy of what comes meanwhile.
fn queue_all(durable: &Durable, tier: Option<&dyn Tier>) -> Result<(), ArchiveError> {
    let place = tier.map(Tier::place);
    let _writer = durable.write_lock();
    let known = on_disk::object_place(durable.store())?;
    if known == place {
        return Ok(());
    }
    let hashes: Vec<ContentHash> = match (tier, known) {
        (Some(tier), Some(known)) if tier.has_copies_of(&known) => Vec::new(),
        (Some(_), _) => durable.index().hashes().copied().collect(),
        (None, _) => Vec::new(),
    };
    for part in hashes.chunks(1_000) {
        let mut batch = Batch::new();
        for hash in part {
            on_disk::put_task(&mut batch, hash, ObjectTask::Copy);
        }
        durable.store().commit(batch)?;
    }
    // Last: a crash before it queues them again.
    let mut batch = Batch::new();
    on_disk::put_object_place(&mut batch, place.as_deref());
    Ok(durable.store().commit(batch)?)
}

/// Returns the contents for which no task waits.
pub(crate) fn without_tasks(
    durable: &Durable,
    contents: BTreeMap<ContentHash, u64>,
) -> Result<Vec<(ContentHash, u64)>, ArchiveError> {
    let mut settled = Vec::with_capacity(contents.len());
    for (hash, bytes) in contents {
        if durable.store().get(OBJECTS, &hash.0)?.is_none() {
            settled.push((hash, bytes));
        }
    }
    Ok(settled)
}

/// Queues copies of those of these contents that still have an entry and wait for no task; returns
/// their number.
pub(crate) fn queue_copies(
    durable: &Durable,
    contents: &[ContentHash],
) -> Result<u64, ArchiveError> {
    let _writer = durable.write_lock();
    let (mut batch, mut queued) = (Batch::new(), 0);
    for hash in contents {
        let waits = durable.store().get(OBJECTS, &hash.0)?.is_some();
        if !waits && durable.index().blob(hash).is_some() {
            on_disk::put_task(&mut batch, hash, ObjectTask::Copy);
            queued += 1;
        }
    }
    durable.store().commit(batch)?;
    Ok(queued)
}

/// Removes a task, unless the content has got another one meanwhile.
fn finish_task(durable: &Durable, hash: ContentHash, task: ObjectTask) -> Result<(), ArchiveError> {
    let _writer = durable.write_lock();
    let stored = durable.store().get(OBJECTS, &hash.0)?;
    let now = stored.and_then(|value| on_disk::read_task(&hash.0, &value));
    if now == Some((hash, task)) {
        let done = Batch::new().delete(OBJECTS, &hash.0);
        durable.store().commit(done)?;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use jiff::Timestamp;
    use watchkeeper_store::{FaultyStore, MemoryStore};

    use super::*;
    use crate::entry::NewEntry;
    use crate::eviction::Limits;
    use crate::name::EntryName;
    use crate::tier::{EndpointHealth, Removal};

    /// An object tier in memory.
    #[derive(Debug, Default)]
    struct Bucket(Mutex<HashMap<ContentHash, Bytes>>);

    impl Tier for Bucket {
        fn name(&self) -> &'static str {
            "bucket"
        }

        fn max_bytes(&self) -> u64 {
            1 << 20
        }

        fn get<'a>(
            &'a self,
            hash: &'a ContentHash,
        ) -> BoxFuture<'a, Result<Option<Bytes>, TierError>> {
            ready(Ok(self.0.lock().unwrap().get(hash).cloned())).boxed()
        }

        fn put<'a>(
            &'a self,
            hash: &'a ContentHash,
            content: Bytes,
        ) -> BoxFuture<'a, Result<(), TierError>> {
            self.0.lock().unwrap().insert(*hash, content);
            ready(Ok(())).boxed()
        }

        fn remove<'a>(
            &'a self,
            hash: &'a ContentHash,
        ) -> BoxFuture<'a, Result<Removal, TierError>> {
            let removal = Removal {
                was_there: self.0.lock().unwrap().remove(hash).is_some(),
                unreachable: Vec::new(),
            };
            ready(Ok(removal)).boxed()
        }

        fn endpoints(&self) -> Vec<EndpointHealth> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn copy_is_deleted_only_once_the_entry_is_gone_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let open = |store: &Arc<FaultyStore<MemoryStore>>| {
            let store = Arc::clone(store) as _;
            let opened = Durable::over(folder.path(), store, true, Limits::default(), true);
            Arc::new(opened.unwrap().0)
        };
        let queue = ObjectQueue::new(Arc::new(Bucket::default()));
        let store = Arc::default();
        let name: EntryName = "yard/a.jpg".parse().unwrap();
        let durable = open(&store);
        let mut staged = durable.stage().unwrap();
        staged.append(b"alpha").unwrap();
        let new = NewEntry::named(name.clone());
        let sealed = staged.seal().unwrap();
        durable.commit(&sealed, new, Timestamp::now()).unwrap();
        let mut retries = Retries::default();
        queue.serve_all(&durable, &mut retries).await.unwrap();

        store.syncs.blow_at(1);
        assert!(durable.destroy(std::slice::from_ref(&name)).is_err());
        assert!(queue.serve_all(&durable, &mut retries).await.is_err());
        let durable = open(&Arc::new(FaultyStore::new(store.inner().power_cut())));
        assert!(durable.entry(&name, Timestamp::now()).unwrap().is_some());
        let content = queue.get(&sealed.hash()).await.unwrap();
        assert_eq!(content.as_deref(), Some(&b"alpha"[..]));

        durable.destroy(&[name]).unwrap();
        queue.serve_all(&durable, &mut retries).await.unwrap();
        assert_eq!(queue.get(&sealed.hash()).await, Ok(None));
    }

    #[tokio::test]
    async fn content_with_a_copy_is_copied_again_only_after_damage() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::<MemoryStore>::default();
        let opened = Durable::over(folder.path(), store, true, Limits::default(), true);
        let durable = Arc::new(opened.unwrap().0);
        let queue = ObjectQueue::new(Arc::new(Bucket::default()));
        let commit = |name: &str| {
            let mut staged = durable.stage().unwrap();
            staged.append(b"alpha").unwrap();
            let sealed = staged.seal().unwrap();
            let new = NewEntry::named(name.parse().unwrap());
            durable.commit(&sealed, new, Timestamp::now()).unwrap();
            count_waiting(durable.store()).unwrap()
        };
        assert_eq!(commit("yard/a.jpg"), 1);
        let mut retries = Retries::default();
        queue.serve_all(&durable, &mut retries).await.unwrap();
        assert_eq!(commit("yard/a.jpg"), 0);
        assert_eq!(commit("yard/b.jpg"), 0);
        // Its task may have ended without a copy, because the file was damaged.
        let blob = format!("blobs/{}", ContentHash::of(b"alpha"));
        std::fs::write(folder.path().join(blob), b"damaged").unwrap();
        assert_eq!(commit("yard/a.jpg"), 1);
    }

    #[test]
    fn failed_task_waits_longer_each_time_and_no_other_waits() {
        let mut retries = Retries::default();
        let (bad, start) = (ContentHash::of(b"bad"), Instant::now());
        for seconds in [5, 10, 20, 40, 80, 160, 320, 600, 600] {
            retries.failed(bad, start);
            let at = |seconds| start + Duration::from_secs(seconds);
            assert!(!retries.is_due(&bad, at(seconds - 1)));
            assert!(retries.is_due(&bad, at(seconds)));
            assert!(retries.is_due(&ContentHash::of(b"good"), start));
        }
        retries.forget(&bad);
        assert!(retries.is_due(&bad, start));
    }
}
