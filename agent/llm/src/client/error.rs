//! Why there is no client, or no answer: one sentence each, which says what to do.

use std::time::Duration;

use watchkeeper_store::StoreError;

use crate::budget::Refusal;
use crate::catalogue::Unknown;
use crate::fault::{Fault, FaultKind};
use crate::ledger::LedgerError;
use crate::policy::Resting;
use crate::wire::EncodeError;

/// Settings that no client can be made of.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A provider or model that nobody knows.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// An address that is none. It is not repeated: it may hold a credential.
    #[error("the base URL of the model provider {0}")]
    BaseUrl(String),
    /// No key.
    #[error("the model provider {0} needs a key; put one into the credential or the configuration")]
    NoKey(String),
    /// The key would be readable on its way.
    #[error("the key would travel unencrypted to {0}; use https:// in the base URL")]
    PlainKey(String),
    /// The HTTP client; a fault of this installation.
    #[error(
        "the HTTP client could not be set up ({0}); check that the system's certificates are installed"
    )]
    Http(String),
}

/// Why a job has no answer. The caller decides without the model, and says so.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// The provider or the model failed, and trying again does not help or did not.
    #[error("{fault}{}", tries(*attempts))]
    Failed {
        /// The last fault.
        fault: Fault,
        /// Attempts that were made.
        attempts: u32,
    },
    /// The budget.
    #[error(transparent)]
    Budget(#[from] Refusal),
    /// The provider is left alone for a while.
    #[error("{}; it is left alone for {} min more: {}", because.what(), remaining.as_secs().div_ceil(60), because.remedy())]
    Resting {
        /// Why.
        because: FaultKind,
        /// For how much longer.
        remaining: Duration,
    },
    /// The time of the job is over.
    #[error("the model gave no answer within the {} s that the job has{}", after.as_secs(), last.as_ref().map(|f| format!(": {f}")).unwrap_or_default())]
    Deadline {
        /// Time that the job had.
        after: Duration,
        /// The last fault, if there was one.
        last: Option<Fault>,
    },
    /// The ledger can't be written.
    #[error("the ledger of model calls can't be written, so the model is not used: {0}")]
    Ledger(StoreError),
    /// The conversation can't be sent to this model.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl From<LedgerError> for LlmError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Refused(refusal) => Self::Budget(refusal),
            LedgerError::Store(error) => Self::Ledger(error),
        }
    }
}

impl From<Resting> for LlmError {
    fn from(resting: Resting) -> Self {
        Self::Resting {
            because: resting.because,
            remaining: resting.remaining,
        }
    }
}

fn tries(attempts: u32) -> String {
    if attempts > 1 {
        format!(" (tried {attempts} times)")
    } else {
        String::new()
    }
}
