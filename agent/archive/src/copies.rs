//! The fast tiers together: memory, then memcached where there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::ContentHash;
use crate::entry::Entry;
use crate::memory_tier::MemoryTier;
use crate::stats::{TierCounts, TierStats, count};
use crate::tier::{Tier, TierError};

/// Copies of contents in fast tiers.
#[derive(Debug)]
pub(crate) struct Copies {
    memory: MemoryTier,
    shared: Option<Arc<dyn Tier>>,
    memory_counts: TierCounts,
    shared_counts: TierCounts,
}

/// What a removal found.
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
            memory: MemoryTier::new(memory_bytes),
            shared,
            memory_counts: TierCounts::default(),
            shared_counts: TierCounts::default(),
        }
    }

    pub(crate) fn memory(&self) -> &MemoryTier {
        &self.memory
    }

    /// Returns the content of an entry and the tier that had it.
    pub(crate) async fn get(&self, entry: &Entry) -> Option<(&'static str, Bytes)> {
        let memory = get_checked(&self.memory, &self.memory_counts, &entry.sha256, true).await;
        // A fast tier that fails is one without the content.
        if let Some(content) = memory.ok().flatten() {
            return Some((self.memory.name(), content));
        }
        let shared = self.shared.as_deref()?;
        if entry.bytes > shared.max_bytes() {
            return None;
        }
        let begun = Instant::now();
        let content = get_checked(shared, &self.shared_counts, &entry.sha256, false).await;
        let content = content.ok().flatten()?;
        self.put_in_memory(&entry.sha256, content.clone(), begun.elapsed())
            .await;
        Some((shared.name(), content))
    }

    /// Gives a content to all tiers that take one of its size.
    pub(crate) async fn put(&self, hash: &ContentHash, content: Bytes, cost: Duration) {
        self.put_in_memory(hash, content.clone(), cost).await;
        if let Some(shared) = &self.shared
            && content.len() as u64 <= shared.max_bytes()
            && shared.put(hash, content, cost).await.is_err()
        {
            count(&self.shared_counts.errors);
        }
    }

    async fn put_in_memory(&self, hash: &ContentHash, content: Bytes, cost: Duration) {
        if content.len() as u64 <= self.memory.max_bytes() {
            // Memory never fails.
            self.memory.put(hash, content, cost).await.ok();
        }
    }

    /// Removes contents from all tiers. A tier that fails as a whole is asked once, a server that
    /// does not answer is left out until the end of its back-off.
    pub(crate) async fn remove(&self, contents: &[ContentHash]) -> RemovedCopies {
        let memory: Option<&dyn Tier> = Some(&self.memory);
        let mut all = RemovedCopies::default();
        for tier in memory.into_iter().chain(self.shared.as_deref()) {
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
        let memory = self.memory_counts.stats(self.memory.name(), Vec::new());
        let shared = self.shared.as_deref();
        let shared = shared.map(|tier| self.shared_counts.stats(tier.name(), tier.endpoints()));
        [memory].into_iter().chain(shared).collect()
    }
}

/// Asks a tier for a content and checks it; `None` if the tier has none. Memory is trusted. A copy
/// that is not what was stored is an error and stays: the fill of a fast tier replaces it, and in
/// the object tier the answer of a proxy may only look like it.
pub(crate) async fn get_checked(
    tier: &dyn Tier,
    counts: &TierCounts,
    hash: &ContentHash,
    is_trusted: bool,
) -> Result<Option<Bytes>, TierError> {
    match tier.get(hash).await {
        Ok(Some(content)) if is_trusted || ContentHash::of(&content) == *hash => {
            count(&counts.hits);
            Ok(Some(content))
        }
        Ok(Some(_)) => {
            count(&counts.invalid);
            tracing::warn!(tier = tier.name(), "archive: a copy is not what was stored");
            let why = "its answer has another SHA-256".to_owned();
            Err(TierError::Failed(why))
        }
        Ok(None) => {
            count(&counts.misses);
            Ok(None)
        }
        Err(error) => {
            count(&counts.errors);
            Err(error)
        }
    }
}
