//! What the runtime's own errors are on the wire.

use axum::http::StatusCode;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;
use watchkeeper_http::refusal::full;

use crate::effects::EffectsError;
use crate::journal::JournalError;
use crate::journal::media::MediaError;

impl From<JournalError> for Refusal {
    fn from(error: JournalError) -> Self {
        tracing::error!(%error, "journal refused a request");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Storage,
            error.to_string(),
        )
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
        tracing::error!(%error, "the effects refused a request");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Storage,
            error.to_string(),
        )
    }
}

/// As many requests are at work as there may be.
pub(super) fn busy() -> Refusal {
    let most = super::MAX_AT_WORK;
    full(format!(
        "{most} requests are at work already; try again in a moment"
    ))
}
