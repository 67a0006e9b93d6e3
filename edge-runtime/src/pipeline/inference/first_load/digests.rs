//! Checksums of files, computed again only for a file that changed.
//!
//! - A file is recognised by device, inode, size, and the times of its last change. The time of the
//!   inode's change is among them, because programs can set the other one.
//! - At most [`MAX_FILES`] checksums are kept; then all are forgotten.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use watchkeeper_detect::FileStamp;
use watchkeeper_models::Sha256Sum;
use watchkeeper_models::digest::Hasher;

/// Checksums that are kept; far more than a box has models.
const MAX_FILES: usize = 1024;

/// The checksums that were computed by this process.
#[derive(Debug, Default)]
pub(super) struct Digests(Mutex<BTreeMap<PathBuf, (FileStamp, Sha256Sum)>>);

impl Digests {
    /// Returns the checksum of a file, read in full unless it is unchanged.
    pub(super) fn of(&self, path: &Path) -> io::Result<Sha256Sum> {
        let stamp = FileStamp::of(path)?;
        let known = self.0.lock().get(path).copied();
        if let Some((_, sum)) = known.filter(|(known, _)| *known == stamp) {
            return Ok(sum);
        }
        let mut file = File::open(path)?;
        let before = FileStamp::of_metadata(&file.metadata()?);
        let mut hasher = Hasher::default();
        hasher.drain(&mut file)?;
        let sum = hasher.finish();
        // A file that is being written has a checksum of no moment, which is not kept.
        if FileStamp::of_metadata(&file.metadata()?) == before {
            let mut kept = self.0.lock();
            if kept.len() >= MAX_FILES {
                kept.clear();
            }
            kept.insert(path.to_owned(), (before, sum));
        }
        Ok(sum)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    #[test]
    fn changed_file_has_another_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("m"), folder.path().join("n"));
        let digests = Digests::default();
        std::fs::write(&path, "one").unwrap();
        let first = digests.of(&path).unwrap();
        assert_eq!(first, Sha256Sum::of(b"one"));
        assert_eq!(digests.of(&path).unwrap(), first);
        // The same size, and with the times of the first.
        std::fs::write(&other, "two").unwrap();
        let times = std::fs::metadata(&path).unwrap().modified().unwrap();
        File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(times)
            .unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(digests.of(&path).unwrap(), Sha256Sum::of(b"two"));
    }

    #[test]
    fn unchanged_file_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        std::fs::write(&path, "one").unwrap();
        let digests = Digests::default();
        digests.of(&path).unwrap();
        let mark = Sha256Sum::of(b"kept");
        let mut kept = digests.0.lock();
        kept.values_mut().for_each(|(_, sum)| *sum = mark);
        drop(kept);
        assert_eq!(digests.of(&path).unwrap(), mark);
    }
}
