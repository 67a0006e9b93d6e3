//! What may be wrong with the files, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::file::MAX_FILE_BYTES;
use super::layout::{max_notes, max_of_agent};
use crate::note::{Kind, MAX_TAGS, NotAllowed};
use crate::page::Fault;

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Something in it is not understood.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// It is not there.
    #[error("the file is not there")]
    Missing,
    /// It is too large to be read.
    #[error(
        "the file has {0} bytes and is not read; at most {MAX_FILE_BYTES} are, so move what is old elsewhere"
    )]
    Large(u64),
    /// It is a folder, a pipe or the like.
    #[error("this is no plain file and is not read")]
    NotPlain,
    /// Its name is none of ours.
    #[error(
        "no notes are read under this name; use a day like 2026-11-22.md for observations, a month like 2026-11.md for the journal, or undated.md"
    )]
    Name,
    /// There are too many.
    #[error("this file is not read, because there are more than {0} newer ones; move it elsewhere")]
    Many(usize),
    /// The system refuses.
    #[error("the file can't be read: {0}")]
    Io(String),
}

/// Something wrong with a file of the memory. It reads `knowledge.md:12: …` where there is a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, below the folder.
    pub file: PathBuf,
    /// What is wrong.
    pub trouble: Trouble,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.trouble {
            Trouble::Fault(Fault { line, why }) => write!(f, "{file}:{line}: {why}"),
            trouble => write!(f, "{file}: {trouble}"),
        }
    }
}

/// Why something is not kept or not given.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Such words may not stand there.
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// Too many tags.
    #[error("a note may have {MAX_TAGS} tags, and this has {0}; leave some out")]
    Tags(usize),
    /// The file has as many notes, or bytes, as it may.
    #[error(
        "{} has no room for another {} (at most {} notes and {MAX_FILE_BYTES} bytes); delete or join some of them",
        file.display(), kind.name(), max_notes(*kind)
    )]
    Full {
        /// The file, below the folder.
        file: PathBuf,
        /// What it is of.
        kind: Kind,
    },
    /// The agent has written as many notes there as it may: the rest is for people.
    #[error(
        "{} has {} notes of the agent's own, which is as many {} as it may keep; a person can delete some of them",
        file.display(), max_of_agent(*kind), kind.name()
    )]
    AgentsShare {
        /// The file, below the folder.
        file: PathBuf,
        /// What it is of.
        kind: Kind,
    },
    /// The file is there and can't be read.
    #[error("{0}; nothing is added to it until it can be read")]
    Unreadable(Problem),
    /// Somebody else keeps changing the file.
    #[error("{} is being changed by somebody else; try again when they are done", .0.display())]
    Busy(PathBuf),
    /// The active configuration is not what it was when it was read.
    #[error("{} was changed since it was read; read it again and make the change on that", .0.display())]
    Changed(PathBuf),
    /// The active configuration is no JSON object.
    #[error("{}:{line}:{column}: {why}; mend it, it is left as it is until then", file.display())]
    Json {
        /// The file, below the folder.
        file: PathBuf,
        /// Where, from 1.
        line: usize,
        /// Where in the line, from 1.
        column: usize,
        /// What the parser says.
        why: String,
    },
    /// The active configuration would be too large.
    #[error("the active configuration has {0} bytes; at most {MAX_FILE_BYTES} are kept")]
    Large(u64),
    /// The system refuses.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}
