//! Why a request failed, for a user or a program.
//!
//! Not here: the command's exit codes (`watchkeeper-cli`).

use std::fmt;

use watchkeeper_client::ClientError;
use watchkeeper_contract::problem::{ProblemCode, nearest};

use crate::proposal::pending::PendingError;

/// Class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Tried and failed.
    Failed,
    /// The request itself is wrong: a name, a file, a definition.
    BadInput,
    /// The runtime is not reachable.
    NoRuntime,
}

impl ErrorKind {
    /// Number of the class in the API's field `exit`; the command exits with it.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::BadInput => 2,
            Self::NoRuntime => 3,
        }
    }
}

/// A failed request: its class, one sentence, and lines of detail below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub sentence: String,
    /// One line each, such as the errors of a file.
    pub details: Vec<String>,
}

impl Error {
    #[must_use]
    pub fn new(kind: ErrorKind, sentence: impl Into<String>) -> Self {
        Self {
            kind,
            sentence: sentence.into(),
            details: Vec::new(),
        }
    }

    /// A failure of class [`ErrorKind::BadInput`].
    #[must_use]
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadInput, sentence)
    }

    /// Adds lines of detail.
    #[must_use]
    pub fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        for line in &self.details {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl From<PendingError> for Error {
    fn from(error: PendingError) -> Self {
        let kind = match error {
            PendingError::Unknown { .. } | PendingError::OtherRuntime { .. } => ErrorKind::BadInput,
            PendingError::Io { .. } => ErrorKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        let kind = match &error {
            ClientError::Unreachable { .. } | ClientError::Forbidden { .. } => ErrorKind::NoRuntime,
            ClientError::Timeout { .. }
            | ClientError::Broken { .. }
            | ClientError::Answer { .. }
            | ClientError::Write { .. }
            | ClientError::Setup(_) => ErrorKind::Failed,
            ClientError::Refused(problem) => match problem.code {
                ProblemCode::InvalidRequest
                | ProblemCode::Unauthorized
                | ProblemCode::NotFound
                | ProblemCode::Conflict
                | ProblemCode::InvalidWorkflow
                | ProblemCode::Model => ErrorKind::BadInput,
                ProblemCode::NotReady
                | ProblemCode::Storage
                | ProblemCode::Limit
                | ProblemCode::Internal => ErrorKind::Failed,
            },
        };
        let details = error.problem().map(|problem| {
            let is_absent = problem.code == ProblemCode::NotFound;
            let field = problem.field.as_ref().map(|field| match &problem.value {
                Some(value) => format!("{field} = {value}"),
                None => field.clone(),
            });
            // Where something does not exist, the sentence names it.
            let field = field.filter(|_| !is_absent || problem.value.is_none());
            let word = if is_absent { "there are" } else { "allowed" };
            let allowed = (!problem.allowed.is_empty())
                .then(|| format!("{word}: {}", problem.allowed.join(", ")));
            let known = problem.allowed.iter().map(String::as_str);
            let value = problem.value.as_deref().unwrap_or_default();
            let near = nearest(value, known).map(|near| format!("did you mean {near}?"));
            let workflow = problem.workflow_errors.iter().map(ToString::to_string);
            let details = field.into_iter().chain(allowed).chain(near);
            details.chain(workflow).collect()
        });
        Self {
            kind,
            sentence: error.to_string(),
            details: details.unwrap_or_default(),
        }
    }
}
