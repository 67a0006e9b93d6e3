//! The stored form of the heartbeat's state.
//!
//! Keyspace `heartbeat`, one record: a version byte and JSON. A damaged record is skipped: a
//! finding reported twice is better than a box that does not start. A record of a newer version
//! fails the start.

use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{JsonRecords, Keyspace, Op, Store, StoreError};

use super::State;

const HEARTBEAT: JsonRecords = JsonRecords::new(Keyspace::new("heartbeat"), 2, "heartbeat");
const KEY: &[u8] = b"state";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredHeartbeat {
    /// Time of the last check.
    pub at: Wall,
    pub state: State,
}

/// The operation that stores the record.
pub(crate) fn save_op(kept: &StoredHeartbeat) -> Op {
    HEARTBEAT.put(KEY, kept)
}

/// Reads the record back from the store in `folder`.
///
/// # Errors
/// When the store fails, or holds a record of a newer version.
pub fn restore(store: &dyn Store, folder: &Path) -> Result<Option<StoredHeartbeat>, StoreError> {
    let stored = HEARTBEAT.get(store, folder, KEY)?;
    if stored == Some(None) {
        tracing::warn!("heartbeat: the stored state is unreadable; starting from zero");
    }
    Ok(stored.flatten())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_contract::time::TimeQuality;
    use watchkeeper_store::{Batch, MemoryStore};

    use super::*;

    fn write(store: &MemoryStore, op: Op) {
        store.commit(Batch::from_iter([op])).unwrap();
    }

    #[test]
    fn state_restores_nonsense_is_skipped_newer_version_fails() {
        let (store, folder) = (MemoryStore::new(), Path::new("/state"));
        assert_eq!(restore(&store, folder).unwrap(), None);
        let mut state = State::default();
        state.looked = SourceId::new("gate").ok();
        let at = Wall {
            unix_ms: 5,
            quality: TimeQuality::Synced,
        };
        let kept = StoredHeartbeat { at, state };
        write(&store, save_op(&kept));
        assert_eq!(restore(&store, folder).unwrap(), Some(kept));
        let put = |value: &[u8]| Op::put(Keyspace::new("heartbeat"), KEY, value);
        for nonsense in [&b""[..], b"\x02", b"\x02{}", b"\x01{}"] {
            write(&store, put(nonsense));
            assert_eq!(restore(&store, folder).unwrap(), None);
        }
        write(&store, put(b"\x03{}"));
        assert!(restore(&store, folder).is_err());
    }
}
