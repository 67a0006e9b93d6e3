//! One process a store.
//!
//! A lock file beside the data holds the process id for the error message; the lock itself is the kernel's
//! (`flock`), so it is gone with the process, whatever way that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::error::StoreError;

/// Holds the folder until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes `<folder>/lock` or says who has it.
    pub(crate) fn take(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("lock");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| StoreError::from_io(folder, "open the lock file", e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Best effort: without a readable pid the error only says "another process".
                let pid = file
                    .read_to_string(&mut text)
                    .ok()
                    .and_then(|_| text.trim().parse().ok());
                return Err(StoreError::InUse {
                    path: folder.to_owned(),
                    pid,
                });
            }
            Err(TryLockError::Error(e)) => {
                return Err(StoreError::from_io(folder, "lock the folder", e));
            }
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|e| StoreError::from_io(folder, "write the lock file", e))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = FolderLock::take(dir.path()).unwrap();
        let refused = FolderLock::take(dir.path()).unwrap_err().to_string();
        assert!(
            refused.ends_with(&format!(
                "is in use by another process (pid {})",
                std::process::id()
            )),
            "{refused}"
        );
        drop(first);
        assert!(FolderLock::take(dir.path()).is_ok());
    }
}
