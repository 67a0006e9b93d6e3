//! Errors of the media store.

use std::io;
use std::path::{Path, PathBuf};

/// A picture or clip can't be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The picture or clip does not exist, or no longer.
    #[error("there is no picture or clip {id:?}; it may have been deleted to free space")]
    NotFound {
        /// The id as requested.
        id: String,
    },
    /// The clip is still being written.
    #[error(
        "the clip {id:?} is still being written; the `clip` record of its event reports when it is complete"
    )]
    NotYet {
        /// The id as requested.
        id: String,
    },
    /// The bytes of the file changed after its record was written.
    #[error("the stored file of {id:?} is damaged: it has not the hash of its record")]
    Damaged { id: String },
    /// The clip is too large.
    #[error(
        "the clip has {bytes} bytes, more than the limit of {max}; raise runtime.media_bytes or shorten the clip"
    )]
    TooLarge {
        bytes: u64,
        /// Maximum size of a clip.
        max: u64,
    },
    #[error("the disk of {path} is full ({free} bytes free); free some space")]
    Full { path: PathBuf, free: u64 },
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

pub(super) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> MediaError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            MediaError::Full { path, free: 0 }
        }
        _ => MediaError::Io { path, source },
    }
}
