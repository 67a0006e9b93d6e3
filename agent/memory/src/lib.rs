//! The agent's notes in Markdown files, and the search over them: [`note`], [`page`], [`Memory`]
//! (the folder), [`search`] and [`embed`].
//!
//! - The files are authoritative; users may edit them. The index is never stored; stored vectors
//!   are a cache.
//! - Notes are only appended; all other bytes stay. What can't be parsed is reported with file and
//!   line, and left alone.
//! - A saved note is on stable storage; a crash leaves the old file or the new one.
//! - Words of other origin than user and agent are quoted and marked, and never a preference.
//! - Everything is bounded by a constant.
//! - Everything but the folder is sans-IO. Not here: what is worth a note, and how notes are shown.

pub mod embed;
mod folder;
#[cfg(feature = "neural")]
pub mod neural;
pub mod note;
pub mod page;
pub mod search;

pub use embed::{Embedder, HashedEmbedder};
pub use folder::{
    Active, FileError, MAX_DAYS, MAX_FILE_BYTES, MAX_MONTHS, Memory, MemoryError, Problem,
    Revision, SavedNote,
};
pub use note::{Entry, Kind, Note, Origin, Tag, Words};
pub use search::{Found, Method, PendingText, Query};
