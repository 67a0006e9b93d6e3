//! Verifies the hash chain; used by `watchkeeper events verify`.

use super::chain::{Hash, link};
use super::record::StoredEvent;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "event {seq} does not follow from its predecessor: expected hash {expected}, found {found}"
)]
pub struct ChainError {
    pub seq: u64,
    /// The hash that follows from the content and the predecessor.
    pub expected: Hash,
    /// The hash in the record.
    pub found: Hash,
}

/// Checks consecutive records. `before` is the hash of the record before the first one; without it
/// the first hash is trusted.
///
/// # Errors
/// [`ChainError`] at the first record whose hash does not follow.
pub fn verify(before: Option<Hash>, events: &[StoredEvent]) -> Result<(), ChainError> {
    let mut previous = before;
    for event in events {
        if let Some(previous) = previous {
            let expected = link(&previous, event.canonical());
            if expected != event.hash() {
                return Err(ChainError {
                    seq: event.seq.0,
                    expected,
                    found: event.hash(),
                });
            }
        }
        previous = Some(event.hash());
    }
    Ok(())
}
