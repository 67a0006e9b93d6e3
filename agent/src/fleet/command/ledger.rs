//! Records of commands on disk.
//!
//! - Keyspace `commands`, key `<operation>/<id>`, value one version byte and JSON.
//! - A malformed record is skipped: a command answered twice is better than a box that does not
//!   start.
//! - A record of a newer version is refused. Skipping it could execute a finished command again.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::command::{CommandRequest, CommandStatus};
use watchkeeper_store::{JsonRecords, Keyspace, Op, Store, StoreError};

use super::key::CommandKey;

const COMMANDS: JsonRecords = JsonRecords::new(Keyspace::new("commands"), 2, "command");

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Request of an open command; `None` once finished. A deployment may take a quarter of a
    /// megabyte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<CommandRequest>>,
    #[serde(flatten)]
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

impl Record {
    /// Whether the record fits its key: an open command needs the request of its own operation to
    /// be executable.
    fn is_of(&self, key: &CommandKey) -> bool {
        let requested = self.request.as_ref().map(|r| (&r.operation).into());
        self.status.is_terminal() || requested == Some(key.operation)
    }
}

/// Reads the ledger from the store in `folder`; writes nothing.
///
/// # Errors
/// Fails when the store is unreadable or contains a record of a newer version.
pub fn restore(
    store: &dyn Store,
    folder: &Path,
) -> Result<BTreeMap<CommandKey, Record>, StoreError> {
    let mut records = BTreeMap::new();
    COMMANDS.for_each(store, folder, |key, record: Option<Record>| {
        let text = String::from_utf8_lossy(&key);
        let parsed = text.parse().ok().zip(record);
        match parsed.filter(|(key, record)| record.is_of(key)) {
            Some((key, record)) => drop(records.insert(key, record)),
            None => tracing::warn!(key = %text, "a command record is malformed and skipped"),
        }
    })?;
    Ok(records)
}

/// Change that stores `record` under `key`, or deletes it.
pub fn store_op(key: &CommandKey, record: Option<&Record>) -> Op {
    match record {
        Some(record) => COMMANDS.put(key.to_string(), record),
        None => COMMANDS.delete(key.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_contract::command::Operation;
    use watchkeeper_contract::id::SourceId;
    use watchkeeper_store::{Batch, MemoryStore};

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
        let mut batch = Batch::new().put(Keyspace::new("commands"), b"stop/odd", &[2, 1, 2]);
        batch.push(store_op(&key("snapshot/a"), Some(&waiting(3))));
        batch.push(store_op(&key("deploy/a"), Some(&failed())));
        // An open command with a request of another operation.
        batch.push(store_op(&key("stop/a"), Some(&waiting(4))));
        store.commit(batch).expect("commit");
        let folder = Path::new("/state/agent");
        let restored = restore(&store, folder).expect("restore");
        let want = [(key("snapshot/a"), waiting(3)), (key("deploy/a"), failed())];
        assert_eq!(restored, BTreeMap::from(want));

        let newer = Batch::new().put(Keyspace::new("commands"), b"stop/newer", &[3, 2]);
        store.commit(newer).expect("commit");
        let refused = restore(&store, folder).expect_err("a newer version wrote it");
        assert!(
            refused
                .to_string()
                .contains("command stop/newer has format 3 and this version reads up to 2"),
            "{refused}"
        );
    }
}
