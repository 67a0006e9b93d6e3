//! Locks between the processes of one box: a file that one of them at a time holds open.
//!
//! - The lock ends with the returned file, also when its process dies.
//! - A wait is bounded: a process that is stopped would hold the others for ever.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for a holder that writes one small file.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// Locks the file at `path`, which is created with mode 0600 where it is missing.
///
/// # Errors
/// Those of the operating system; `TimedOut` where another process holds it for `timeout`.
pub fn lock(path: &Path, timeout: Duration) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path)?;
    match lock_within(&file, timeout) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let why = format!(
                "another process holds {0}; `fuser {0}` names it: end it or let it continue",
                path.display()
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Locks `file`, waiting at most `timeout` for its holder.
pub(crate) fn lock_within(file: &File, timeout: Duration) -> Result<(), TryLockError> {
    let until = Instant::now() + timeout;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(LOCK_INTERVAL);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn held_lock_ends_the_wait_and_a_released_one_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path, LOCK_TIMEOUT).unwrap();
        let refused = lock(&path, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(held);
        assert!(lock(&path, Duration::ZERO).is_ok());
    }
}
