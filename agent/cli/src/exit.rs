//! Exit codes of the command, and the failure that carries one.
//!
//! Invariant: codes are stable, scripts rely on them. `docs/ref/cli.md` lists exactly these.

use std::fmt;
use std::process::ExitCode;

use watchkeeper_assistant::failure::{self, ErrorKind};
use watchkeeper_assistant::proposal::pending::PendingError;
use watchkeeper_client::ClientError;

/// Result of the command; [`Exit::meaning`] describes each for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok,
    Failed,
    BadInput,
    NoRuntime,
    Source,
    Undelivered,
}

impl Exit {
    /// Every variant, ordered by code.
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::Failed,
        Self::BadInput,
        Self::NoRuntime,
        Self::Source,
        Self::Undelivered,
    ];

    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => ErrorKind::Failed.code(),
            Self::BadInput => ErrorKind::BadInput.code(),
            Self::NoRuntime => ErrorKind::NoRuntime.code(),
            Self::Source => 4,
            Self::Undelivered => 5,
        }
    }

    /// Meaning of the code, for `docs/ref/cli.md`.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => {
                "Success. For `run`: the source ended, `--for` passed, the window was closed, or Ctrl-C; \
                 images of a folder that can't be read are named and left out."
            }
            Self::Failed => "The command failed; standard error has the reason.",
            Self::BadInput => {
                "Invalid input: a flag, a missing file, a file that is not a video, an unknown model, \
                 or a workflow that does not compile."
            }
            Self::NoRuntime => {
                "The runtime is not reachable, or a program that `run` needs is missing or does not start."
            }
            Self::Source => {
                "The camera or file failed: connection refused, unreachable, wrong password, or it broke off."
            }
            Self::Undelivered => {
                "`run`: the run is complete, but the broker of `--mqtt` did not acknowledge every event, \
                 or an effect of the workflow that `[sinks]` allows failed."
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Failure that ends the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    pub sentence: String,
    /// Lines below the sentence, such as each error of a file.
    pub details: Vec<String>,
}

impl Failure {
    #[must_use]
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Self {
            exit,
            sentence: sentence.into(),
            details: Vec::new(),
        }
    }

    /// Creates a failure with [`Exit::BadInput`].
    #[must_use]
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, sentence)
    }

    /// Adds detail lines.
    #[must_use]
    pub fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        for line in &self.details {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Failed => Self::Failed,
            ErrorKind::BadInput => Self::BadInput,
            ErrorKind::NoRuntime => Self::NoRuntime,
        }
    }
}

impl From<failure::Error> for Failure {
    fn from(failure: failure::Error) -> Self {
        Self {
            exit: failure.kind.into(),
            sentence: failure.sentence,
            details: failure.details,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        failure::Error::from(error).into()
    }
}

impl From<PendingError> for Failure {
    fn from(error: PendingError) -> Self {
        failure::Error::from(error).into()
    }
}
