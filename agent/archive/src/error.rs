//! Errors of the archive, as sentences with the remedy.

use std::io;
use std::path::{Path, PathBuf};

use watchkeeper_store::StoreError;

use crate::name::{EntryName, InvalidName};

/// Characters of a value that an error repeats.
const MAX_SHOWN: usize = 80;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A field of a request is invalid.
    #[error("{field} {value:?} is not accepted; {remedy}")]
    Field {
        field: &'static str,
        value: String,
        remedy: String,
    },
    #[error("the archive has no entry {0}; `watchkeeper archive list` shows what it has")]
    NotFound(String),
    /// The runtime no longer keeps the media of a reference.
    #[error(
        "{0}: the runtime's retention has removed its media; the entry is dropped. Protect an \
         entry in time to keep a copy"
    )]
    Gone(EntryName),
    /// The content of an entry is missing or damaged, and no tier has a copy.
    #[error("{0}: its content is damaged or missing, and no tier has a copy; destroy the entry")]
    Damaged(EntryName),
    /// An entry that others are compared with has no embedding yet.
    #[error(
        "{0} has no embedding yet, so likeness is unknown; set agent.archive.embedding, and the \
         agent makes it"
    )]
    NoEmbedding(EntryName),
    #[error("{0} is protected; lift that first with `watchkeeper archive unprotect`")]
    Protected(String),
    /// The content of a reference is not in the archive.
    #[error("{0} is a reference to the runtime's media; only its copy can be protected")]
    Reference(EntryName),
    #[error("the content has more than {max} bytes; archive smaller ones, or raise {key}")]
    TooLarge { max: u64, key: &'static str },
    /// Only protected entries are left to evict.
    #[error(
        "the archive is full: protected entries leave no room for {needed}; unprotect or destroy \
         some{remedy}"
    )]
    Full {
        needed: String,
        /// Begins with a comma if there is one more.
        remedy: &'static str,
    },
    #[error("the disk of the archive has {free} bytes free and {needed} are needed; free some")]
    Disk { free: u64, needed: u64 },
    /// The request is not permitted or not possible here.
    #[error("{0}")]
    Refused(String),
    /// The clip of an event is not complete yet.
    #[error("event {0}: its clip is still being recorded; try again once it is complete")]
    Recording(String),
    /// A source could not be read.
    #[error("{0}")]
    Source(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl ArchiveError {
    /// Makes the error of a field, with its value cut.
    pub fn field(field: &'static str, value: &str, remedy: String) -> Self {
        Self::Field {
            field,
            value: value.chars().take(MAX_SHOWN).collect(),
            remedy,
        }
    }

    /// Makes the error of an operation on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Why a change was not committed.
pub(crate) enum Uncommitted {
    /// Nothing of it is in the store.
    Untouched(StoreError),
    /// The change is in the store and the index, but not synced: a restart may find it or not.
    Unsynced(StoreError),
}

impl From<Uncommitted> for ArchiveError {
    fn from(error: Uncommitted) -> Self {
        match error {
            Uncommitted::Untouched(error) | Uncommitted::Unsynced(error) => error.into(),
        }
    }
}
