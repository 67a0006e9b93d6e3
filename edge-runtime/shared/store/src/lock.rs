//! One process per store.
//!
//! A lock file beside the data holds the process id for the error message. The lock itself is the
//! kernel's (`flock`), so it ends with the process in any case.
//!
//! - A second line names the boot of the machine in which the store was verified. A process that is
//!   killed leaves what it wrote to the kernel, so the store stays whole until the next boot.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use crate::error::StoreError;
use crate::file_lock::lock_within;

/// How long to wait for the lock: the kernel keeps that of a killed process until it has freed its
/// memory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Holds the folder until it is dropped.
#[derive(Debug)]
pub(crate) struct FolderLock {
    file: File,
    /// Whether the store was verified since this machine booted.
    pub(crate) was_verified: bool,
}

impl FolderLock {
    /// Takes `<folder>/lock` within [`LOCK_TIMEOUT`], or names its holder. `held` is a lock that
    /// this process has already, if it has one; it is never released.
    pub(crate) fn take(folder: &Path, held: Option<&File>) -> Result<Self, StoreError> {
        let path = folder.join("lock");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| StoreError::from_io(folder, "open the lock file", e))?;
        let shared = share(held, &file);
        let shared = shared.map_err(|e| StoreError::from_io(folder, "keep the lock", e))?;
        if shared.is_none() {
            wait_for(&mut file, folder)?;
        }
        let mut before = String::new();
        // Without it the store counts as not verified.
        let read = file.read_to_string(&mut before).ok();
        let boot = read.and_then(|_| before.lines().nth(1));
        let was_verified = boot.is_some_and(|boot| !boot.is_empty() && boot == machine_boot());
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|e| StoreError::from_io(folder, "write the lock file", e))?;
        let file = shared.unwrap_or(file);
        Ok(Self { file, was_verified })
    }

    /// Returns the lock for a second holder in this process: it ends with the last of them.
    pub(crate) fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Notes in the lock file of `folder`, whose lock is held, that the store is verified. Without the
/// note, the next opening verifies the store before it is read.
pub(crate) fn note_verified(folder: &Path) {
    let file = OpenOptions::new().append(true).open(folder.join("lock"));
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{}", machine_boot())) {
        tracing::warn!(folder = %folder.display(), %error, "can't note that the store is verified");
    }
}

/// Identity of this boot of the machine (`random(4)`, `/proc/sys/kernel/random/boot_id`); empty if
/// there is none.
pub fn machine_boot() -> String {
    static READ: LazyLock<String> = LazyLock::new(|| {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    });
    READ.clone()
}

/// Returns the lock `held` once more, if it is one of `file`. Another file has the name after a
/// disk was mounted over the folder.
fn share(held: Option<&File>, file: &File) -> io::Result<Option<File>> {
    let Some(held) = held else { return Ok(None) };
    let (one, two) = (held.metadata()?, file.metadata()?);
    let is_same = (one.dev(), one.ino()) == (two.dev(), two.ino());
    is_same.then(|| held.try_clone()).transpose()
}

/// Takes the lock of a folder that can't be written: an existing lock file stays unchanged, and
/// without one there is no lock.
pub(crate) fn take_existing(folder: &Path) -> Result<Option<File>, StoreError> {
    let mut file = match File::open(folder.join("lock")) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::from_io(folder, "open the lock file", e)),
    };
    wait_for(&mut file, folder)?;
    Ok(Some(file))
}

/// Locks `file` within [`LOCK_TIMEOUT`], or names the holder.
fn wait_for(file: &mut File, folder: &Path) -> Result<(), StoreError> {
    match lock_within(file, LOCK_TIMEOUT) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(in_use_by(folder, file)),
        Err(TryLockError::Error(e)) => Err(StoreError::from_io(folder, "lock the folder", e)),
    }
}

/// Returns an error if a process has the store in `folder`. For callers that keep files beside it
/// and must not touch those of another process.
pub fn in_use(folder: &Path) -> Option<StoreError> {
    // No lock file: no process has it, or the attempt to take it fails.
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
        pid: read.and_then(|_| text.lines().next()?.parse().ok()),
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
        let first = FolderLock::take(dir.path(), None).unwrap();
        let seen = in_use(dir.path()).unwrap().to_string();
        let refused = FolderLock::take(dir.path(), None).unwrap_err().to_string();
        assert!(
            refused.ends_with(&format!(
                "is in use by another process (pid {})",
                std::process::id()
            )),
            "{refused}"
        );
        assert_eq!(seen, refused);
        // The lock is released meanwhile.
        let goes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(first);
        });
        assert!(FolderLock::take(dir.path(), None).is_ok());
        goes.join().unwrap();
        assert!(in_use(dir.path()).is_none());
    }
}
