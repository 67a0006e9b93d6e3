//! Folders that only their owner may enter.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Creates `folder` and its parents with mode 0700. A folder that exists keeps its mode.
///
/// # Errors
/// Those of the operating system.
pub fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}
