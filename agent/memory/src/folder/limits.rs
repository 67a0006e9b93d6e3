//! Limits of the files of a memory.

use crate::note::Kind;

/// Maximum bytes of a file. A larger one is reported and not read.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum days of observations: 100,000 notes with [`max_notes`].
///
/// Beyond it the oldest files are removed, unless a user wrote in them.
pub const MAX_DAYS: usize = 400;
/// Maximum months of lessons, by the same rule as [`MAX_DAYS`].
pub const MAX_MONTHS: usize = 60;

/// Maximum notes of a file. A full file accepts no more: only a user can choose what to delete.
pub(super) const fn max_notes(kind: Kind) -> usize {
    match kind {
        Kind::Observation => 250,
        Kind::Knowledge | Kind::Lesson => 1_000,
        Kind::Preference => 200,
    }
}

/// Maximum notes of a file that the agent wrote: half of the knowledge, to leave room for users.
///
/// Dated files are removed as a whole and need no such limit.
pub(super) const fn max_agent_notes(kind: Kind) -> usize {
    match kind {
        Kind::Knowledge => max_notes(kind) / 2,
        Kind::Observation | Kind::Lesson | Kind::Preference => max_notes(kind),
    }
}

/// Maximum dated files of a kind.
pub(super) const fn max_files(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Observation => Some(MAX_DAYS),
        Kind::Lesson => Some(MAX_MONTHS),
        Kind::Knowledge | Kind::Preference => None,
    }
}
