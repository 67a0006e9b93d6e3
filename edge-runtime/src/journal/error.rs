//! Errors of the journal.

use watchkeeper_store::StoreError;

use super::reservation::ReservationError;

/// An operation of the journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store refuses or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file that keeps numbers from being given twice can't be read or written.
    #[error(transparent)]
    Reservation(#[from] ReservationError),
    /// A record or specification has values that this version does not know.
    #[error("{what} can't be read: {why}")]
    Unreadable { what: String, why: String },
}
