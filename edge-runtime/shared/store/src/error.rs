//! Errors of a store, as sentences with the remedy.

use std::io;
use std::path::PathBuf;

use crate::limits::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::newer::NewerFormat;

/// Error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the store.
    #[error("{path} is in use by another process{}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    InUse {
        /// Folder of the store.
        path: PathBuf,
        /// Id of the other process, where that could be read.
        pid: Option<u32>,
    },
    /// The disk is full, or so nearly full that the store would break half-way.
    #[error(
        "the disk of {path} is full ({} MiB free, {} needed); free some space",
        .free >> 20,
        .needed.div_ceil(1 << 20)
    )]
    Full {
        /// Folder of the store.
        path: PathBuf,
        /// Bytes left for this process.
        free: u64,
        /// Bytes that have to be free.
        needed: u64,
    },
    /// The folder can't be created or written.
    #[error(
        "{path} can't be written ({source}); make it a folder that this user may write, on a disk that is mounted for writing"
    )]
    NotWritable {
        /// Folder of the store.
        path: PathBuf,
        source: io::Error,
    },
    /// A record fails its checksum.
    #[error("record {key} of {keyspace} is damaged ({why})")]
    Corrupt {
        keyspace: &'static str,
        /// Key in readable form.
        key: String,
        /// The damage, as a phrase.
        why: String,
    },
    /// A newer version wrote it.
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    /// The files of the store are damaged.
    #[error("{path} is damaged ({why}); restart to repair it or set it aside")]
    Damaged {
        /// Folder of the store.
        path: PathBuf,
        why: String,
    },
    /// An earlier write or sync failed.
    #[error("{path} accepts no writes since one failed ({why}); restart to open it again")]
    Poisoned {
        /// Folder of the store.
        path: PathBuf,
        /// The first failure.
        why: String,
    },
    /// A key is empty or too long.
    #[error("a key of {len} bytes in {keyspace} is not accepted; use 1 to {MAX_KEY_BYTES}")]
    BadKey {
        keyspace: &'static str,
        /// Length of the key in bytes.
        len: usize,
    },
    /// A payload is too large.
    #[error(
        "a record of {len} bytes in {keyspace} is too large; at most {MAX_VALUE_BYTES} are stored"
    )]
    TooLarge {
        keyspace: &'static str,
        /// Length of the record in bytes.
        len: usize,
    },
    /// Anything else that the system refused.
    #[error("{path}: {what}: {source}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        source: io::Error,
    },
    /// An error that a test asked for.
    #[error("injected fault: {0}")]
    Injected(&'static str),
}

impl StoreError {
    /// Converts an error of the system about `path`.
    pub(crate) fn from_io(path: impl Into<PathBuf>, what: &'static str, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full {
                path,
                free: 0,
                needed: 1,
            },
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::NotADirectory => Self::NotWritable { path, source },
            _ => Self::Io { path, what, source },
        }
    }

    /// Returns whether the disk is full or read-only: nothing is wrong with what is stored, and
    /// writes succeed once a user has changed that.
    pub fn is_disk_refusal(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::NotWritable { source, .. } => source.kind() == io::ErrorKind::ReadOnlyFilesystem,
            _ => false,
        }
    }

    /// Returns whether a later retry can succeed without a restart.
    pub fn is_transient(&self) -> bool {
        self.is_disk_refusal() || matches!(self, Self::InUse { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_or_full_disk_error_names_the_remedy() {
        let said = |kind| StoreError::from_io("/state", "write", io::Error::from(kind)).to_string();
        let read_only = said(io::ErrorKind::ReadOnlyFilesystem);
        assert!(
            read_only.starts_with("/state can't be written"),
            "{read_only}"
        );
        assert!(said(io::ErrorKind::StorageFull).contains("free some space"));
    }
}
