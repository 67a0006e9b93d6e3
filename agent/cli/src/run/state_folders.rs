//! Temporary state folders of this user's runs: the living ones, and those of killed runs.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the runtime's socket in the state folder of the run.
pub(super) const SOCKET: &str = "runtime.sock";

/// Prefix of a folder's name; the process id follows.
pub(super) const TEMPORARY_PREFIX: &str = "watchkeeper-run-";

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

/// Removes the state folders of killed runs.
pub(super) fn remove_stale(temp: &Path) {
    for (folder, lives) in state_folders(temp) {
        if !lives {
            // The next run retries.
            std::fs::remove_dir_all(folder).ok();
        }
    }
}

/// Lists the temporary state folders of this user's runs, and whether their process lives.
fn state_folders(temp: &Path) -> Vec<(PathBuf, bool)> {
    let us = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir(temp).into_iter().flatten().flatten();
    let of_a_run = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let (pid, _) = name
            .to_str()?
            .strip_prefix(TEMPORARY_PREFIX)?
            .split_once('-')?;
        let lives = Path::new("/proc")
            .join(pid.parse::<u32>().ok()?.to_string())
            .exists();
        // Never through a link, and never another user's folder.
        let found = entry.path().symlink_metadata().ok()?;
        (found.is_dir() && found.uid() == us).then(|| (entry.path(), lives))
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
        // Larger than any process id of Linux.
        let dead = temp.path().join(format!("{TEMPORARY_PREFIX}4294967295-a"));
        let living = temp
            .path()
            .join(format!("{TEMPORARY_PREFIX}{}-b", std::process::id()));
        let other = temp.path().join("watchkeeper-run-notes");
        for folder in [&dead, &living, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        remove_stale(temp.path());
        assert!(!dead.exists() && living.exists() && other.exists());
        assert!(running(temp.path()).is_empty(), "it has no socket yet");
        std::fs::write(living.join(SOCKET), "").unwrap();
        let said = running(temp.path()).concat();
        assert!(said.contains(&format!("--socket {}", living.join(SOCKET).display())));
    }
}
