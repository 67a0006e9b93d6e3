//! Errors of conversations and proposals as HTTP problems.

use axum::http::StatusCode;
use watchkeeper_assistant::proposal::pending::PendingError;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;

use crate::api::conversations::NotTaken;

/// Converts the refusal of a message or conversation into an HTTP problem.
pub(super) fn refused(error: NotTaken) -> Refusal {
    let (status, code) = match &error {
        NotTaken::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, ProblemCode::Limit),
        NotTaken::Working { .. } | NotTaken::Over { .. } => {
            (StatusCode::CONFLICT, ProblemCode::Conflict)
        }
        NotTaken::Unknown { .. } => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
        NotTaken::Closing => (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady),
        NotTaken::Waiting(error) => return unreadable(error),
    };
    let refusal = Refusal::new(status, code, error.to_string());
    match error {
        NotTaken::Unknown { id } => refusal.at("id", id),
        _ => refusal,
    }
}

/// Converts an error of the pending proposals into an HTTP problem.
pub(super) fn unreadable(error: &PendingError) -> Refusal {
    let (status, code) = match error {
        PendingError::Unknown { .. } | PendingError::OtherRuntime { .. } => {
            (StatusCode::NOT_FOUND, ProblemCode::NotFound)
        }
        PendingError::Io { .. } => (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Storage),
    };
    Refusal::new(status, code, error.to_string())
}
