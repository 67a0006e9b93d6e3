//! Why there is no client, or no answer: one sentence each, with the remedy.

use std::time::Duration;

use watchkeeper_store::StoreError;

use crate::attempt_error::{AttemptError, AttemptErrorKind};
use crate::budget::Refusal;
use crate::catalogue::UnknownEntry;
use crate::ledger::LedgerError;
use crate::policy::BreakerOpen;
use crate::wire::EncodeError;

/// Settings that give no client.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Unknown(#[from] UnknownEntry),
    /// The address is not repeated: it may hold a credential.
    #[error("the base URL of the model provider {0}")]
    BaseUrl(String),
    #[error("the model provider {0} needs a key; put one into the credential or the configuration")]
    NoKey(String),
    #[error("the key would be sent unencrypted to {0}; use https:// in the base URL")]
    PlainKey(String),
    /// A model of a provider that is not configured.
    #[error(
        "the provider {wanted} is not configured, but {configured}; set provider to one of these \
         with one of its models, or configure {wanted} in [llm.second]"
    )]
    NotConfigured { wanted: String, configured: String },
    /// The HTTP client fails to start: a fault of this installation.
    #[error(
        "the HTTP client could not be set up ({0}); check that the system's certificates are installed"
    )]
    Http(String),
}

/// Why a job has no answer. The caller decides without the model, and says so.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// The provider or the model failed, and a retry would not help or did not.
    #[error("{error}{}", attempts_clause(*attempts))]
    Failed { error: AttemptError, attempts: u32 },
    #[error(transparent)]
    Budget(#[from] Refusal),
    /// The circuit breaker suspends calls.
    #[error("{}; calls to it are suspended for {} min more: {}", because.what(), remaining.as_secs().div_ceil(60), because.remedy())]
    BreakerOpen {
        because: AttemptErrorKind,
        remaining: Duration,
    },
    #[error("the model gave no answer within the job's {} s{}", after.as_secs(), last.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Deadline {
        /// Time that the job had.
        after: Duration,
        /// The last error, if an attempt failed.
        last: Option<AttemptError>,
    },
    #[error("the ledger of LLM calls can't be written, so none is made: {0}")]
    Ledger(StoreError),
    /// The conversation can't be sent to this model.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl LlmError {
    /// Returns the error with all that the server said, for the log and the trace.
    pub fn in_full(&self) -> String {
        match self {
            Self::Failed { error, attempts } => {
                format!("{}{}", error.in_full(), attempts_clause(*attempts))
            }
            Self::Deadline {
                last: Some(error), ..
            } => format!("{self}; {}", error.in_full()),
            other => other.to_string(),
        }
    }
}

impl From<LedgerError> for LlmError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Refused(refusal) => Self::Budget(refusal),
            LedgerError::Store(error) => Self::Ledger(error),
        }
    }
}

impl From<BreakerOpen> for LlmError {
    fn from(open: BreakerOpen) -> Self {
        Self::BreakerOpen {
            because: open.because,
            remaining: open.remaining,
        }
    }
}

fn attempts_clause(attempts: u32) -> String {
    if attempts > 1 {
        format!(" (tried {attempts} times)")
    } else {
        String::new()
    }
}
