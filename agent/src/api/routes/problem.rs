//! Errors of conversations, proposals and the runtime as HTTP problems.

use axum::http::StatusCode;
use watchkeeper_assistant::proposal::pending::PendingError;
use watchkeeper_client::ClientError;
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
        PendingError::Io { .. } => (StatusCode::INSUFFICIENT_STORAGE, ProblemCode::Storage),
    };
    Refusal::new(status, code, error.to_string())
}

/// Passes on the runtime's refusal. Its absence, and a refusal that may end by itself, are
/// `NotReady`.
pub(super) fn of_runtime(error: ClientError) -> Refusal {
    let sentence = error.in_full();
    if error.is_transient() {
        let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady);
        return Refusal::new(status, code, sentence);
    }
    match error {
        ClientError::Refused(problem) => Refusal::from(*problem),
        _ => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Refusal::new(status, ProblemCode::Internal, sentence)
        }
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::problem::Problem;
    use watchkeeper_jobs::run::JobFolderError;

    use super::*;
    use crate::jobs::JobServiceError;

    #[test]
    fn disk_that_refuses_is_507() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let pending = PendingError::Io {
            path: "/state".into(),
            source: full(),
        };
        let folder = JobFolderError::Io {
            path: "/state".into(),
            source: full(),
        };
        let refusals = [
            unreadable(&pending),
            super::super::jobs::refused(JobServiceError::Audit(full())),
            super::super::jobs::refused(folder.into()),
        ];
        for Refusal(problem) in refusals {
            assert_eq!((problem.status, problem.code), (507, ProblemCode::Storage));
        }
    }

    #[test]
    fn refusal_of_runtime_is_passed_on_and_absence_is_not_ready() {
        let refused = |status| {
            let problem = Problem::new(status, ProblemCode::InvalidRequest, "job: too large");
            of_runtime(ClientError::Refused(Box::new(problem))).0
        };
        assert_eq!(refused(400).status, 400);
        assert_eq!(refused(400).detail, "job: too large");
        assert_eq!(refused(429).status, 503);
        let request = "POST /v1/bundles/jobs".to_owned();
        let cause = "reset".to_owned();
        assert_eq!(
            of_runtime(ClientError::Broken { request, cause }).0.status,
            503
        );
    }
}
