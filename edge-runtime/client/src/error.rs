//! What can go wrong between a client and the runtime.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::StatusCode;
use watchkeeper_contract::problem::{Problem, ProblemCode, with_allowed};

use crate::how_to_start;

/// The daemon that is asked.
const RUNTIME: &str = "watchkeeper-runtime";

/// A request to the runtime that brought no answer, or a refusal.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket.
    #[error(
        "the runtime is not reachable at {}: {cause}; start it (`{}`) or name the socket of the one that runs",
        socket.display(), how_to_start::start(Path::new("/"), RUNTIME)
    )]
    Unreachable {
        /// Socket that was tried.
        socket: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// The socket is there, but not for this user.
    #[error(
        "this user may not open {}: {cause}; its permission is the authority: {}",
        socket.display(), how_to_start::admission(socket)
    )]
    Forbidden {
        /// Socket that was tried.
        socket: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// The runtime is there and keeps silent.
    #[error(
        "the runtime did not answer {request} within {} s; its log says more ({})",
        after.as_secs(), how_to_start::log(Path::new("/"), RUNTIME)
    )]
    Timeout {
        /// Method and path.
        request: String,
        /// Deadline that passed.
        after: Duration,
    },
    /// The connection broke in the middle of an answer.
    #[error("the connection to the runtime broke during {request}: {cause}")]
    Broken {
        /// Method and path.
        request: String,
        /// What the system said.
        cause: String,
    },
    /// The runtime refused, and says why.
    #[error(transparent)]
    Refused(Box<Problem>),
    /// The answer is not in the words of this version.
    #[error(
        "the runtime's answer to {request} was not understood: {cause}; runtime and agent must be of the same version"
    )]
    Answer {
        /// Method and path.
        request: String,
        /// What was wrong with it.
        cause: String,
    },
    /// What came could not be written where the caller wanted it.
    #[error("could not write the answer to {request}: {source}")]
    Write {
        /// Method and path.
        request: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The HTTP client could not be made; a fault of this installation.
    #[error("could not set up the HTTP client: {0}")]
    Setup(String),
}

impl ClientError {
    /// All of it in one line: what was wrong, where, and what is allowed.
    #[must_use]
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let Some(problem) = self.problem() else {
            return text;
        };
        if let (Some(field), Some(value)) = (&problem.field, &problem.value) {
            text.push_str(&format!(" ({field} = {value})"));
        }
        with_allowed(text, &problem.allowed)
    }

    /// The refusal, where this is one.
    #[must_use]
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

    /// Whether the runtime said that there is no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.problem()
            .is_some_and(|p| p.code == ProblemCode::NotFound)
    }

    /// Whether the same request may succeed later without anybody changing it: the runtime is away, slow, busy or restarting.
    #[must_use]
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
}
