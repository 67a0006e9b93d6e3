//! The fast tiers together: memory, then memcached if there is one.
//!
//! - A copy counts only if it has the SHA-256 that was asked for.
//! - A tier that fails counts as one without the content: reads continue with the disk.
//! - Hits and misses are those of reads. A search for a copy that repairs a content counts errors
//!   only.
//! - A removal names each tier and server that did not answer, and so may still have a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::ContentHash;
use crate::blocking::hash_of;
use crate::entry::Entry;
use crate::memory_tier::Gdsf;
use crate::stats::{TierCounts, TierStats, count};
use crate::tier::{Tier, TierError};

/// Name of the tier of one process.
const MEMORY: &str = "memory";

/// Copies of contents in fast tiers.
#[derive(Debug)]
pub(crate) struct Copies {
    memory: Mutex<Gdsf>,
    shared: Option<Arc<dyn Tier>>,
    memory_counts: TierCounts,
    shared_counts: TierCounts,
}

/// Result of removing copies.
#[derive(Debug, Default)]
pub(crate) struct RemovedCopies {
    /// Removed copies by tier.
    pub(crate) removed: BTreeMap<String, u64>,
    /// Tiers that did not answer, or their servers as `TIER HOST:PORT`.
    pub(crate) unreachable: BTreeSet<String>,
}

impl Copies {
    pub(crate) fn new(memory_bytes: u64, shared: Option<Arc<dyn Tier>>) -> Self {
        Self {
            memory: Mutex::new(Gdsf::new(memory_bytes)),
            shared,
            memory_counts: TierCounts::default(),
            shared_counts: TierCounts::default(),
        }
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Gdsf> {
        self.memory.lock()
    }

    /// Returns the content of an entry and the tier that had it. A tier that fails or is busy is
    /// one without the content.
    pub(crate) async fn get(&self, entry: &Entry) -> Option<(&'static str, Bytes)> {
        let found = self.ask(entry).await;
        if let Ok(Some((MEMORY, _))) = found {
            count(&self.memory_counts.hits);
        } else {
            count(&self.memory_counts.misses);
            if self.shared_for(entry).is_some() {
                self.shared_counts.count_read(&found);
            }
        }
        found.ok().flatten()
    }

    /// Returns the content of an entry and the tier that had it; `None` if all tiers answer that
    /// they have none.
    ///
    /// # Errors
    /// Name and cause of a tier that gives no sound answer, or has a server that is down: it may
    /// have a copy.
    pub(crate) async fn find(
        &self,
        entry: &Entry,
    ) -> Result<Option<(&'static str, Bytes)>, String> {
        let Some(shared) = self.shared_for(entry) else {
            return Ok(self.ask(entry).await.ok().flatten());
        };
        let found = self.ask(entry).await;
        let found = found.map_err(|error| format!("{}: {error}", shared.name()))?;
        if found.is_some() {
            return Ok(found);
        }
        let silent = shared.endpoints().into_iter().find(|server| !server.is_up);
        silent.map_or(Ok(None), |server| {
            Err(format!("{}: {} is down", shared.name(), server.endpoint))
        })
    }

    /// Returns the shared tier if it takes contents of this size.
    fn shared_for(&self, entry: &Entry) -> Option<&dyn Tier> {
        let shared = self.shared.as_deref();
        shared.filter(|shared| entry.bytes <= shared.max_bytes())
    }

    /// Asks memory, then the shared tier, whose errors are counted.
    async fn ask(&self, entry: &Entry) -> Result<Option<(&'static str, Bytes)>, TierError> {
        let memory = self.memory().get(&entry.sha256);
        if let Some(content) = memory {
            return Ok(Some((MEMORY, content)));
        }
        let Some(shared) = self.shared_for(entry) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let found = get_checked(shared, &self.shared_counts, &entry.sha256).await?;
        let Some(content) = found else {
            return Ok(None);
        };
        let cost = begun.elapsed();
        self.memory().put(entry.sha256, content.clone(), cost);
        Ok(Some((shared.name(), content)))
    }

    /// Gives a content to all tiers that take one of its size.
    pub(crate) async fn put(&self, hash: &ContentHash, content: Bytes, cost: Duration) {
        self.memory().put(*hash, content.clone(), cost);
        if let Some(shared) = &self.shared
            && content.len() as u64 <= shared.max_bytes()
            && let Err(error) = shared.put(hash, content).await
            && error != TierError::Busy
        {
            count(&self.shared_counts.errors);
        }
    }

    /// Removes contents from all tiers. A tier that fails as a whole is asked once, a server that
    /// does not answer is left out until the end of its back-off.
    pub(crate) async fn remove(&self, contents: &[ContentHash]) -> RemovedCopies {
        let mut all = RemovedCopies::default();
        let removed = {
            let mut memory = self.memory();
            contents.iter().filter(|hash| memory.remove(hash)).count()
        };
        all.removed.insert(MEMORY.to_owned(), removed as u64);
        if let Some(tier) = &self.shared {
            let mut removed = 0;
            for hash in contents {
                match tier.remove(hash).await {
                    Ok(removal) => {
                        removed += u64::from(removal.was_there);
                        let silent = removal.unreachable.iter();
                        let named = silent.map(|one| format!("{} {one}", tier.name()));
                        all.unreachable.extend(named);
                    }
                    Err(error) => {
                        tracing::warn!(tier = tier.name(), %error, "archive: a copy stays");
                        all.unreachable.insert(tier.name().to_owned());
                        break;
                    }
                }
            }
            all.removed.insert(tier.name().to_owned(), removed);
        }
        all
    }

    pub(crate) fn stats(&self) -> Vec<TierStats> {
        let memory = self.memory_counts.stats(MEMORY, Vec::new());
        let shared = self.shared.as_deref();
        let shared = shared.map(|tier| self.shared_counts.stats(tier.name(), tier.endpoints()));
        [memory].into_iter().chain(shared).collect()
    }
}

/// Asks a tier for a content and checks it; `None` if the tier has none. Errors are counted. A copy
/// that differs from what was stored is an error, and stays. The fill of a fast tier replaces it;
/// in the object tier a proxy's answer may only look like it.
pub(crate) async fn get_checked(
    tier: &dyn Tier,
    counts: &TierCounts,
    hash: &ContentHash,
) -> Result<Option<Bytes>, TierError> {
    let found = tier.get(hash).await;
    if let Err(TierError::Down | TierError::Failed(_)) = found {
        count(&counts.errors);
    }
    let Some(content) = found? else {
        return Ok(None);
    };
    let hashed = hash_of(&content).await.map_err(TierError::Failed)?;
    if hashed == *hash {
        return Ok(Some(content));
    }
    count(&counts.invalid);
    tracing::warn!(tier = tier.name(), "archive: a copy is not what was stored");
    let why = "its answer has another SHA-256".to_owned();
    Err(TierError::Failed(why))
}
