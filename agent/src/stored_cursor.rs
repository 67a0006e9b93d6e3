//! Records of the agent's store that count as absent where they are damaged.
//!
//! Not here: what is stored with a cursor, and when.

use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{Keyspace, Op, Store, StoreError, log_key, log_seq};

const REACHED: &[u8] = b"reached";

/// A cursor in the journal as the only record of a keyspace, a log key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredCursor(pub Keyspace);

impl StoredCursor {
    pub(crate) fn read(self, store: &dyn Store) -> Result<Option<EventSeq>, StoreError> {
        Ok(read_number(store, self.0, REACHED)?.map(EventSeq))
    }

    /// The operation that stores the cursor.
    #[must_use]
    pub(crate) fn op(self, cursor: EventSeq) -> Op {
        Op::put(self.0, REACHED, log_key(cursor.0))
    }
}

/// Reads a record that is a log key; `None` if it is absent or damaged.
pub(crate) fn read_number(
    store: &dyn Store,
    keyspace: Keyspace,
    key: &[u8],
) -> Result<Option<u64>, StoreError> {
    let value = read_sound(store, keyspace, key)?;
    Ok(value.as_deref().and_then(log_seq))
}

/// Reads a record; `None` if it is absent or damaged.
pub(crate) fn read_sound(
    store: &dyn Store,
    keyspace: Keyspace,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    match store.get(keyspace, key) {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        read => read,
    }
}
