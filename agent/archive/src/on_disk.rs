//! Records of the archive in its store.
//!
//! | keyspace | key | payload |
//! |---|---|---|
//! | `archive` | `collection/name` | the entry, JSON |
//! | `archive_objects` | SHA-256, 32 bytes | `+` copy to the object tier, `-` delete there |
//! | `archive_state` | `cursor` | number of the last journal record indexed |

use watchkeeper_store::{Batch, Keyspace, Op, Store, StoreError};

use crate::entry::Entry;
use crate::hash::ContentHash;
use crate::name::EntryName;

pub(crate) const ENTRIES: Keyspace = Keyspace::new("archive");
pub(crate) const OBJECTS: Keyspace = Keyspace::new("archive_objects");
const STATE: Keyspace = Keyspace::new("archive_state");
const CURSOR: &[u8] = b"cursor";

/// What the object tier has still to do with a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectTask {
    Copy,
    Delete,
}

pub(crate) fn put_entry(batch: &mut Batch, entry: &Entry) {
    // Plain data with string keys: serde_json can't fail on it.
    let value = serde_json::to_vec(entry).unwrap_or_default();
    batch.push(Op::Put {
        keyspace: ENTRIES,
        key: entry.name.as_str().as_bytes().to_vec(),
        value,
    });
}

pub(crate) fn delete_entry(batch: &mut Batch, name: &EntryName) {
    batch.push(Op::Delete {
        keyspace: ENTRIES,
        key: name.as_str().as_bytes().to_vec(),
    });
}

pub(crate) fn put_task(batch: &mut Batch, hash: &ContentHash, task: ObjectTask) {
    batch.push(Op::Put {
        keyspace: OBJECTS,
        key: hash.bytes().to_vec(),
        value: match task {
            ObjectTask::Copy => b"+".to_vec(),
            ObjectTask::Delete => b"-".to_vec(),
        },
    });
}

pub(crate) fn delete_task(batch: &mut Batch, hash: &ContentHash) {
    batch.push(Op::Delete {
        keyspace: OBJECTS,
        key: hash.bytes().to_vec(),
    });
}

pub(crate) fn read_task(key: &[u8], value: &[u8]) -> Option<(ContentHash, ObjectTask)> {
    let task = match value {
        b"+" => ObjectTask::Copy,
        b"-" => ObjectTask::Delete,
        _ => return None,
    };
    Some((ContentHash::from_bytes(key)?, task))
}

/// Reads an entry; `None` if the record is of a newer version or another name.
pub(crate) fn read_entry(key: &[u8], value: &[u8]) -> Option<Entry> {
    let entry: Entry = serde_json::from_slice(value).ok()?;
    (entry.name.as_str().as_bytes() == key).then_some(entry)
}

pub(crate) fn put_cursor(batch: &mut Batch, cursor: u64) {
    batch.push(Op::Put {
        keyspace: STATE,
        key: CURSOR.to_vec(),
        value: cursor.to_be_bytes().to_vec(),
    });
}

pub(crate) fn cursor(store: &dyn Store) -> Result<u64, StoreError> {
    let stored = store.get(STATE, CURSOR)?;
    let number = stored.and_then(|bytes| bytes.try_into().ok());
    Ok(number.map_or(0, u64::from_be_bytes))
}
