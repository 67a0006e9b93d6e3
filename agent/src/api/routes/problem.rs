//! Errors of conversations and proposals as HTTP problems.

use axum::http::StatusCode;
use watchkeeper_assistant::proposal::pending::PendingError;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;

use crate::api::conversations::ConversationError;

/// Converts the refusal of a message or conversation into an HTTP problem.
pub(super) fn refused(error: ConversationError) -> Refusal {
    let (status, code) = match &error {
        ConversationError::TooMany { .. } => (StatusCode::TOO_MANY_REQUESTS, ProblemCode::Limit),
        ConversationError::Working { .. } | ConversationError::Over { .. } => {
            (StatusCode::CONFLICT, ProblemCode::Conflict)
        }
        ConversationError::Unknown { .. } => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
        ConversationError::Closing => (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady),
        ConversationError::Waiting(error) => return unreadable(error),
    };
    let refusal = Refusal::new(status, code, error.to_string());
    match error {
        ConversationError::Unknown { id } => refusal.at("id", id),
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
