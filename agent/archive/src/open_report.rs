//! What a start finds on disk, and which files it deletes.
//!
//! - A file without an entry is deleted only while the records are known to be complete. They are,
//!   if they were complete at every start since the folder had no such file.

use watchkeeper_store::{Batch, Store, pages};

use crate::ContentHash;
use crate::blobs::BlobFolder;
use crate::error::ArchiveError;
use crate::index::Index;
use crate::on_disk::{self, ENTRIES};
use crate::slot::Slot;

/// Records that are read at a time.
const PAGE: usize = 256;

/// State of the durable tier at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenReport {
    pub entries: usize,
    /// Files without an entry that were deleted.
    pub orphans_deleted: usize,
    /// Files without an entry that stay, because records were lost, now or at an earlier start.
    pub orphans_kept: usize,
    /// Contents whose file is missing.
    pub missing: usize,
    /// Records that this version can't read.
    pub unreadable: usize,
}

/// Reads all entries into the index.
pub(crate) fn scan_entries(
    store: &dyn Store,
    index: &mut Index,
    report: &mut OpenReport,
) -> Result<(), ArchiveError> {
    for page in pages(store, ENTRIES, PAGE) {
        let page = page?;
        report.unreadable += page.corrupt.len();
        for record in &page.entries {
            match on_disk::read_entry(&record.key, &record.value) {
                Some(entry) => {
                    index.put(Slot::of(&entry));
                }
                None => report.unreadable += 1,
            }
        }
    }
    Ok(())
}

/// Deletes files without an entry if the records are complete, or else keeps them and records that.
/// `is_sound`: no record was lost or could not be read at this start.
pub(crate) fn settle_files(
    store: &dyn Store,
    blobs: &BlobFolder,
    index: &Index,
    is_sound: bool,
    report: &mut OpenReport,
) -> Result<(), ArchiveError> {
    let on_disk = blobs.list()?;
    report.missing = index
        .hashes()
        .filter(|hash| !on_disk.contains(*hash))
        .count();
    let orphans = on_disk.iter().filter(|hash| index.blob(hash).is_none());
    let orphans: Vec<&ContentHash> = orphans.collect();
    let was_complete = on_disk::is_complete(store)?;
    let is_complete = orphans.is_empty() || (was_complete && is_sound);
    if is_complete != was_complete && store.waiting().is_none() {
        // Before any file is touched: a later start that finds sound records must not delete what
        // belonged to the lost ones.
        let mut batch = Batch::new();
        on_disk::put_complete(&mut batch, is_complete);
        let written = store.commit(batch);
        // Without the record of soundness the next start keeps more, never less.
        if !is_complete {
            written?;
        }
    }
    if is_complete && store.waiting().is_none() {
        orphans.iter().for_each(|hash| blobs.remove(hash));
        report.orphans_deleted = orphans.len();
    } else {
        report.orphans_kept = orphans.len();
    }
    if report.orphans_kept > 0 {
        tracing::error!(
            files = report.orphans_kept,
            "archive: records were lost; their contents stay in the folder blobs beside max_bytes"
        );
    }
    Ok(())
}
