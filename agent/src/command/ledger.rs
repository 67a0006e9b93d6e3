//! The stored form of the command ledger, apart from the live one.
//!
//! Keyspace `commands`, key: the command's id. A value is one version byte and JSON. A record that makes no sense is
//! passed over: better a command that is answered anew than a box that does not start. One that a newer version wrote
//! is no such thing: it is refused, or a command that was carried out would be carried out again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::command::{CommandRequest, CommandStatus};
use watchkeeper_store::{Keyspace, NewerFormat, Op, Store, StoreError};

const COMMANDS: Keyspace = Keyspace::new("commands");
const VERSION: u8 = 1;
const PAGE: usize = 256;

/// What is known about one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was asked for.
    pub request: CommandRequest,
    /// Where it stands.
    #[serde(flatten)]
    pub status: CommandStatus,
    /// Counts the status changes from 1.
    pub version: u32,
    /// Wall time of the last change, in milliseconds since 1970: decides how long it is remembered.
    pub changed_ms: i64,
    /// Whether the clock had never been set then, so that `changed_ms` says nothing.
    #[serde(default)]
    pub changed_unsynced: bool,
}

/// Reads the ledger back from the store in `folder`.
///
/// # Errors
/// When the store can't be read, or holds a record of a newer version.
pub fn restore(store: &dyn Store, folder: &Path) -> Result<BTreeMap<String, Record>, StoreError> {
    let mut records = BTreeMap::new();
    let mut from: Option<Vec<u8>> = None;
    loop {
        let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let page = store.scan(COMMANDS, bound, PAGE)?;
        let full = page.entries.len() + page.corrupt.len() == PAGE;
        let last_sound = page.entries.last().map(|entry| entry.key.clone());
        let last_corrupt = page.corrupt.last().map(|record| record.key.clone());
        for entry in page.entries {
            if let Some(found) = entry.value.first().filter(|v| **v > VERSION) {
                let what = format!("command {}", String::from_utf8_lossy(&entry.key));
                return Err(NewerFormat::new(folder, what, found, VERSION).into());
            }
            match (String::from_utf8(entry.key), decode(&entry.value)) {
                (Ok(id), Some(record)) => {
                    records.insert(id, record);
                }
                (id, _) => tracing::warn!(?id, "command record can't be read and is passed over"),
            }
        }
        if !full {
            return Ok(records);
        }
        from = last_sound.max(last_corrupt);
    }
}

/// The change that makes the ledger say `record` about `id`, or nothing any more.
#[must_use]
pub fn rider(id: &str, record: Option<&Record>) -> Op {
    let key = id.as_bytes().to_vec();
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
    let mut out = vec![VERSION];
    // Plain data with string keys: serde_json can't fail on it.
    out.extend(serde_json::to_vec(record).unwrap_or_default());
    out
}

fn decode(bytes: &[u8]) -> Option<Record> {
    let rest = bytes.strip_prefix(&[VERSION])?;
    serde_json::from_slice(rest).ok()
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::command::Operation;
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_store::{Batch, MemoryStore};

    use super::*;

    #[test]
    fn what_is_written_is_restored_nonsense_is_passed_over_and_a_newer_version_is_refused() {
        let store = MemoryStore::new();
        let record = Record {
            request: CommandRequest {
                operation: Operation::Snapshot {
                    source: SourceId::new("gate").expect("name"),
                },
                expires_at: None,
            },
            status: CommandStatus::Failed {
                reason: "no".to_owned(),
            },
            version: 3,
            changed_ms: 5,
            changed_unsynced: false,
        };
        let mut batch = Batch::new().put(COMMANDS, b"odd", &[VERSION, 1, 2]);
        batch.push(rider("a", Some(&record)));
        store.commit(batch).expect("commit");
        let folder = Path::new("/state/agent");
        let restored = restore(&store, folder).expect("restore");
        assert_eq!(restored, BTreeMap::from([("a".to_owned(), record)]));

        let newer = Batch::new().put(COMMANDS, b"newer", &[VERSION + 1, 2]);
        store.commit(newer).expect("commit");
        let refused = restore(&store, folder).expect_err("a newer version wrote it");
        assert!(
            refused
                .to_string()
                .contains("command newer has format 2 and this version reads up to 1"),
            "{refused}"
        );
    }
}
