//! Conversion of the runtime's errors to HTTP refusals.

use axum::http::StatusCode;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;
use watchkeeper_http::refusal::full;

use super::limits::MAX_CALLS;
use crate::effects::EffectsError;
use crate::journal::JournalError;
use crate::journal::media::MediaError;

impl From<JournalError> for Refusal {
    fn from(error: JournalError) -> Self {
        tracing::error!(%error, "journal refused a request");
        unavailable(error)
    }
}

impl From<MediaError> for Refusal {
    fn from(error: MediaError) -> Self {
        let (status, code) = match error {
            MediaError::NotFound { .. } => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
            MediaError::NotYet { .. } => (StatusCode::CONFLICT, ProblemCode::NotReady),
            MediaError::TooLarge { .. } | MediaError::Full { .. } => {
                (StatusCode::INSUFFICIENT_STORAGE, ProblemCode::Storage)
            }
            MediaError::Io { .. } => (StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Storage),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<EffectsError> for Refusal {
    fn from(error: EffectsError) -> Self {
        tracing::error!(%error, "effects refused a request");
        unavailable(error)
    }
}

/// Refusal while the disk refuses.
fn unavailable(error: impl std::fmt::Display) -> Refusal {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Refusal::new(status, ProblemCode::Storage, error.to_string())
}

/// Refusal of a request while [`MAX_CALLS`] are in progress.
pub(super) fn busy() -> Refusal {
    full(format!(
        "{MAX_CALLS} requests are in progress; try again in a moment"
    ))
}
