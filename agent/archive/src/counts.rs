//! Counts of the archive: its collections, contents and reads.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::archive::Archive;
use crate::durable::Durable;
use crate::error::ArchiveError;
use crate::object_queue::{ObjectQueue, count_waiting};
use crate::stats::Stats;

impl Archive {
    /// Counts contents and reads.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn stats(&self) -> Result<Stats, ArchiveError> {
        let max_object = self.objects().map_or(u64::MAX, ObjectQueue::max_bytes);
        let read = move |durable: &Durable| {
            let waiting = count_waiting(durable.store())?;
            let index = durable.index();
            let too_large = index.larger_than(max_object);
            Ok((
                index.totals(),
                index.collections(Timestamp::now().as_microsecond()),
                waiting,
                too_large,
            ))
        };
        let (totals, collections, objects_waiting, too_large) = self.blocking(read).await?;
        let limits = self.durable().limits();
        let (max_cached_bytes, cached_contents, cached_bytes, cache_evictions) = {
            let memory = self.copies().memory();
            let contents = memory.contents() as u64;
            (
                memory.max_bytes(),
                contents,
                memory.bytes(),
                memory.evictions(),
            )
        };
        let mut tiers = self.copies().stats();
        tiers.push(self.durable_counts().stats("durable", Vec::new()));
        tiers.extend(self.objects().map(ObjectQueue::stats));
        Ok(Stats {
            entries: totals.stored as u64,
            references: totals.references as u64,
            contents: totals.contents as u64,
            bytes: totals.bytes,
            orphans_kept: self.open_report().orphans_kept as u64,
            max_bytes: limits.max_bytes,
            evictions: self.durable().evictions(),
            record_bytes: totals.record_bytes,
            reference_bytes: totals.reference_bytes,
            max_record_bytes: limits.max_record_bytes,
            cached_contents,
            cached_bytes,
            max_cached_bytes,
            cache_evictions,
            objects_waiting,
            objects_too_large: too_large as u64,
            embeddings: None,
            collections,
            tiers,
        })
    }

    /// Returns the collections with their numbers of entries.
    ///
    /// # Errors
    /// If the work is cut short.
    pub async fn collections(&self) -> Result<BTreeMap<String, u64>, ArchiveError> {
        let now_us = Timestamp::now().as_microsecond();
        let list = move |durable: &Durable| Ok(durable.index().collections(now_us));
        self.blocking(list).await
    }
}
