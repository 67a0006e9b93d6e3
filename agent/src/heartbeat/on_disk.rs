//! The stored form of the heartbeat's state.
//!
//! Keyspace `heartbeat`, one record: a version byte and JSON. A damaged record is skipped: a
//! finding reported twice is better than a box that does not start. A record of a newer version
//! fails the start.

use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{Keyspace, NewerFormat, Op, Store, StoreError};

use super::State;

const HEARTBEAT: Keyspace = Keyspace::new("heartbeat");
const KEY: &[u8] = b"state";
const VERSION: u8 = 1;

/// The stored record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredHeartbeat {
    /// Time of the last check.
    pub at: Wall,
    pub state: State,
}

/// The operation that stores the record.
#[must_use]
pub fn save_op(kept: &StoredHeartbeat) -> Op {
    let mut value = vec![VERSION];
    // Plain data with string keys: serde_json can't fail on it.
    value.extend(serde_json::to_vec(kept).unwrap_or_default());
    Op::Put {
        keyspace: HEARTBEAT,
        key: KEY.to_vec(),
        value,
    }
}

/// Reads the record back from the store in `folder`.
///
/// # Errors
/// When the store fails, or holds a record of a newer version.
pub fn restore(store: &dyn Store, folder: &Path) -> Result<Option<StoredHeartbeat>, StoreError> {
    let value = match store.get(HEARTBEAT, KEY) {
        Ok(Some(value)) => value,
        Ok(None) => return Ok(None),
        Err(StoreError::Corrupt { .. }) => {
            tracing::warn!("heartbeat: the stored state is damaged; starting from zero");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if let Some(found) = value.first().filter(|v| **v > VERSION) {
        return Err(NewerFormat::new(folder, "the heartbeat's state", found, VERSION).into());
    }
    let json = value.strip_prefix(&[VERSION]);
    let kept = json.and_then(|json| serde_json::from_slice(json).ok());
    if kept.is_none() {
        tracing::warn!("heartbeat: the stored state is unreadable; starting from zero");
    }
    Ok(kept)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::id::EventSeq;
    use watchkeeper_contract::time::TimeQuality;
    use watchkeeper_store::{Batch, MemoryStore};

    use super::*;

    fn write(store: &MemoryStore, op: Op) {
        let mut batch = Batch::new();
        batch.push(op);
        store.commit(batch).unwrap();
    }

    #[test]
    fn state_restores_nonsense_is_skipped_newer_version_fails() {
        let (store, folder) = (MemoryStore::new(), Path::new("/state"));
        assert_eq!(restore(&store, folder).unwrap(), None);
        let mut state = State::default();
        state.cursor = Some(EventSeq(9));
        let at = Wall {
            unix_ms: 5,
            quality: TimeQuality::Synced,
        };
        let kept = StoredHeartbeat { at, state };
        write(&store, save_op(&kept));
        assert_eq!(restore(&store, folder).unwrap(), Some(kept));
        let put = |value: &[u8]| Op::Put {
            keyspace: HEARTBEAT,
            key: KEY.to_vec(),
            value: value.to_vec(),
        };
        for nonsense in [&b""[..], b"\x01", b"\x01{}", b"\x00{}"] {
            write(&store, put(nonsense));
            assert_eq!(restore(&store, folder).unwrap(), None);
        }
        write(&store, put(b"\x02{}"));
        assert!(restore(&store, folder).is_err());
    }
}
