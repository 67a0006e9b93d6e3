//! The stored form of the command ledger, apart from the live one.
//!
//! Keyspace `commands`, key: `<operation>/<id>`. A value is one version byte and JSON. A record that makes no sense is
//! passed over: better a command that is answered anew than a box that does not start. One that a newer version wrote
//! is no such thing: it is refused, or a command that was carried out would be carried out again.
//!
//! Version 1 was keyed by the id alone and kept the request of finished commands. [`restore`] gives the changes that make
//! such records version 2; they keep their order among themselves, stand before every newer one, and age from the next time at which
//! the clock is vouched for, because version 1 did not tell a clock that runs free from one that is synchronised.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::command::{CommandRequest, CommandStatus};
use watchkeeper_store::{Batch, Entry, Keyspace, NewerFormat, Op, Store, StoreError, pages};

use super::key::{CommandId, CommandKey, OperationName};

const COMMANDS: Keyspace = Keyspace::new("commands");
const VERSION: u8 = 2;
/// Keyed by the id alone.
const VERSION_BY_ID: u8 = 1;
const PAGE: usize = 256;

/// What is known about one command.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What was asked for, as long as it is not finished: then only its name and its end are of use, and a deployment may be
    /// a quarter of a megabyte.
    pub request: Option<Box<CommandRequest>>,
    /// Where it stands.
    pub status: CommandStatus,
    /// Counts the status changes from 1.
    pub version: u32,
    /// Rises with every command that is taken in; the order in which they run, whatever the clock said.
    pub order: u64,
    /// Wall time of the last change, in milliseconds since 1970: decides how long it is remembered.
    pub changed_ms: i64,
    /// Whether a time source vouched for the clock then; otherwise `changed_ms` says nothing.
    pub is_dated: bool,
}

/// Version 2.
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

/// Version 1; it also told whether the clock had never been set.
#[derive(Deserialize)]
struct StoredById {
    request: Box<CommandRequest>,
    #[serde(flatten)]
    status: CommandStatus,
    version: u32,
    changed_ms: i64,
}

/// The ledger as it was stored.
#[derive(Debug, Default)]
pub struct Restored {
    /// What is known.
    pub records: BTreeMap<CommandKey, Record>,
    /// Changes that bring records of older builds into the present form, to be written in any order.
    pub rewrites: Vec<Batch>,
}

/// Reads the ledger back from the store in `folder`; writes nothing.
///
/// # Errors
/// When the store can't be read, or holds a record of a newer version.
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
                batch.push(rider(&key, Some(&record)));
                restored.rewrites.push(batch);
                restored.records.insert(key, record);
            } else {
                let key = String::from_utf8_lossy(&entry.key);
                tracing::warn!(%key, "command record can't be read and is passed over");
            }
        }
    }
    Ok(restored)
}

/// The change that makes the ledger say `record` about `key`, or nothing any more.
#[must_use]
pub fn rider(key: &CommandKey, record: Option<&Record>) -> Op {
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
    // An open command without its request, or with that of another operation, is none that could be carried out.
    let is_open = !stored.status.is_terminal();
    let asked = stored.request.as_ref().map(|r| (&r.operation).into());
    if is_open && asked != Some(key.operation) {
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
    fn what_is_written_is_restored_nonsense_is_passed_over_and_a_newer_version_is_refused() {
        let store = MemoryStore::new();
        let mut batch = Batch::new().put(COMMANDS, b"stop/odd", &[VERSION, 1, 2]);
        batch.push(rider(&key("snapshot/a"), Some(&waiting(3))));
        batch.push(rider(&key("deploy/a"), Some(&failed())));
        // An open one that asks for something else than its name says.
        batch.push(rider(&key("stop/a"), Some(&waiting(4))));
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
    fn a_ledger_keyed_by_the_id_alone_is_taken_over_once() {
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
