//! Exit codes of the command, and the failure that carries one.
//!
//! Invariant: scripts may rely on the numbers; a code keeps its meaning for ever. `docs/ref/cli.md` lists exactly these.

use std::fmt;
use std::process::ExitCode;

use watchkeeper_assistant::failure::{self, ErrorKind};
use watchkeeper_assistant::proposal::pending::PendingError;
use watchkeeper_client::ClientError;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok,
    /// Tried and failed.
    Failed,
    /// The request itself is wrong: a flag, a file, a name, a definition.
    BadInput,
    /// The runtime is not reachable or could not be started.
    NoRuntime,
    /// The source failed: no frames could be had from it.
    Source,
    /// Watched to the end, but the broker that was asked for did not take every event, or not everything was done that the workflow wanted done outside.
    Undelivered,
}

impl Exit {
    /// Every code, in the order of the numbers.
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::Failed,
        Self::BadInput,
        Self::NoRuntime,
        Self::Source,
        Self::Undelivered,
    ];

    /// The number.
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

    /// What it means, for the document.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => {
                "Done. For `run`: the source ended normally, `--for` passed, its window was closed, or Ctrl-C."
            }
            Self::Failed => "Tried and failed; the sentence on standard error says why.",
            Self::BadInput => {
                "The request itself is wrong: a flag, a missing file, a file that is no video, an unknown model, a \
                 workflow that does not compile."
            }
            Self::NoRuntime => {
                "The runtime is not reachable, or a program that `run` needs was not found or did not start."
            }
            Self::Source => {
                "The source failed: refused, unreachable, wrong password, or it broke off while it was read."
            }
            Self::Undelivered => {
                "`run`: everything was watched and printed, but the broker of `--mqtt` was never reached or did not acknowledge every event, or \
                 something that the workflow wanted done outside, and `[sinks]` allows, could not be done."
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A failure: the code, the sentence, and lines of detail below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub exit: Exit,
    /// One sentence.
    pub sentence: String,
    /// More lines, such as each error of a file.
    pub details: Vec<String>,
}

impl Failure {
    /// A failure with one sentence.
    #[must_use]
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Self {
            exit,
            sentence: sentence.into(),
            details: Vec::new(),
        }
    }

    /// The request itself is wrong.
    #[must_use]
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::new(Exit::BadInput, sentence)
    }

    /// Adds lines of detail.
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
