//! What the agent remembers, in files that a person can read and edit.
//!
//! Owns: notes and who their words are from ([`note`]), the Markdown that they are written in ([`page`]), the folder of files
//! ([`Memory`]), the search over them ([`search`]) and the seam for what turns words into vectors ([`embed`]).
//!
//! Invariants:
//! - the files are the truth. The index is made of them, is never stored, and can be made anew at any time; vectors that took long are kept beside them, and can be
//!   thrown away at any time;
//! - what stands in a file stays as it stands there, byte for byte: notes are only added at its end. What can't be understood is told
//!   with file and line and left alone;
//! - a note is on stable storage when it is said to be kept, and a crash leaves the old file or the new one;
//! - words that are not a person's or the agent's own are quoted and marked with their origin, and are never a preference;
//! - nothing grows without a bound: each is a constant beside what it bounds, and says what happens there.
//!
//! Everything but the folder is sans-IO. Not here: what is worth remembering, and how found notes are shown to a model.

pub mod embed;
mod folder;
#[cfg(feature = "neural")]
pub mod neural;
pub mod note;
pub mod page;
pub mod search;

pub use embed::{Embedder, HashedEmbedder};
pub use folder::{
    Active, Kept, MAX_DAYS, MAX_FILE_BYTES, MAX_MONTHS, Memory, MemoryError, Problem, Revision,
    Trouble,
};
pub use note::{Entry, Kind, Note, Origin, Tag, Words};
pub use search::{Found, Method, Query, Wanted};
