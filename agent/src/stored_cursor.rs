//! A cursor in the journal as the only record of a keyspace, a log key.
//!
//! Not here: what is stored beside it, and when.

use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{Keyspace, Op, Store, StoreError, log_key, log_seq};

const REACHED: &[u8] = b"reached";

/// Reads the cursor; `None` if none is stored or the record is damaged.
///
/// # Errors
/// When the store fails.
pub(crate) fn read(store: &dyn Store, mark: Keyspace) -> Result<Option<EventSeq>, StoreError> {
    match store.get(mark, REACHED) {
        Ok(value) => Ok(value.as_deref().and_then(log_seq).map(EventSeq)),
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The operation that stores the cursor.
pub(crate) fn op(mark: Keyspace, cursor: EventSeq) -> Op {
    Op::Put {
        keyspace: mark,
        key: REACHED.to_vec(),
        value: log_key(cursor.0).to_vec(),
    }
}
