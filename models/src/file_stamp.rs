//! What shows that a file is unchanged, without reading it, and values that hold until it changes.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Values that one [`KnownFiles`] keeps; far more than a box has models.
const MAX_KNOWN: usize = 1024;

/// Device, inode, size and times of a file. The time of the inode's change is among them, because
/// programs can set the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Reads the stamp of a file, links followed.
    ///
    /// # Errors
    /// When the file is missing or its folder unreadable.
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// Values that this process computed from files, each until its file changes.
///
/// At most [`MAX_KNOWN`] are kept; then all are forgotten.
#[derive(Debug)]
pub struct KnownFiles<T>(Mutex<BTreeMap<PathBuf, (FileStamp, T)>>);

impl<T: Clone> KnownFiles<T> {
    pub const fn empty() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the value of a file, which is computed unless the file has its last stamp.
    ///
    /// # Errors
    /// The file can't be read, or those of `compute`.
    pub fn get_or_compute(
        &self,
        path: &Path,
        compute: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        let before = FileStamp::of(path)?;
        let known = self.0.lock().get(path).cloned();
        if let Some((_, value)) = known.filter(|(stamp, _)| *stamp == before) {
            return Ok(value);
        }
        let value = compute(path)?;
        // The value of a file that is being written, or was replaced, is not kept.
        if FileStamp::of(path)? == before {
            let mut kept = self.0.lock();
            if kept.len() >= MAX_KNOWN {
                kept.clear();
            }
            kept.insert(path.to_owned(), (before, value.clone()));
        }
        Ok(value)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    #[test]
    fn value_is_computed_once_until_its_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network");
        let (known, mut computed) = (KnownFiles::empty(), 0);
        for (text, expected) in [("one", 1), ("three", 2)] {
            std::fs::write(&path, text).unwrap();
            for _ in 0..2 {
                let length = known.get_or_compute(&path, |path| {
                    computed += 1;
                    std::fs::read_to_string(path).map(|text| text.len())
                });
                assert_eq!((length.unwrap(), computed), (text.len(), expected));
            }
        }
    }
}
