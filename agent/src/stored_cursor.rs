//! A cursor in the journal as the only record of a keyspace, a log key.
//!
//! Not here: what is stored with it, and when.

use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{Keyspace, Op, Store, StoreError, log_key, log_seq};

const REACHED: &[u8] = b"reached";

/// The keyspace of a cursor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredCursor(pub Keyspace);

impl StoredCursor {
    /// Reads the cursor; `None` if none is stored or the record is damaged.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn read(self, store: &dyn Store) -> Result<Option<EventSeq>, StoreError> {
        match store.get(self.0, REACHED) {
            Ok(value) => Ok(value.as_deref().and_then(log_seq).map(EventSeq)),
            Err(StoreError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The operation that stores the cursor.
    #[must_use]
    pub(crate) fn op(self, cursor: EventSeq) -> Op {
        Op::put(self.0, REACHED, log_key(cursor.0))
    }
}
