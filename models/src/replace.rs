//! Files that get their name when they are whole, and folders with a bounded number of them.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Longest time of writing a file. An older temporary one was left by a process that ended.
const MAX_WRITING: Duration = Duration::from_secs(60 * 60);

/// Returns a temporary name of our own, as a pull of the same model may be writing its part.
pub(crate) fn temporary(of: &Path) -> PathBuf {
    of.with_added_extension(format!("{}.adding", std::process::id()))
}

/// Writes a file whole: beside its place first, then renamed; durable on return. An earlier one is
/// replaced.
///
/// # Errors
/// The system's. The earlier file then remains, except after a failed sync of the folder.
pub fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let folder = folder_of(path);
    // Its random name, because two processes may write the same file.
    let mut temporary = tempfile::Builder::new();
    temporary
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o644));
    let mut file = temporary.tempfile_in(folder)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|failed| failed.error)?;
    File::open(folder)?.sync_all()
}

/// Writes a file like [`replace`]. Then removes the oldest others with its extension until at most
/// `max_files` are left in its folder, and what ended processes left there.
///
/// # Errors
/// Those of [`replace`]. A file that can't be removed is logged.
pub fn replace_bounded(path: &Path, parts: &[&[u8]], max_files: usize) -> io::Result<()> {
    replace(path, parts)?;
    if let Err(error) = remove_oldest_but(path, max_files) {
        tracing::warn!(path = %path.display(), %error, "older files beside it can't be deleted");
    }
    Ok(())
}

/// Returns the files of a folder with an extension and the times of their last change, the oldest
/// first.
///
/// # Errors
/// The folder can't be read.
pub fn files_by_age(folder: &Path, extension: &OsStr) -> io::Result<Vec<(SystemTime, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(extension) {
            let modified = fs::metadata(&path).and_then(|file| file.modified());
            files.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
    }
    files.sort();
    Ok(files)
}

fn remove_oldest_but(written: &Path, max_files: usize) -> io::Result<()> {
    let folder = folder_of(written);
    let mut surplus = files_by_age(folder, written.extension().unwrap_or_default())?;
    surplus.retain(|(_, path)| path != written);
    surplus.truncate((surplus.len() + 1).saturating_sub(max_files));
    let now = SystemTime::now();
    let leftovers = files_by_age(folder, OsStr::new("tmp"))?.into_iter();
    surplus.extend(leftovers.filter(|(written, _)| {
        let age = now.duration_since(*written);
        age.is_ok_and(|age| age > MAX_WRITING)
    }));
    // One that stays keeps no other. Another process may remove any of them.
    let removed = surplus.iter().map(|(_, path)| match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    });
    removed.fold(Ok(()), io::Result::and)
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A file that is removed unless it was renamed.
pub(crate) struct Leftover(pub(crate) PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // It may be gone already; a file that can't be removed is harmless.
        fs::remove_file(&self.0).ok();
    }
}
