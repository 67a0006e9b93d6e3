//! Changes of many entries: destruction, expiry and retention. Everything here blocks.
//!
//! - Each is made a batch at a time. The writer's lock is free between two batches, so an ingest
//!   waits for one of them.
//! - What the whole of a request must fulfil is checked before its first batch.

use jiff::Timestamp;
use watchkeeper_store::Batch;

use crate::durable::{Durable, Removed};
use crate::entry::{Content, Entry, Retention};
use crate::error::ArchiveError;
use crate::eviction::expired;
use crate::name::EntryName;
use crate::on_disk;

/// Records of one batch.
const PAGE: usize = 1_000;

impl Durable {
    /// Removes entries, for good when this returns. Other changes come between two batches: one
    /// that is protected then stays.
    ///
    /// # Errors
    /// If one is protected (nothing is removed then), or the disk refuses.
    pub fn destroy(&self, names: &[EntryName]) -> Result<Removed, ArchiveError> {
        self.require_unprotected(names)?;
        let mut all = Removed::default();
        for part in names.chunks(PAGE) {
            let _writer = self.write_lock();
            let known = {
                let index = self.index();
                let is_free = |name: &&EntryName| index.slot(name).is_some_and(|s| !s.is_protected);
                part.iter().filter(is_free).cloned().collect::<Vec<_>>()
            };
            all.extend(self.apply(Batch::new(), &known, &[])?);
        }
        Ok(all)
    }

    /// Fails with the names of those that are protected.
    fn require_unprotected(&self, names: &[EntryName]) -> Result<(), ArchiveError> {
        let index = self.index();
        let is_protected = |name: &&EntryName| index.slot(name).is_some_and(|s| s.is_protected);
        let mut protected = names.iter().filter(is_protected);
        let Some(one) = protected.next() else {
            return Ok(());
        };
        Err(ArchiveError::Protected(match protected.count() {
            0 => one.to_string(),
            more => format!("{one} (and {more} more)"),
        }))
    }

    /// Removes entries that expired by `now`. Other changes come between two batches.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn expire(&self, now: Timestamp) -> Result<Removed, ArchiveError> {
        let mut all = Removed::default();
        loop {
            let _writer = self.write_lock();
            let due = expired(&self.index(), now.as_microsecond(), PAGE);
            // An empty batch would wake the disk at each sweep.
            if due.is_empty() {
                return Ok(all);
            }
            all.extend(self.apply(Batch::new(), &due, &[])?);
            if due.len() < PAGE {
                return Ok(all);
            }
        }
    }

    /// Changes how long entries are kept. Returns how many were changed. Other changes come between
    /// two batches.
    ///
    /// # Errors
    /// [`ArchiveError::Reference`] when a reference is to be protected (nothing is changed then),
    /// and if the disk refuses.
    pub fn set_retention(
        &self,
        names: &[EntryName],
        retention: Retention,
        now: Timestamp,
    ) -> Result<usize, ArchiveError> {
        let needs_content = retention == Retention::Protected;
        if needs_content {
            let index = self.index();
            let is_reference = |name: &&EntryName| index.slot(name).is_some_and(|s| !s.is_stored);
            if let Some(name) = names.iter().find(is_reference) {
                return Err(ArchiveError::Reference(name.clone()));
            }
        }
        let mut count = 0;
        for part in names.chunks(PAGE) {
            let _writer = self.write_lock();
            let (mut batch, mut changed) = (Batch::new(), Vec::new());
            for name in part {
                let Some(entry) = self.entry(name, now)? else {
                    continue;
                };
                if needs_content && entry.content != Content::Stored {
                    return Err(ArchiveError::Reference(name.clone()));
                }
                if entry.retention != retention {
                    let entry = Entry { retention, ..entry };
                    on_disk::put_entry(&mut batch, &entry);
                    changed.push(entry);
                }
            }
            self.apply(batch, &[], &changed)?;
            count += changed.len();
        }
        Ok(count)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ContentHash;
    use crate::entry::NewEntry;
    use crate::eviction::Limits;
    use crate::store_for_tests::HookedStore;

    #[test]
    fn expired_entries_of_several_batches_are_all_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::<HookedStore>::default();
        let opened = Durable::over(folder.path(), store, true, Limits::default(), false);
        let durable = opened.unwrap().0;
        let count = 2 * PAGE + 1;
        let references = (0..=count).map(|number| {
            let new = NewEntry {
                // The last one stays.
                ttl_s: (number < count).then_some(1),
                ..NewEntry::named(EntryName::new("yard", &number.to_string()).unwrap())
            };
            (new, ContentHash::ZERO, 1, "media".to_owned())
        });
        let start = Timestamp::UNIX_EPOCH;
        durable
            .add_references(references.collect(), 1, start)
            .unwrap();
        let now = Timestamp::now();
        let listed = durable.index().collections(now.as_microsecond());
        assert_eq!(listed.get("yard"), Some(&1), "expired ones count no more");
        let removed = durable.expire(now).unwrap();
        assert_eq!(removed.names.len(), count);
        assert_eq!(durable.index().totals().references, 1);
    }
}
