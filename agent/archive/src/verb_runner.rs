//! Runs typed verbs, and counts.

use jiff::Zoned;

use crate::archive::Archive;
use crate::durable::Durable;
use crate::entry::Retention;
use crate::error::ArchiveError;
use crate::object_queue::{ObjectQueue, count_waiting};
use crate::stats::Stats;
use crate::verb::{Answer, Verb};

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
                index.collections().collect(),
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

    /// Runs a verb that needs nothing outside the archive; `now` is the time of the box.
    ///
    /// # Errors
    /// Those of the verb. [`ArchiveError::Refused`] for `ingest`: its caller reads the source.
    pub async fn run(&self, verb: Verb, now: Zoned) -> Result<Answer, ArchiveError> {
        let changed = |count: usize| Answer::Changed {
            entries: count as u64,
            gone: 0,
        };
        Ok(match verb {
            Verb::Ingest(_) => {
                let sentence = "this caller reads no sources; ingest over the agent".to_owned();
                return Err(ArchiveError::Refused(sentence));
            }
            Verb::Query { query } => Answer::Matches(self.query(*query).await?),
            Verb::Find { words } => Answer::Found(Box::new(self.find(words, now).await?)),
            Verb::List => {
                let list = |durable: &Durable| Ok(durable.index().collections().collect());
                let collections = self.blocking(list).await?;
                Answer::Collections { collections }
            }
            Verb::Stat { name } => {
                let entry = Box::new(self.stat(&name).await?);
                Answer::Entry { entry }
            }
            Verb::Prune { selection } => Answer::Pruned(self.prune(selection).await?),
            Verb::Destroy { selection } => Answer::Destroyed(self.destroy(selection).await?),
            Verb::Protect { selection } => {
                changed(self.set_retention(selection, Retention::Protected).await?)
            }
            Verb::Unprotect { selection } => {
                changed(self.set_retention(selection, Retention::Normal).await?)
            }
            Verb::Stats => Answer::Stats(Box::new(self.stats().await?)),
        })
    }
}
