//! Definitions of pipelines under their SHA-256, so that an older event is shown with its own.
//!
//! - The records of an event name the hash of the definition that made it: no time decides.
//! - A definition is durable before its pipeline takes a frame. Where the store refuses it, the
//!   events name none. One that is stored already costs no write, so a start waits for no disk.
//! - At most [`MAX_DEFINITIONS`] and [`MAX_BYTES`]; the one that was started longest ago is deleted
//!   first.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watchkeeper_store::{BadRecord, Batch, Keyspace, Store, StoreError};

use super::chain::Hash;
use super::error::JournalError;
use super::keyspaces::META;
use super::record::{FORMAT, check_json_format};

const TEXTS: Keyspace = Keyspace::new("pipeline_texts");
/// Key in [`META`] of the list of definitions.
const LIST: &[u8] = b"definitions";
/// Most definitions: ten pipelines, each edited once a week for a year.
const MAX_DEFINITIONS: usize = 500;
/// Most bytes of all definitions.
const MAX_BYTES: u64 = 32 << 20;

/// A stored definition.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    sha256: String,
    bytes: u64,
}

/// The list on disk, the last started one last.
#[derive(Serialize, Deserialize)]
struct ListV1 {
    format: u16,
    stored: Vec<Stored>,
}

/// The definitions of this box.
#[derive(Debug)]
pub struct Definitions {
    store: Arc<dyn Store>,
    stored: Mutex<Vec<Stored>>,
}

impl Definitions {
    /// Reads the list; a damaged one counts as empty. `newer` makes the error about the format of a
    /// newer version.
    pub(super) fn open(
        store: Arc<dyn Store>,
        newer: &dyn Fn(&str, u16) -> JournalError,
    ) -> Result<Self, JournalError> {
        let bytes = match store.get(META, LIST) {
            Ok(bytes) => bytes,
            Err(StoreError::Corrupt { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let stored = match bytes.as_deref().map(decode) {
            None => Vec::new(),
            Some(Ok(stored)) => stored,
            Some(Err(BadRecord::Newer(found))) => {
                return Err(newer("the list of definitions", found));
            }
            Some(Err(BadRecord::Damaged(why))) => {
                tracing::warn!(why, "the list of definitions of pipelines is damaged");
                Vec::new()
            }
        };
        let stored = Mutex::new(stored);
        Ok(Self { store, stored })
    }

    /// Stores a definition and returns its hash; durable on return.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn add(&self, text: &str) -> Result<String, JournalError> {
        let sha256 = Hash::of(text.as_bytes()).to_string();
        let mut stored = self.stored.lock();
        let mut list = stored.clone();
        list.retain(|one| one.sha256 != sha256);
        let is_stored = list.len() < stored.len() && matches!(self.get(&sha256), Ok(Some(_)));
        list.push(Stored {
            sha256: sha256.clone(),
            bytes: text.len() as u64,
        });
        if is_stored {
            // The next new definition stores the order.
            *stored = list;
            return Ok(sha256);
        }
        let mut batch = Batch::new().put(TEXTS, sha256.as_bytes(), text.as_bytes());
        let is_over = |list: &[Stored]| {
            let bytes: u64 = list.iter().map(|one| one.bytes).sum();
            list.len() > MAX_DEFINITIONS || (list.len() > 1 && bytes > MAX_BYTES)
        };
        while is_over(&list) {
            batch = batch.delete(TEXTS, list.remove(0).sha256.as_bytes());
        }
        let record = ListV1 {
            format: FORMAT,
            stored: list,
        };
        // Text and numbers always have a JSON form.
        let value = serde_json::to_vec(&record).unwrap_or_default();
        self.store.commit(batch.put(META, LIST, &value))?;
        *stored = record.stored;
        Ok(sha256)
    }

    /// The definition of this hash; `None` if it is not stored, or damaged.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn get(&self, sha256: &str) -> Result<Option<String>, JournalError> {
        let text = self.store.get(TEXTS, sha256.as_bytes())?;
        let text = text.and_then(|text| String::from_utf8(text).ok());
        Ok(text.filter(|text| Hash::of(text.as_bytes()).to_string() == sha256))
    }
}

fn decode(bytes: &[u8]) -> Result<Vec<Stored>, BadRecord> {
    check_json_format(bytes, FORMAT)?;
    let list: ListV1 =
        serde_json::from_slice(bytes).map_err(|error| BadRecord::Damaged(error.to_string()))?;
    Ok(list.stored)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use watchkeeper_store::{FaultyStore, MAX_VALUE_BYTES, MemoryStore};

    use super::*;

    type Disk = Arc<FaultyStore<MemoryStore>>;

    fn disk() -> Disk {
        Arc::new(FaultyStore::new(MemoryStore::new()))
    }

    fn open(store: &Disk) -> Definitions {
        let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
        Definitions::open(store, &|_, _| unreachable!()).unwrap()
    }

    #[test]
    fn definition_is_found_by_its_hash_after_a_restart() {
        let store = disk();
        let definitions = open(&store);
        let [a, b] = ["a", "b"].map(|text| definitions.add(text).unwrap());
        assert_eq!(definitions.add("a").unwrap(), a);
        for definitions in [definitions, open(&store)] {
            assert_eq!(definitions.get(&a).unwrap().as_deref(), Some("a"));
            assert_eq!(definitions.get(&b).unwrap().as_deref(), Some("b"));
            assert_eq!(definitions.get("ab").unwrap(), None);
        }
    }

    #[test]
    fn refused_definition_has_no_hash_and_is_stored_later() {
        let store = disk();
        let definitions = open(&store);
        store.writes.blow_at(1);
        assert!(definitions.add("a").is_err());
        store.writes.repair();
        let a = definitions.add("a").unwrap();
        assert_eq!(open(&store).get(&a).unwrap().as_deref(), Some("a"));
    }

    #[test]
    fn damaged_definition_is_missing() {
        let store = disk();
        let definitions = open(&store);
        let a = definitions.add("a").unwrap();
        let damage = Batch::new().put(TEXTS, a.as_bytes(), b"b");
        store.commit(damage).unwrap();
        assert_eq!(definitions.get(&a).unwrap(), None);
        let damage = Batch::new().put(META, LIST, b"{\"format\":1}");
        store.commit(damage).unwrap();
        assert!(open(&store).stored.lock().is_empty());
    }

    #[test]
    fn longest_unused_definition_is_deleted_first() {
        let store = disk();
        let definitions = open(&store);
        let number = |n: usize| definitions.add(&n.to_string()).unwrap();
        let hashes: Vec<String> = (0..MAX_DEFINITIONS).map(number).collect();
        let again = number(0);
        number(MAX_DEFINITIONS);
        assert_eq!(definitions.get(&again).unwrap().as_deref(), Some("0"));
        assert_eq!(definitions.get(&hashes[1]).unwrap(), None);
        // Six of the largest are over the limit of bytes, five are not.
        let large = "x".repeat(MAX_VALUE_BYTES - 1);
        for n in 1..=6 {
            definitions.add(&format!("{n}{large}")).unwrap();
        }
        assert_eq!(open(&store).stored.lock().len(), 5);
    }
}
