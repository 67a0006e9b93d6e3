//! The error about files of a newer version of the program.

use std::path::{Path, PathBuf};

/// Something on disk has a newer format than this build reads. It is left unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} was written by a newer version of Watchkeeper: {what} has format {found} and this version reads up to {known}; \
     start the newer version again, or move the folder away to begin without what is in it (what is in it is left as it is)"
)]
pub struct NewerFormat {
    /// Folder to move away.
    pub path: PathBuf,
    /// The part with the newer format.
    pub what: String,
    /// Format that was found.
    pub found: String,
    /// Newest format that this build reads.
    pub known: String,
}

impl NewerFormat {
    /// Makes the error: `what` in the folder `path` has the format `found`, newer than `known`.
    pub fn new(
        path: &Path,
        what: impl Into<String>,
        found: impl ToString,
        known: impl ToString,
    ) -> Self {
        Self {
            path: path.to_owned(),
            what: what.into(),
            found: found.to_string(),
            known: known.to_string(),
        }
    }
}
