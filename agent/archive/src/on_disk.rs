//! Records of the archive in its store.
//!
//! | keyspace | key | payload |
//! |---|---|---|
//! | `archive` | `collection/name` | the entry, JSON |
//! | `archive_objects` | SHA-256, 32 bytes | `+` copy to the object tier, `-` delete there |
//! | `archive_embeddings` | SHA-256, 32 bytes | a line of JSON, then an embedding |
//! | `archive_state` | `cursor` | number of the last journal record indexed |
//! | `archive_state` | `complete` | empty; there while the records name every file |
//! | `archive_state` | `objects` | the place whose object tier has all contents or tasks for them |

use watchkeeper_store::{Batch, Keyspace, Op, Store, StoreError};

use crate::ContentHash;
use crate::entry::Entry;
use crate::name::EntryName;

pub(crate) const ENTRIES: Keyspace = Keyspace::new("archive");
pub(crate) const OBJECTS: Keyspace = Keyspace::new("archive_objects");
pub(crate) const EMBEDDINGS: Keyspace = Keyspace::new("archive_embeddings");
const STATE: Keyspace = Keyspace::new("archive_state");
const CURSOR: &[u8] = b"cursor";
const COMPLETE: &[u8] = b"complete";
const OBJECT_PLACE: &[u8] = b"objects";

/// Pending task of the object tier for one content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectTask {
    Copy,
    Delete,
}

/// Adds a change that sets `key` to `value`, or removes it.
fn change(batch: &mut Batch, keyspace: Keyspace, key: &[u8], value: Option<Vec<u8>>) {
    batch.push(match value {
        Some(value) => Op::put(keyspace, key, value),
        None => Op::delete(keyspace, key),
    });
}

pub(crate) fn put_entry(batch: &mut Batch, entry: &Entry) {
    // Plain data with string keys: serde_json can't fail on it.
    let value = serde_json::to_vec(entry).unwrap_or_default();
    change(batch, ENTRIES, entry.name.as_str().as_bytes(), Some(value));
}

pub(crate) fn delete_entry(batch: &mut Batch, name: &EntryName) {
    change(batch, ENTRIES, name.as_str().as_bytes(), None);
}

pub(crate) fn put_task(batch: &mut Batch, hash: &ContentHash, task: ObjectTask) {
    let value = match task {
        ObjectTask::Copy => b"+".to_vec(),
        ObjectTask::Delete => b"-".to_vec(),
    };
    change(batch, OBJECTS, &hash.0, Some(value));
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
    let entry = serde_json::from_slice(value).or_else(|_| read_with_embedding(value));
    let entry: Entry = entry.ok()?;
    (entry.name.as_str().as_bytes() == key).then_some(entry)
}

/// Reads an entry whose metadata has an embedding, as ingests could bring one before.
fn read_with_embedding(value: &[u8]) -> serde_json::Result<Entry> {
    let mut value: serde_json::Value = serde_json::from_slice(value)?;
    let metadata = value.get_mut("metadata");
    if let Some(metadata) = metadata.and_then(serde_json::Value::as_object_mut) {
        metadata.remove("embedding");
    }
    serde_json::from_value(value)
}

pub(crate) fn put_cursor(batch: &mut Batch, cursor: u64) {
    let cursor = cursor.to_be_bytes().to_vec();
    change(batch, STATE, CURSOR, Some(cursor));
}

pub(crate) fn cursor(store: &dyn Store) -> Result<u64, StoreError> {
    let stored = store.get(STATE, CURSOR)?;
    let number = stored.and_then(|bytes| bytes.try_into().ok());
    Ok(number.map_or(0, u64::from_be_bytes))
}

/// Records whether a file without an entry may be deleted.
pub(crate) fn put_complete(batch: &mut Batch, is_complete: bool) {
    change(batch, STATE, COMPLETE, is_complete.then(Vec::new));
}

pub(crate) fn is_complete(store: &dyn Store) -> Result<bool, StoreError> {
    Ok(store.get(STATE, COMPLETE)?.is_some())
}

/// Records the place of the object tier; `None` if there is none.
pub(crate) fn put_object_place(batch: &mut Batch, place: Option<&str>) {
    let place = place.map(|place| place.as_bytes().to_vec());
    change(batch, STATE, OBJECT_PLACE, place);
}

/// Reads the place of the object tier; `None` if there was none.
pub(crate) fn object_place(store: &dyn Store) -> Result<Option<String>, StoreError> {
    let stored = store.get(STATE, OBJECT_PLACE)?;
    Ok(stored.and_then(|place| String::from_utf8(place).ok()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn record_with_an_ingested_embedding_is_read_without_it() {
        let record = |metadata: serde_json::Value| {
            json!({
                "name": "yard/a.jpg", "number": 1, "archived": "2026-11-25T12:00:00Z", "bytes": 1,
                "sha256": "00".repeat(32), "content_type": "image/jpeg", "content": "stored",
                "retention": "normal", "metadata": metadata,
            })
            .to_string()
        };
        let read = |record: String| read_entry(b"yard/a.jpg", record.as_bytes());
        let known = json!({"class": "car", "embedding": [0.5, 1.0]});
        let entry = read(record(known)).unwrap();
        assert_eq!(Some(entry), read(record(json!({"class": "car"}))));
        assert_eq!(read(record(json!({"unknown": 1}))), None);
    }
}
