//! What a newer version wrote is not damage.
//!
//! After a rollback of the software a folder may hold what this build can't read. Invariant: such a folder is refused
//! with [`NewerFormat`] before anything in it is changed; only what is older, or what no version wrote, is ever
//! repaired, taken out or set aside.
//!
//! Three things carry a version here, and callers give their payloads one of their own:
//!
//! | where | what it promises |
//! |---|---|
//! | file `format` | the layout of the folder: which files there are and who reads them. A first line with a number; missing in folders that are older than the file |
//! | `data/conf` | sled's own files, as sled says it |
//! | every record | the record (see [`crate::record`]); its header stays as it is over all formats of a layout, so that the checksum tells a newer format from a flipped bit |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::durable::replace;
use crate::error::StoreError;

/// Layout of the folder that this build reads and writes.
const LAYOUT: u32 = 1;

const NAME: &str = "format";

/// Version of sled's files that this build reads and writes (`pagecache` writes it as `version: 0.34`).
const SLED: (u32, u32) = (0, 34);

/// Folders that may hold sled's files.
const DATA: [&str; 3] = ["data", "data.compact", "data.old"];

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

/// Refuses a folder of a newer layout, or with newer files of sled, and marks one that has no mark yet.
pub(crate) fn check(root: &Path) -> Result<(), StoreError> {
    for name in DATA {
        if let Some(found) = sled_version(&root.join(name))
            && found > SLED
        {
            let spelled = |(major, minor): (u32, u32)| format!("{major}.{minor}");
            let what = format!("the database in {name}");
            return Err(NewerFormat::new(root, what, spelled(found), spelled(SLED)).into());
        }
    }
    let path = root.join(NAME);
    match fs::read_to_string(&path) {
        Ok(text) => match layout(&text) {
            Some(found) if found > LAYOUT => {
                return Err(NewerFormat::new(root, "its layout", found, LAYOUT).into());
            }
            Some(_) => return Ok(()),
            None => tracing::warn!(path = %path.display(), "not a layout; written anew"),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            tracing::warn!(path = %path.display(), "not a layout; written anew");
        }
        Err(e) => return Err(StoreError::from_io(&path, "read", e)),
    }
    replace(&path, format!("{LAYOUT}\n").as_bytes())
        .map_err(|e| StoreError::from_io(&path, "write", e))
}

/// The number at the begin of the first line; what follows is left to newer layouts.
fn layout(text: &str) -> Option<u32> {
    text.lines().next()?.split_whitespace().next()?.parse().ok()
}

/// The version that sled noted in the folder `data`. None where there is no note, or a damaged one: the ladder of
/// opening sees to that.
fn sled_version(data: &Path) -> Option<(u32, u32)> {
    let bytes = fs::read(data.join("conf")).ok()?;
    // sled 0.34, `config.rs`: lines of text, then their CRC-32 in little-endian order.
    let (text, crc) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(text) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (major, minor) = std::str::from_utf8(text)
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("version: "))?
        .split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn what_this_build_writes_is_what_it_says_it_reads() {
        let root = tempfile::tempdir().unwrap();
        let options = crate::Options::default();
        drop(crate::SledStore::open(root.path(), &options).unwrap());
        assert_eq!(sled_version(&root.path().join("data")), Some(SLED));
        let mark = fs::read_to_string(root.path().join(NAME)).unwrap();
        assert_eq!(layout(&mark), Some(LAYOUT));
    }

    #[test]
    fn a_newer_layout_may_say_more_than_its_number() {
        assert_eq!(layout("7 redb\nand more\n"), Some(7));
        assert_eq!(layout("redb 7"), None);
        assert_eq!(layout(""), None);
    }
}
