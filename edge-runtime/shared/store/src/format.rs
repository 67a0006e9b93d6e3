//! Versions of what is on disk: newer is not damaged.
//!
//! - After a rollback of the software a folder may hold what this build can't read. Such a folder
//!   is refused with [`NewerFormat`], and no record in it is changed.
//! - Only what is older, or was written by no version, is ever repaired, removed or set aside.
//! - A newer layout or database is refused before anything is written. A single newer record is
//!   found only by reading; a version that introduces one raises the layout too.
//! - Callers version their own payloads.
//!
//! | where | what it promises |
//! |---|---|
//! | file `format` | the layout of the folder: which files there are and who reads them. A first line with a number; missing in older folders |
//! | `data/records.redb` | the database, as redb says it |
//! | every record | the record (see [`crate::record`]); its header is the same in all formats of a layout, so the checksum tells a newer format from a flipped bit |

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::durable::{replace, sync_folder};
use crate::error::StoreError;
use crate::newer::NewerFormat;
use crate::table::FILE;

/// Layout of the folder that this build reads and writes. No release wrote an older one.
const LAYOUT: u32 = 2;

const NAME: &str = "format";

/// Magic bytes of redb's file, and the version that this build reads and writes (redb,
/// `docs/design.md`).
const REDB_MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const REDB: u8 = 3;
/// Offsets of the version in the two commit slots, in bytes.
const REDB_VERSIONS: [usize; 2] = [64, 192];

/// Refuses a folder of a newer layout, or with a newer file of redb.
pub(crate) fn check(root: &Path) -> Result<(), StoreError> {
    if let Some(found) = redb_version(&root.join("data").join(FILE))
        && found > REDB
    {
        return Err(NewerFormat::new(root, "the database", found, REDB).into());
    }
    let path = root.join(NAME);
    match fs::read_to_string(&path) {
        Ok(text) => match layout(&text) {
            Some(found) if found > LAYOUT => {
                Err(NewerFormat::new(root, "its layout", found, LAYOUT).into())
            }
            Some(_) => Ok(()),
            None => {
                tracing::warn!(path = %path.display(), "not a layout; rewritten");
                Ok(())
            }
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            tracing::warn!(path = %path.display(), "not a layout; rewritten");
            Ok(())
        }
        Err(e) => Err(StoreError::from_io(&path, "read", e)),
    }
}

/// Marks the folder as one of this layout, unless it is, and makes the names in it durable.
pub(crate) fn mark(root: &Path) -> Result<(), StoreError> {
    let path = root.join(NAME);
    let marked = fs::read_to_string(&path).ok().and_then(|t| layout(&t));
    let written = match marked {
        Some(LAYOUT) => sync_folder(root),
        _ => replace(&path, format!("{LAYOUT}\n").as_bytes()),
    };
    written.map_err(|e| StoreError::from_io(&path, "write", e))
}

/// Parses the number at the begin of the first line; the rest is left to newer layouts.
fn layout(text: &str) -> Option<u32> {
    text.lines().next()?.split_whitespace().next()?.parse().ok()
}

/// Returns the version in redb's file.
///
/// `None` without a version, or where the two slots differ, as after a flipped bit; opening handles
/// that.
fn redb_version(file: &Path) -> Option<u8> {
    let mut head = [0; 256];
    fs::File::open(file)
        .ok()?
        .read_exact_at(&mut head, 0)
        .ok()?;
    let versions = REDB_VERSIONS.map(|at| head.get(at).copied());
    (head.starts_with(REDB_MAGIC) && versions[0] == versions[1])
        .then_some(versions[0])
        .flatten()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn this_build_reads_the_format_it_writes() {
        let root = tempfile::tempdir().unwrap();
        let options = crate::Options::default();
        drop(crate::DiskStore::open(root.path(), &options).unwrap());
        let file = root.path().join("data").join(FILE);
        assert_eq!(redb_version(&file), Some(REDB));
        let mark = fs::read_to_string(root.path().join(NAME)).unwrap();
        assert_eq!(layout(&mark), Some(LAYOUT));
    }

    #[test]
    fn a_newer_layout_may_say_more_than_its_number() {
        assert_eq!(layout("7 other\nand more\n"), Some(7));
        assert_eq!(layout("other 7"), None);
        assert_eq!(layout(""), None);
    }
}
