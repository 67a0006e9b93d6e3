//! Temporary state folders of this user's runs: the living ones, and those of killed runs.
//!
//! A run holds a lock on its folder. A process id would not do: another container with the same
//! folder has its own ids.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

/// Name of the runtime's socket in the state folder of the run.
pub(super) const SOCKET: &str = "runtime.sock";

/// Prefix of a folder's name; the process id follows, for users.
const TEMPORARY_PREFIX: &str = "watchkeeper-run-";

/// Age below which an unlocked folder may be one that its run is about to lock.
const MIN_AGE: Duration = Duration::from_secs(60);

/// Creates a folder, with the lock that says that its run lives.
pub(super) fn create() -> io::Result<(TempDir, File)> {
    let prefix = format!("{TEMPORARY_PREFIX}{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir()?;
    let lock = File::open(folder.path())?;
    lock.lock()?;
    Ok((folder, lock))
}

/// Whether the run of `folder` holds its lock, or may be about to take it.
fn has_run(folder: &Path) -> io::Result<bool> {
    let file = File::open(folder)?;
    match file.try_lock() {
        Ok(()) => {
            let age = file.metadata()?.modified()?.elapsed();
            Ok(age.is_ok_and(|age| age < MIN_AGE))
        }
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Lists the sockets of this user's runs in `temp`, one line each.
pub(super) fn running(temp: &Path) -> Vec<String> {
    let living = state_folders(temp).into_iter().filter(|(_, lives)| *lives);
    let sockets = living.map(|(folder, _)| folder.join(SOCKET));
    let hint = |socket: PathBuf| {
        let socket = socket.display();
        format!("a `watchkeeper run` of yours is asked with --socket {socket}")
    };
    sockets.filter(|socket| socket.exists()).map(hint).collect()
}

pub(super) fn remove_stale(temp: &Path) {
    for (folder, lives) in state_folders(temp) {
        if !lives {
            // The next run retries.
            std::fs::remove_dir_all(folder).ok();
        }
    }
}

/// Lists the temporary state folders of this user's runs, and whether the run lives.
fn state_folders(temp: &Path) -> Vec<(PathBuf, bool)> {
    let us = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(temp).into_iter().flatten().flatten();
    let of_a_run = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let (pid, _) = name
            .to_str()?
            .strip_prefix(TEMPORARY_PREFIX)?
            .split_once('-')?;
        pid.parse::<u32>().ok()?;
        // Never through a link, and never another user's folder.
        let found = entry.path().symlink_metadata().ok()?;
        let is_ours = found.is_dir() && found.uid() == us;
        // A folder that can't be examined may be in use.
        is_ours.then(|| (entry.path(), has_run(&entry.path()).unwrap_or(true)))
    };
    entries.filter_map(of_a_run).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use super::*;

    #[test]
    fn state_of_a_killed_run_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let folder = |name: &str| temp.path().join(format!("{TEMPORARY_PREFIX}{name}"));
        // A living process may have the id of a killed run.
        let dead = folder(&format!("{}-a", std::process::id()));
        // One of another container: no process here has its id.
        let living = folder("4294967295-b");
        let (young, other) = (folder("7-c"), folder("notes"));
        for folder in [&dead, &living, &young, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        for old in [&dead, &living] {
            let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
            File::open(old).unwrap().set_modified(hour_ago).unwrap();
        }
        let lock = File::open(&living).unwrap();
        lock.lock().unwrap();
        remove_stale(temp.path());
        assert!(!dead.exists() && living.exists() && young.exists() && other.exists());
        assert!(running(temp.path()).is_empty(), "it has no socket yet");
        std::fs::write(living.join(SOCKET), "").unwrap();
        let said = running(temp.path()).concat();
        assert!(said.contains(&format!("--socket {}", living.join(SOCKET).display())));
    }
}
