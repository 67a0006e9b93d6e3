//! Files that get their name when they are whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

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
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
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

/// A file that is removed unless it was renamed.
pub(crate) struct Leftover(pub(crate) PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // It may be gone already; a file that can't be removed is harmless.
        fs::remove_file(&self.0).ok();
    }
}
