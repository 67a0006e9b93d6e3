//! Progress of a job, to be shown while it runs.

use std::time::Duration;

use crate::attempt_error::AttemptError;
use crate::wire::StreamPiece;

/// What a job reports while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'p> {
    Piece(&'p StreamPiece),
    /// The attempt failed, which voids what was shown of it; the next starts after the pause.
    Retry {
        error: &'p AttemptError,
        pause: Duration,
    },
}

/// Receiver of [`Progress`].
pub(super) type Shown<'s> = &'s mut (dyn FnMut(Progress<'_>) + Send);
