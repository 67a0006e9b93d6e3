//! How much room is left.

use std::path::Path;

use serde::Serialize;

/// Room of the file system that holds a path, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Why the room can't be told.
#[derive(Debug, thiserror::Error)]
#[error("can't tell the free space of {path}: {source}")]
pub struct StorageError {
    /// Which path.
    pub path: std::path::PathBuf,
    /// What the system said.
    pub source: std::io::Error,
}

/// Reads the room of the file system that holds `path`, or would hold it: the nearest folder above that exists counts.
///
/// # Errors
/// [`StorageError`] when the file system does not answer.
pub fn space(path: &Path) -> Result<Space, StorageError> {
    // Above the first part of a relative path is the folder in which the program runs.
    let here = |p: &'_ Path| p.as_os_str().is_empty();
    let mut above = path
        .ancestors()
        .map(|p| if here(p) { Path::new(".") } else { p });
    let existing = above.find(|p| p.exists()).unwrap_or(path);
    let stat = rustix::fs::statvfs(existing).map_err(|e| StorageError {
        path: path.to_owned(),
        source: e.into(),
    })?;
    Ok(Space {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_room_of_the_one_above() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let here = space(dir.path()).expect("an answer");
        let below = space(&dir.path().join("a/b")).expect("an answer");
        assert_eq!(here.total, below.total);
        assert!(space(Path::new("not-here/yet")).is_ok());
        assert!(here.free <= here.total && here.total > 0);
    }
}
