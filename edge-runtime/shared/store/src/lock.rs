//! One process a store.
//!
//! A lock file beside the data holds the process id for the error message; the lock itself is the kernel's
//! (`flock`), so it is gone with the process, whatever way that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::StoreError;

/// How long whoever takes the folder waits for the one who has it: a process that was killed has it until the kernel has taken its memory back.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Holds the folder until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes `<folder>/lock`, within [`PATIENCE`], or says who has it.
    pub(crate) fn take(folder: &Path) -> Result<Self, StoreError> {
        let until = Instant::now() + PATIENCE;
        let path = folder.join("lock");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| StoreError::from_io(folder, "open the lock file", e))?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Err(in_use_by(folder, &mut file)),
                Err(TryLockError::Error(e)) => {
                    return Err(StoreError::from_io(folder, "lock the folder", e));
                }
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

/// Says who has the store in `folder`, if somebody has: for whoever keeps files beside it and must not touch those of another process.
#[must_use]
pub fn in_use(folder: &Path) -> Option<StoreError> {
    // No lock file: nobody has it, or it can't be told, which taking it will say.
    let mut file = File::open(folder.join("lock")).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(in_use_by(folder, &mut file)),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn in_use_by(folder: &Path, file: &mut File) -> StoreError {
    let mut text = String::new();
    // Best effort: without a readable pid the error only says "another process".
    let read = file.read_to_string(&mut text).ok();
    StoreError::InUse {
        path: folder.to_owned(),
        pid: read.and_then(|_| text.trim().parse().ok()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        assert!(in_use(dir.path()).is_none());
        let first = FolderLock::take(dir.path()).unwrap();
        let seen = in_use(dir.path()).unwrap().to_string();
        let refused = FolderLock::take(dir.path()).unwrap_err().to_string();
        assert!(
            refused.ends_with(&format!(
                "is in use by another process (pid {})",
                std::process::id()
            )),
            "{refused}"
        );
        assert_eq!(seen, refused);
        // Who goes meanwhile is waited for.
        let goes = std::thread::spawn(move || {
            std::thread::sleep(PAUSE * 3);
            drop(first);
        });
        assert!(FolderLock::take(dir.path()).is_ok());
        goes.join().unwrap();
        assert!(in_use(dir.path()).is_none());
    }
}
