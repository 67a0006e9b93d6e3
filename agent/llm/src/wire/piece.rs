//! Pieces of a streamed answer.

use crate::attempt_error::{AttemptError, AttemptErrorKind};

/// A piece to show while an answer streams. A failed attempt voids what was shown of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPiece {
    Thinking(String),
    Text(String),
    /// A call has started.
    Call {
        /// Name of the tool.
        name: String,
    },
}

/// Returns the error for an event, answer or part that does not follow the protocol.
pub(super) fn malformed(what: &str, error: &serde_json::Error) -> AttemptError {
    AttemptError::new(AttemptErrorKind::Malformed, format!("{what}: {error}"))
}
