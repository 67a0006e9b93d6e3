//! Why a store waits for its disk.

use crate::error::StoreError;

/// Why a store still waits for its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The last refusal, with its remedy.
    pub why: String,
    /// Bytes that have to be free on a full disk; `None` if the disk is read-only.
    pub needed: Option<u64>,
}

impl Waiting {
    /// The reason to wait, if `error` is one.
    pub(crate) fn of(error: &StoreError) -> Option<Self> {
        error.is_disk_refusal().then(|| Self {
            why: error.to_string(),
            needed: match error {
                StoreError::Full { needed, .. } => Some(*needed),
                _ => None,
            },
        })
    }
}
