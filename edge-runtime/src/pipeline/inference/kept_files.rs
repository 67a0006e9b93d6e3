//! Folders of small files that are kept until newer ones take their place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Removes the oldest files of a folder until at most `most` are left.
///
/// # Errors
/// The folder can't be read, or a file not be removed.
pub(super) fn remove_oldest(folder: &Path, most: usize) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let modified = entry.metadata().and_then(|file| file.modified());
        files.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
    }
    files.sort();
    let surplus = files.len().saturating_sub(most);
    for (_, path) in files.iter().take(surplus) {
        fs::remove_file(path)?;
    }
    Ok(())
}
