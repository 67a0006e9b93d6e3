//! Counts of the archive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::embeddings::EmbeddingStats;
use crate::tier::{EndpointHealth, TierError};

/// Counts of one tier since the start.
#[derive(Debug, Default)]
pub(crate) struct TierCounts {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) invalid: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl TierCounts {
    /// Counts a read as a hit or a miss. A tier that is busy is missed; errors are counted where
    /// the tier is asked.
    pub(crate) fn count_read<T>(&self, found: &Result<Option<T>, TierError>) {
        match found {
            Ok(Some(_)) => count(&self.hits),
            Ok(None) | Err(TierError::Busy) => count(&self.misses),
            Err(TierError::Down | TierError::Failed(_)) => {}
        }
    }

    pub(crate) fn stats(&self, tier: &str, endpoints: Vec<EndpointHealth>) -> TierStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TierStats {
            tier: tier.to_owned(),
            hits: read(&self.hits),
            misses: read(&self.misses),
            errors: read(&self.errors),
            invalid: read(&self.invalid),
            endpoints,
        }
    }
}

/// Reads of one tier since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct TierStats {
    /// `memory`, `memcached`, `durable` or `s3`.
    pub tier: String,
    pub hits: u64,
    pub misses: u64,
    /// Requests that failed or found all endpoints down.
    pub errors: u64,
    /// Contents with another hash than asked for.
    pub invalid: u64,
    pub endpoints: Vec<EndpointHealth>,
}

/// Contents and reads of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Entries with content in the archive.
    pub entries: u64,
    /// Entries that refer to media of the runtime.
    pub references: u64,
    /// Contents, each counted once.
    pub contents: u64,
    /// Bytes of the contents.
    pub bytes: u64,
    /// Files without an entry that the last start kept because records were lost. `bytes` does not
    /// include their bytes.
    pub orphans_kept: u64,
    pub max_bytes: u64,
    /// Stored entries that were deleted since the start to make room for others.
    #[serde(default)]
    pub evictions: u64,
    /// Bytes of the records of entries, and those of references; both about.
    pub record_bytes: u64,
    pub reference_bytes: u64,
    /// Bound of each of the two.
    pub max_record_bytes: u64,
    /// Contents in memory.
    pub cached_contents: u64,
    /// Bytes in memory.
    pub cached_bytes: u64,
    pub max_cached_bytes: u64,
    /// Contents that memory has evicted.
    pub cache_evictions: u64,
    /// Copies and deletions that the object tier has still to do.
    pub objects_waiting: u64,
    /// Contents too large for the object tier, of more than 64 MiB: they have no copy there.
    pub objects_too_large: u64,
    /// Absent while the archive makes no embeddings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<EmbeddingStats>,
    /// Entries by collection.
    pub collections: BTreeMap<String, u64>,
    pub tiers: Vec<TierStats>,
}
