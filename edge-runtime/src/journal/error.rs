//! Errors of the journal.

use std::path::PathBuf;

use watchkeeper_store::StoreError;

use super::reservation::ReservationError;

/// An operation of the journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store refuses or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file that keeps numbers from being given twice can't be written.
    #[error("{path} can't be written: {source}")]
    Reservation {
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A record or specification has values that this version does not know.
    #[error("{what} can't be read: {why}")]
    Unreadable { what: String, why: String },
}

impl From<ReservationError> for JournalError {
    fn from(error: ReservationError) -> Self {
        Self::Reservation {
            path: error.path,
            source: error.source,
        }
    }
}
