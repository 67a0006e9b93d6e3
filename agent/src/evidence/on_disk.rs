//! Stored form of chains.
//!
//! - Keyspace `chains_mark`, key `reached`: the cursor in the journal as a log key.
//! - Keyspace `chains`, key: the event's id, value: a version byte and JSON.
//!
//! Invariants:
//! - A damaged record is skipped and logged: its event stays in the review queue.
//! - A record of a newer version fails the start and stays untouched.

use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_evidence::chain::Chain;
use watchkeeper_store::{Keyspace, NewerFormat, Op, Store, StoreError, pages};

use crate::stored_cursor;

const CHAINS: Keyspace = Keyspace::new("chains");
const MARK: Keyspace = Keyspace::new("chains_mark");
const VERSION: u8 = 1;
const PAGE: usize = 64;

/// The chain of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredChain {
    /// Record that began the event.
    pub event: Event,
    pub chain: Chain,
}

/// Reads the cursor; `None` if none is stored or the record is damaged.
///
/// # Errors
/// When the store fails.
pub fn stored_cursor(store: &dyn Store) -> Result<Option<EventSeq>, StoreError> {
    stored_cursor::read(store, MARK)
}

/// The operation that stores the cursor.
#[must_use]
pub fn cursor_op(cursor: EventSeq) -> Op {
    stored_cursor::op(MARK, cursor)
}

/// The operation that stores a chain.
#[must_use]
pub fn save_op(stored: &StoredChain) -> Op {
    let mut value = vec![VERSION];
    // Plain data with string keys and finite numbers: serde_json can't fail on it.
    value.extend(serde_json::to_vec(stored).unwrap_or_default());
    Op::Put {
        keyspace: CHAINS,
        key: key(stored.event.id),
        value,
    }
}

/// The operation that deletes the chain of an event.
#[must_use]
pub fn delete_op(id: EventId) -> Op {
    Op::Delete {
        keyspace: CHAINS,
        key: key(id),
    }
}

/// Reads the chains from the store in `folder`, ordered by their events.
///
/// # Errors
/// When the store fails, or holds a record of a newer version.
pub fn restore(store: &dyn Store, folder: &Path) -> Result<Vec<StoredChain>, StoreError> {
    let mut restored = Vec::new();
    for page in pages(store, CHAINS, PAGE) {
        for entry in page?.entries {
            let key = String::from_utf8_lossy(&entry.key).into_owned();
            if let Some(found) = entry.value.first().filter(|v| **v > VERSION) {
                let what = format!("chain {key}");
                return Err(NewerFormat::new(folder, what, found, VERSION).into());
            }
            let json = entry.value.strip_prefix(&[VERSION]);
            match json.and_then(|json| serde_json::from_slice(json).ok()) {
                Some(stored) => restored.push(stored),
                None => tracing::warn!(key, "chains: skipped an unreadable record"),
            }
        }
    }
    Ok(restored)
}

fn key(id: EventId) -> Vec<u8> {
    id.to_string().into_bytes()
}
