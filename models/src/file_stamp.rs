//! What shows that a file is unchanged, without reading it.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

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
