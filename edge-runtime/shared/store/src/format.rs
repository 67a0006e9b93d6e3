//! What a newer version wrote is not damage.
//!
//! After a rollback of the software a folder may hold what this build can't read. Invariant: such a folder is refused
//! with [`NewerFormat`], and no record in it is changed; only what is older, or what no version wrote, is ever repaired, taken
//! out or set aside. A newer layout or database is refused before anything is written; one record of a newer format is found by reading,
//! for which the database has been opened, so a version that makes one raises the layout as well.
//!
//! Three things carry a version here, and callers give their payloads one of their own:
//!
//! | where | what it promises |
//! |---|---|
//! | file `format` | the layout of the folder: which files there are and who reads them. A first line with a number; missing in folders that are older than the file |
//! | `data/records.redb` | the database, as redb says it |
//! | every record | the record (see [`crate::record`]); its header stays as it is over all formats of a layout, so that the checksum tells a newer format from a flipped bit |

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::durable::replace;
use crate::error::StoreError;
use crate::open::FILE;

/// Layout of the folder that this build reads and writes. Layout 1 was that of development versions on another database (sled); no
/// release had it, so it is set aside and not converted.
const LAYOUT: u32 = 2;

const NAME: &str = "format";

/// How redb's file begins, and the version of it that this build reads and writes (redb, `docs/design.md`).
const REDB_MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const REDB: u8 = 3;
/// Where the two commit slots have their version, in bytes.
const REDB_VERSIONS: [usize; 2] = [64, 192];

/// Something on disk has a newer format than this build reads. It is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} was written by a newer version of Watchkeeper: {what} has format {found} and this version reads up to {known}; \
     start the newer version again, or move the folder away to begin without what is in it (what is in it is left as it is)"
)]
pub struct NewerFormat {
    /// Folder to move away.
    pub path: PathBuf,
    /// What has the newer format.
    pub what: String,
    /// Its format.
    pub found: String,
    /// Newest format that this build reads.
    pub known: String,
}

impl NewerFormat {
    /// Says that `what` in the folder `path` has the format `found`, newer than `known`.
    pub fn new(
        path: &Path,
        what: impl Into<String>,
        found: impl ToString,
        known: impl ToString,
    ) -> Self {
        Self {
            path: path.to_owned(),
            what: what.into(),
            found: found.to_string(),
            known: known.to_string(),
        }
    }
}

/// Refuses a folder of a newer layout, or with a newer file of redb. Says what it is of where it has an older layout.
pub(crate) fn check(root: &Path) -> Result<Option<String>, StoreError> {
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
            Some(found) if found < LAYOUT => Ok(Some(format!(
                "a development version before the first release wrote it, with another database (layout {found}; this one is {LAYOUT})"
            ))),
            Some(_) => Ok(None),
            None => {
                tracing::warn!(path = %path.display(), "not a layout; written anew");
                Ok(None)
            }
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            tracing::warn!(path = %path.display(), "not a layout; written anew");
            Ok(None)
        }
        Err(e) => Err(StoreError::from_io(&path, "read", e)),
    }
}

/// Marks the folder as one of this layout, where it is not.
pub(crate) fn mark(root: &Path) -> Result<(), StoreError> {
    let path = root.join(NAME);
    let marked = fs::read_to_string(&path).ok().and_then(|t| layout(&t));
    if marked == Some(LAYOUT) {
        return Ok(());
    }
    replace(&path, format!("{LAYOUT}\n").as_bytes())
        .map_err(|e| StoreError::from_io(&path, "write", e))
}

/// The number at the begin of the first line; what follows is left to newer layouts.
fn layout(text: &str) -> Option<u32> {
    text.lines().next()?.split_whitespace().next()?.parse().ok()
}

/// The version that redb noted in the file. None where there is no note, or the two slots don't agree, as after a flipped bit: the
/// ladder of opening sees to that.
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
    fn what_this_build_writes_is_what_it_says_it_reads() {
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
