//! Why a request or a command failed, for a user or a program.
//!
//! Invariant: codes are stable, scripts rely on them. `docs/ref/cli.md` lists these, and 0 for
//! success.

use std::fmt;

use watchkeeper_client::ClientError;
use watchkeeper_contract::problem::{ProblemCode, nearest};
use watchkeeper_jobs::run::{JobFolderError, RunError};
use watchkeeper_jobs::template_store::TemplateStoreError;

use crate::blueprint::store::BlueprintStoreError;
use crate::proposal::pending::PendingError;

/// Class of a failure, with the code that the command exits with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    Failed,
    /// The request itself is wrong: a name, a file, a definition.
    BadInput,
    /// The runtime, or a program that the command needs, is not reachable.
    NoRuntime,
    /// `run`: the camera or file failed.
    Source,
    /// `run`: it is complete, but not everything was delivered.
    Undelivered,
}

impl ErrorKind {
    /// Number of the class in the API's field `exit`.
    pub const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::BadInput => 2,
            Self::NoRuntime => 3,
            Self::Source => 4,
            Self::Undelivered => 5,
        }
    }
}

/// A failed request: its class, one sentence, and lines of detail below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub exit: ErrorKind,
    pub sentence: String,
    /// One line each, such as the errors of a file.
    pub details: Vec<String>,
}

impl Error {
    pub fn new(exit: ErrorKind, sentence: impl Into<String>) -> Self {
        Self {
            exit,
            sentence: sentence.into(),
            details: Vec::new(),
        }
    }

    /// A failure of class [`ErrorKind::Failed`].
    pub fn failed(sentence: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, sentence)
    }

    /// A failure of class [`ErrorKind::BadInput`].
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
        let exit = match error {
            PendingError::Unknown { .. } | PendingError::OtherRuntime { .. } => ErrorKind::BadInput,
            PendingError::Io { .. } => ErrorKind::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<BlueprintStoreError> for Error {
    fn from(error: BlueprintStoreError) -> Self {
        match error {
            BlueprintStoreError::Io { .. } | BlueprintStoreError::Foreign { .. } => {
                Self::failed(error.to_string())
            }
            BlueprintStoreError::Invalid(flaws) => {
                let lines = flaws.iter().map(ToString::to_string);
                Self::input("the blueprint is invalid:").with(lines)
            }
            BlueprintStoreError::Unknown(_)
            | BlueprintStoreError::Taken { .. }
            | BlueprintStoreError::BuiltIn(_)
            | BlueprintStoreError::Full => Self::input(error.to_string()),
        }
    }
}

impl From<JobFolderError> for Error {
    fn from(error: JobFolderError) -> Self {
        let exit = match error {
            JobFolderError::Unknown(_)
            | JobFolderError::Ambiguous { .. }
            | JobFolderError::NotEmpty(_)
            | JobFolderError::OfJob { .. }
            | JobFolderError::NotText(_) => ErrorKind::BadInput,
            _ => ErrorKind::Failed,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<TemplateStoreError> for Error {
    fn from(error: TemplateStoreError) -> Self {
        let exit = match error {
            TemplateStoreError::Io { .. } | TemplateStoreError::Damaged { .. } => ErrorKind::Failed,
            _ => ErrorKind::BadInput,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
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
            exit,
            sentence: error.to_string(),
            details: details.unwrap_or_default(),
        }
    }
}
