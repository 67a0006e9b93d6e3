//! Records of commands on disk.
//!
//! - Keyspace `commands`, key `<operation>/<id>`, value one version byte and JSON.
//! - A malformed record is skipped: a command answered twice is better than a box that does not
//!   start.
//! - A record of a newer version is refused. Skipping it could execute a finished command again.
//!
//! Version 1 was keyed by the id alone and kept the request of finished commands. [`restore`]
//! returns the changes that convert such records to version 2. They keep their order and precede
//! every newer record. They age from the next moment of a synchronised clock, because version 1 did
//! not record the clock's quality.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::command::{CommandRequest, CommandStatus};
use watchkeeper_store::{Batch, Entry, Keyspace, NewerFormat, Op, Store, StoreError, pages};

use super::key::{CommandId, CommandKey, OperationName};

const COMMANDS: Keyspace = Keyspace::new("commands");
const VERSION: u8 = 2;
/// Format of records that are keyed by the id alone.
const VERSION_BY_ID: u8 = 1;
const PAGE: usize = 256;

/// Record of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Request of an open command; `None` once finished. A deployment may take a quarter of a
    /// megabyte.
    pub request: Option<Box<CommandRequest>>,
    pub status: CommandStatus,
    /// Number of status changes, from 1.
    pub version: u32,
    /// Rises with every received command: the order of execution, independent of the clock.
    pub order: u64,
    /// Wall time of the last change in Unix milliseconds; decides the age of the record.
    pub changed_ms: i64,
    /// Whether the clock was synchronised then; otherwise `changed_ms` has no meaning.
    pub is_dated: bool,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Box<CommandRequest>>,
    #[serde(flatten)]
    status: CommandStatus,
    version: u32,
    order: u64,
    changed_ms: i64,
    is_dated: bool,
}

/// Version 1; its member about an unset clock is ignored.
#[derive(Deserialize)]
struct StoredById {
    request: Box<CommandRequest>,
    #[serde(flatten)]
    status: CommandStatus,
    version: u32,
    changed_ms: i64,
}

/// The ledger as restored from disk.
#[derive(Debug, Default)]
pub struct Restored {
    /// Records by key.
    pub records: BTreeMap<CommandKey, Record>,
    /// Changes that convert records of older versions, in any order.
    pub rewrites: Vec<Batch>,
}

/// Reads the ledger from the store in `folder`; writes nothing.
///
/// # Errors
/// Fails when the store is unreadable or contains a record of a newer version.
pub fn restore(store: &dyn Store, folder: &Path) -> Result<Restored, StoreError> {
    let mut restored = Restored::default();
    for page in pages(store, COMMANDS, PAGE) {
        let page = page?;
        for entry in page.entries {
            if let Some(found) = entry.value.first().filter(|v| **v > VERSION) {
                let what = format!("command {}", String::from_utf8_lossy(&entry.key));
                return Err(NewerFormat::new(folder, what, found, VERSION).into());
            }
            if let Some((key, record)) = decode(&entry) {
                restored.records.insert(key, record);
            } else if let Some((key, record)) = decode_by_id(&entry) {
                let mut batch = Batch::new().delete(COMMANDS, &entry.key);
                batch.push(store_op(&key, Some(&record)));
                restored.rewrites.push(batch);
                restored.records.insert(key, record);
            } else {
                let key = String::from_utf8_lossy(&entry.key);
                tracing::warn!(%key, "a command record is malformed and skipped");
            }
        }
    }
    Ok(restored)
}

/// Change that stores `record` under `key`, or deletes it.
#[must_use]
pub fn store_op(key: &CommandKey, record: Option<&Record>) -> Op {
    let key = key.to_string().into_bytes();
    match record {
        Some(record) => Op::Put {
            keyspace: COMMANDS,
            key,
            value: encode(record),
        },
        None => Op::Delete {
            keyspace: COMMANDS,
            key,
        },
    }
}

fn encode(record: &Record) -> Vec<u8> {
    let stored = Stored {
        request: record.request.clone(),
        status: record.status.clone(),
        version: record.version,
        order: record.order,
        changed_ms: record.changed_ms,
        is_dated: record.is_dated,
    };
    let mut out = vec![VERSION];
    // Plain data with string keys: serde_json can't fail on it.
    out.extend(serde_json::to_vec(&stored).unwrap_or_default());
    out
}

fn decode(entry: &Entry) -> Option<(CommandKey, Record)> {
    let key: CommandKey = std::str::from_utf8(&entry.key).ok()?.parse().ok()?;
    let stored: Stored = serde_json::from_slice(entry.value.strip_prefix(&[VERSION])?).ok()?;
    // An open command needs the request of its own operation to be executable.
    let is_open = !stored.status.is_terminal();
    let requested = stored.request.as_ref().map(|r| (&r.operation).into());
    if is_open && requested != Some(key.operation) {
        return None;
    }
    let record = Record {
        request: stored.request.filter(|_| is_open),
        status: stored.status,
        version: stored.version,
        order: stored.order,
        changed_ms: stored.changed_ms,
        is_dated: stored.is_dated,
    };
    Some((key, record))
}

fn decode_by_id(entry: &Entry) -> Option<(CommandKey, Record)> {
    let id = CommandId::new(String::from_utf8(entry.key.clone()).ok()?).ok()?;
    let bytes = entry.value.strip_prefix(&[VERSION_BY_ID])?;
    let stored: StoredById = serde_json::from_slice(bytes).ok()?;
    let operation = OperationName::from(&stored.request.operation);
    let is_open = !stored.status.is_terminal();
    let record = Record {
        request: is_open.then_some(stored.request),
        status: stored.status,
        version: stored.version,
        order: 0,
        changed_ms: stored.changed_ms,
        is_dated: false,
    };
    Some((CommandKey { operation, id }, record))
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use serde_json::json;
    use watchkeeper_contract::command::Operation;
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_store::MemoryStore;

    use super::*;

    fn key(text: &str) -> CommandKey {
        text.parse().expect("a key")
    }

    fn waiting(order: u64) -> Record {
        Record {
            request: Some(Box::new(CommandRequest {
                operation: Operation::Snapshot {
                    source: SourceId::new("gate").expect("name"),
                },
                expires_at: None,
            })),
            status: CommandStatus::Accepted,
            version: 1,
            order,
            changed_ms: 5,
            is_dated: true,
        }
    }

    fn failed() -> Record {
        Record {
            request: None,
            status: CommandStatus::Failed {
                reason: "no".to_owned(),
            },
            version: 3,
            ..waiting(7)
        }
    }

    #[test]
    fn malformed_record_is_skipped_and_newer_one_refused() {
        let store = MemoryStore::new();
        let mut batch = Batch::new().put(COMMANDS, b"stop/odd", &[VERSION, 1, 2]);
        batch.push(store_op(&key("snapshot/a"), Some(&waiting(3))));
        batch.push(store_op(&key("deploy/a"), Some(&failed())));
        // An open command with a request of another operation.
        batch.push(store_op(&key("stop/a"), Some(&waiting(4))));
        store.commit(batch).expect("commit");
        let folder = Path::new("/state/agent");
        let restored = restore(&store, folder).expect("restore");
        let want = [(key("snapshot/a"), waiting(3)), (key("deploy/a"), failed())];
        assert_eq!(restored.records, BTreeMap::from(want));
        assert!(restored.rewrites.is_empty());

        let newer = Batch::new().put(COMMANDS, b"stop/newer", &[VERSION + 1, 2]);
        store.commit(newer).expect("commit");
        let refused = restore(&store, folder).expect_err("a newer version wrote it");
        assert!(
            refused
                .to_string()
                .contains("command stop/newer has format 3 and this version reads up to 2"),
            "{refused}"
        );
    }

    #[test]
    fn records_keyed_by_id_are_converted_once() {
        let store = MemoryStore::new();
        let old = |status: serde_json::Value| {
            let mut record = json!({
                "request": {"op": "stop", "pipeline": "door"},
                "version": 3, "changed_ms": 5, "changed_unsynced": false,
            });
            let members = record.as_object_mut().expect("an object");
            members.extend(status.as_object().expect("an object").clone());
            [&[VERSION_BY_ID][..], record.to_string().as_bytes()].concat()
        };
        let done = old(json!({"status": "successful", "result": {"pipeline": "door"}}));
        let open = old(json!({"status": "accepted"}));
        let batch = Batch::new()
            .put(COMMANDS, b"7", &done)
            .put(COMMANDS, b"8", &open);
        store.commit(batch).expect("commit");
        let folder = Path::new("/state/agent");
        let Restored { records, rewrites } = restore(&store, folder).expect("restore");
        assert_eq!(
            records.keys().map(ToString::to_string).collect::<Vec<_>>(),
            ["stop/7", "stop/8"]
        );
        assert_eq!(records[&key("stop/7")].request, None);
        assert!(records[&key("stop/8")].request.is_some());
        for batch in rewrites {
            store.commit(batch).expect("commit");
        }
        let page = store.scan(COMMANDS, Bound::Unbounded, 9).expect("scan");
        let keys: Vec<_> = page.entries.iter().map(|e| e.key.clone()).collect();
        assert_eq!(keys, [b"stop/7".to_vec(), b"stop/8".to_vec()]);
        let again = restore(&store, folder).expect("again");
        assert_eq!(again.records, records);
        assert!(again.rewrites.is_empty());
    }
}
