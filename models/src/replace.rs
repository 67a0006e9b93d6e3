//! Files that get their name when they are whole.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Returns a temporary name of our own, as a pull of the same model may be writing its part.
pub(crate) fn temporary(of: &Path) -> PathBuf {
    of.with_added_extension(format!("{}.adding", std::process::id()))
}

/// Writes a small file durably; an earlier one is replaced.
pub(crate) fn replace_text(text: &str, path: &Path) -> io::Result<()> {
    let part = Leftover(temporary(path));
    let mut file = fs::File::create(&part.0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part.0, path)
}

/// A file that is removed unless it was renamed.
pub(crate) struct Leftover(pub(crate) PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        // It may be gone already; a file that can't be removed is harmless.
        fs::remove_file(&self.0).ok();
    }
}
