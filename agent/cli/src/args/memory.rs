//! Flags of `watchkeeper memory`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use watchkeeper_contract::id::SourceId;
use watchkeeper_memory::Kind;

use super::value::past;

/// Default number of notes to print.
pub(crate) const DEFAULT_NOTES: usize = 50;

#[derive(Debug, Clone, Args)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    pub action: Option<MemoryAction>,
    /// Use the agent's notes (API, heartbeat) instead of those of `ask` and `chat`.
    #[arg(long, global = true)]
    pub agent: bool,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MemoryAction {
    /// List notes by time, the newest first, with the place of each.
    List(MemoryListArgs),
    /// Search notes by words, the best first.
    Search {
        /// Words to search for.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Remove one note; the rest of its file stays.
    Forget {
        /// Place of the note, as `list` and `search` print it, such as journal/2026-11.md:5.
        #[arg(value_name = "FILE:LINE", value_parser = place)]
        place: (PathBuf, usize),
    },
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct MemoryListArgs {
    /// Only notes of this kind; repeatable [default: all].
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<NoteKind>,
    /// Only notes about this camera.
    #[arg(long, value_name = "ID")]
    pub camera: Option<SourceId>,
    /// Only notes since a time such as 2026-03-29T08:00, or how long ago, such as 24h.
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub since: Option<Timestamp>,
    /// Only notes before this time.
    #[arg(long, value_name = "TIME", value_parser = past)]
    pub until: Option<Timestamp>,
    /// Maximum number of notes to print.
    #[arg(long, default_value_t = DEFAULT_NOTES, value_name = "COUNT")]
    pub limit: usize,
}

/// Kind of a note on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoteKind {
    Observation,
    Knowledge,
    Preference,
    Lesson,
}

impl From<NoteKind> for Kind {
    fn from(kind: NoteKind) -> Self {
        match kind {
            NoteKind::Observation => Self::Observation,
            NoteKind::Knowledge => Self::Knowledge,
            NoteKind::Preference => Self::Preference,
            NoteKind::Lesson => Self::Lesson,
        }
    }
}

/// Parses the place of a note.
fn place(text: &str) -> Result<(PathBuf, usize), String> {
    let parsed = text.rsplit_once(':').and_then(|(file, line)| {
        let line: usize = line.parse().ok().filter(|line| *line > 0)?;
        (!file.is_empty()).then(|| (PathBuf::from(file), line))
    });
    parsed.ok_or_else(|| "must be a file and a line, such as journal/2026-11.md:5".to_owned())
}
