//! Records of the agent's store that count as absent where they are damaged.

use watchkeeper_store::{Keyspace, Store, StoreError, log_seq};

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
