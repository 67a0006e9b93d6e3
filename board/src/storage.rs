//! Reads the free space of a file system.

use std::path::Path;

use serde::Serialize;

/// Free and total space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// The free space could not be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read the free space of {path}: {source}")]
pub struct SpaceError {
    pub path: std::path::PathBuf,
    /// The error of the operating system.
    pub source: std::io::Error,
}

/// Reads the space of the file system of `path`. The nearest existing parent counts when `path`
/// does not exist.
///
/// # Errors
/// [`SpaceError`] when the file system does not answer.
pub fn space(path: &Path) -> Result<Space, SpaceError> {
    // The parent of the first component of a relative path is the working directory.
    let here = |p: &'_ Path| p.as_os_str().is_empty();
    let mut above = path
        .ancestors()
        .map(|p| if here(p) { Path::new(".") } else { p });
    let existing = above.find(|p| p.exists()).unwrap_or(path);
    let stat = rustix::fs::statvfs(existing).map_err(|e| SpaceError {
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
    fn missing_folder_has_space_of_its_parent() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let here = space(dir.path()).expect("an answer");
        let below = space(&dir.path().join("a/b")).expect("an answer");
        assert_eq!(here.total, below.total);
        assert!(space(Path::new("not-here/yet")).is_ok());
        assert!(here.free <= here.total && here.total > 0);
    }
}
