//! Errors of requests to the runtime.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::StatusCode;
use watchkeeper_contract::problem::{Problem, ProblemCode, with_allowed};

use crate::how_to_start;

const RUNTIME: &str = "watchkeeper-runtime";
/// Statuses of refusals that may pass.
const MAY_PASS: [StatusCode; 3] = [
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::TOO_EARLY,
    StatusCode::TOO_MANY_REQUESTS,
];

/// Failed request to the runtime. `request` is method and path.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process accepts connections on the socket.
    #[error(
        "the runtime is not reachable at {}: {cause}; start it: {}",
        socket.display(), how_to_start::start(Path::new("/"), RUNTIME)
    )]
    Unreachable {
        socket: PathBuf,
        cause: &'static str,
    },
    /// This user has no permission on the socket.
    #[error(
        "this user may not open {}: {cause}; {}",
        socket.display(), how_to_start::admission(socket)
    )]
    Forbidden { socket: PathBuf, cause: String },
    /// No answer came before the deadline.
    #[error(
        "the runtime did not answer {request} within {} s; see its log ({})",
        after.as_secs(), how_to_start::log(Path::new("/"), RUNTIME)
    )]
    Timeout { request: String, after: Duration },
    /// The connection broke during the answer.
    #[error("the connection to the runtime broke during {request}: {cause}")]
    Broken { request: String, cause: String },
    /// The runtime refused the request, with the reason.
    #[error(transparent)]
    Refused(Box<Problem>),
    /// This version can't parse the answer.
    #[error(
        "unknown format of the runtime's answer to {request}: {cause}; install all programs in the same version"
    )]
    Answer { request: String, cause: String },
    /// The caller's writer failed.
    #[error("can't write the answer to {request}: {source}")]
    Write {
        request: String,
        source: std::io::Error,
    },
    /// The HTTP client can't be created, because this installation is broken.
    #[error("can't set up the HTTP client: {0}")]
    Setup(String),
}

impl ClientError {
    /// Formats the error with the field and value in question and the allowed values, in one line.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let Some(problem) = self.problem() else {
            return text;
        };
        if let (Some(field), Some(value)) = (&problem.field, &problem.value) {
            text.push_str(&format!(" ({field} = {value})"));
        }
        with_allowed(text, &problem.allowed, None)
    }

    /// Returns the problem of a refusal.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::Unreachable { .. }
            | Self::Forbidden { .. }
            | Self::Timeout { .. }
            | Self::Broken { .. }
            | Self::Answer { .. }
            | Self::Write { .. }
            | Self::Setup(_) => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.problem()
            .is_some_and(|p| p.code == ProblemCode::NotFound)
    }

    /// Returns whether the journal ends before the record that the request named.
    pub fn is_ahead(&self) -> bool {
        let is_it =
            |p: &Problem| p.code == ProblemCode::Conflict && p.field.as_deref() == Some("after");
        self.problem().is_some_and(is_it)
    }

    /// Returns whether a retry of any request may succeed: the runtime is away, slow, busy or
    /// restarting. 503 is not among it: what was asked for, such as the first frame of a camera,
    /// may never come.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Forbidden { .. }
            | Self::Timeout { .. }
            | Self::Broken { .. } => true,
            Self::Refused(problem) => problem.status == StatusCode::TOO_MANY_REQUESTS.as_u16(),
            Self::Answer { .. } | Self::Write { .. } | Self::Setup(_) => false,
        }
    }

    /// Returns whether this version of the runtime would refuse the request whenever it is sent.
    pub fn is_final(&self) -> bool {
        self.problem().is_some_and(|problem| {
            let may_pass = MAY_PASS
                .iter()
                .any(|status| status.as_u16() == problem.status);
            (400..500).contains(&problem.status) && problem.code != ProblemCode::Limit && !may_pass
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_final_unless_a_wait_may_end_it() {
        use ProblemCode::{Internal, InvalidRequest, Limit, NotFound, Storage};
        for (status, code, is_final) in [
            (400, InvalidRequest, true),
            (404, NotFound, true),
            (422, InvalidRequest, true),
            (408, InvalidRequest, false),
            (409, Limit, false),
            (429, Limit, false),
            (500, Internal, false),
            (507, Storage, false),
        ] {
            let error = ClientError::Refused(Box::new(Problem::new(status, code, "why")));
            assert_eq!(error.is_final(), is_final, "{status} {code:?}");
        }
        let (request, cause) = (String::new(), String::new());
        assert!(!ClientError::Broken { request, cause }.is_final());
    }

    #[test]
    fn conflict_of_the_cursor_alone_is_ahead() {
        let refused = |code, field: &str| {
            ClientError::Refused(Box::new(Problem {
                status: StatusCode::CONFLICT.as_u16(),
                code,
                detail: String::new(),
                field: Some(field.to_owned()),
                value: None,
                allowed: Vec::new(),
                workflow_errors: Vec::new(),
            }))
        };
        assert!(refused(ProblemCode::Conflict, "after").is_ahead());
        assert!(!refused(ProblemCode::Conflict, "seq").is_ahead());
        assert!(!refused(ProblemCode::NotFound, "after").is_ahead());
    }
}
