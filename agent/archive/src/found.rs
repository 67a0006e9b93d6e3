//! What a start finds on disk.

use watchkeeper_store::{Store, pages};

use crate::error::ArchiveError;
use crate::index::{Index, Slot};
use crate::on_disk::{self, ENTRIES};

/// Records that are read at a time.
const PAGE: usize = 1_000;

/// State in which the durable tier was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    pub entries: usize,
    /// Files without an entry that were deleted.
    pub orphans_deleted: usize,
    /// Files without an entry that stay, because records were lost.
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
    found: &mut Found,
) -> Result<(), ArchiveError> {
    for page in pages(store, ENTRIES, PAGE) {
        let page = page?;
        found.unreadable += page.corrupt.len();
        for record in &page.entries {
            match on_disk::read_entry(&record.key, &record.value) {
                Some(entry) => {
                    index.put(entry.name.clone(), Slot::of(&entry));
                }
                None => found.unreadable += 1,
            }
        }
    }
    Ok(())
}
