//! Errors of the files of a memory.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::limits::{MAX_FILE_BYTES, max_agent_notes, max_notes};
use crate::note::{Kind, MAX_TAGS, NotAllowed};
use crate::page::PageError;

/// Error of a file that is not or not completely read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("the file is missing")]
    Missing,
    #[error("the file has {0} bytes, at most {MAX_FILE_BYTES} are read; move old notes elsewhere")]
    TooLarge(u64),
    /// A folder, a pipe or a device.
    #[error("not a regular file, so it is not read")]
    NotRegular,
    #[error(
        "unknown file name, so it is not read; use a day like 2026-11-22.md for observations, a month like 2026-11.md for the journal, or undated.md"
    )]
    Name,
    #[error("not read, because there are more than {0} newer files; move it elsewhere")]
    TooMany(usize),
    #[error("can't read the file: {0}")]
    Io(String),
}

/// Error of a file with its name; displays as `knowledge.md:12: …` if it has a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path below the folder.
    pub file: PathBuf,
    pub error: FileError,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.error {
            FileError::Page(PageError { line, why }) => write!(f, "{file}:{line}: {why}"),
            error => write!(f, "{file}: {error}"),
        }
    }
}

/// Error of reading or changing a memory. Paths are below its folder.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    #[error("the note has {0} tags, at most {MAX_TAGS} are allowed; leave some out")]
    Tags(usize),
    /// The file has its maximum of notes or bytes.
    #[error(
        "{} is full, another {} does not fit (at most {} notes and {MAX_FILE_BYTES} bytes); delete or join notes",
        file.display(), kind.name(), max_notes(*kind)
    )]
    Full { file: PathBuf, kind: Kind },
    /// The agent has written its maximum of notes; the rest is for users.
    #[error(
        "{} has {} notes by the agent, the maximum of its {}; delete some of them",
        file.display(), max_agent_notes(*kind), kind.name()
    )]
    AgentLimit { file: PathBuf, kind: Kind },
    #[error("{0}; nothing is added to it until it can be read")]
    Unreadable(Problem),
    /// Another process kept changing the file.
    #[error("another program is changing {}; try again when it is done", .0.display())]
    Busy(PathBuf),
    #[error("{}:{line} holds no such note; list the notes again for its place", file.display())]
    NoNote { file: PathBuf, line: usize },
    /// The active configuration has changed since it was read.
    #[error("{} has changed since it was read; read it again and repeat the change", .0.display())]
    Changed(PathBuf),
    /// The active configuration is not a JSON object. Line and column count from 1.
    #[error("{}:{line}:{column}: {why}; repair the file, it stays unchanged until then", file.display())]
    Json {
        file: PathBuf,
        line: usize,
        column: usize,
        why: String,
    },
    #[error("the active configuration has {0} bytes; at most {MAX_FILE_BYTES} are allowed")]
    TooLarge(u64),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}
