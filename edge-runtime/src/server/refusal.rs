//! Conversion of the runtime's errors to HTTP refusals.

use axum::http::StatusCode;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_http::Refusal;
use watchkeeper_http::refusal::full;

use super::limits::MAX_CALLS;
use crate::effects::EffectsError;
use crate::journal::JournalError;
use crate::journal::media::MediaError;

impl From<JournalError> for Refusal {
    fn from(error: JournalError) -> Self {
        tracing::error!(%error, "journal refused a request");
        Problem::storage(error.to_string()).into()
    }
}

impl From<MediaError> for Refusal {
    fn from(error: MediaError) -> Self {
        let (status, code) = match error {
            MediaError::NotFound { .. } => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
            MediaError::NotYet { .. } => (StatusCode::CONFLICT, ProblemCode::NotReady),
            MediaError::TooLarge { .. }
            | MediaError::Damaged { .. }
            | MediaError::Full { .. }
            | MediaError::Io { .. } => {
                return Problem::storage(error.to_string()).into();
            }
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<EffectsError> for Refusal {
    fn from(error: EffectsError) -> Self {
        tracing::error!(%error, "effects refused a request");
        Problem::storage(error.to_string()).into()
    }
}

/// Refusal of a request while [`MAX_CALLS`] are in progress.
pub(super) fn busy() -> Refusal {
    full(format!(
        "{MAX_CALLS} requests are in progress; try again in a moment"
    ))
}

#[cfg(test)]
mod tests {
    use std::io;

    use watchkeeper_store::StoreError;

    use super::*;
    use ProblemCode as Code;

    #[test]
    fn status_of_a_refusal_follows_from_its_code() {
        let disk = || io::Error::from(io::ErrorKind::StorageFull);
        let path = || "/state".into();
        let journal = JournalError::Store(StoreError::Io {
            path: path(),
            what: "write",
            source: disk(),
        });
        let media = MediaError::Io {
            path: path(),
            source: disk(),
        };
        for (refusal, status, code) in [
            (journal.into(), 507, Code::Storage),
            (media.into(), 507, Code::Storage),
            (busy(), 429, Code::Limit),
            (Problem::not_ready("x").into(), 503, Code::NotReady),
            (Problem::not_found("x").into(), 404, Code::NotFound),
            (Problem::conflict("x").into(), 409, Code::Conflict),
            (Problem::internal("x").into(), 500, Code::Internal),
            (Refusal::invalid("x"), 400, Code::InvalidRequest),
        ] {
            let problem = refusal.0;
            assert_eq!((problem.status, problem.code), (status, code));
        }
    }
}
