//! Stored form of the queue, separate from the live one.
//!
//! - Keyspace `opinions_mark`, key `reached`: the journal tail's cursor as a log key.
//! - Keyspace `opinions`, key: the event's id, value: a version byte and JSON.
//!
//! Invariants:
//! - A damaged record is skipped: better an event without an opinion than a failed start.
//! - A record of a newer version fails the start and stays untouched.

use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_store::{Keyspace, NewerFormat, Op, Store, StoreError, pages};

use super::Case;
use super::queue::Progress;
use crate::stored_cursor;

const OPINIONS: Keyspace = Keyspace::new("opinions");
const MARK: Keyspace = Keyspace::new("opinions_mark");
const VERSION: u8 = 1;
const PAGE: usize = 64;

#[derive(Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
enum Stored {
    Waiting { case: Box<Case> },
    Asked { case: Box<Case> },
    Done,
}

/// Reads the cursor of the journal's tail; `None` if none is stored or the record is damaged.
///
/// # Errors
/// When the store fails.
pub fn stored_cursor(store: &dyn Store) -> Result<Option<EventSeq>, StoreError> {
    stored_cursor::read(store, MARK)
}

/// The operation that stores the tail's cursor.
#[must_use]
pub fn cursor_op(cursor: EventSeq) -> Op {
    stored_cursor::op(MARK, cursor)
}

/// The operation that stores the progress of an event; `None` deletes it.
#[must_use]
pub fn save_op(id: EventId, kept: Option<Progress>) -> Op {
    let key = id.to_string().into_bytes();
    let stored = match kept {
        Some(Progress::Waiting(case)) => Stored::Waiting { case },
        Some(Progress::Asked(case)) => Stored::Asked { case },
        Some(Progress::Done) => Stored::Done,
        None => {
            return Op::Delete {
                keyspace: OPINIONS,
                key,
            };
        }
    };
    let mut value = vec![VERSION];
    // Plain data with string keys: serde_json can't fail on it.
    value.extend(serde_json::to_vec(&stored).unwrap_or_default());
    Op::Put {
        keyspace: OPINIONS,
        key,
        value,
    }
}

/// Reads the events back from the store in `folder`, ordered by their start.
///
/// # Errors
/// When the store fails, or holds a record of a newer version.
pub fn restore(store: &dyn Store, folder: &Path) -> Result<Vec<(EventId, Progress)>, StoreError> {
    let mut restored = Vec::new();
    for page in pages(store, OPINIONS, PAGE) {
        let page = page?;
        for entry in page.entries {
            let key = String::from_utf8_lossy(&entry.key).into_owned();
            if let Some(found) = entry.value.first().filter(|v| **v > VERSION) {
                let what = format!("opinion {key}");
                return Err(NewerFormat::new(folder, what, found, VERSION).into());
            }
            let json = entry.value.strip_prefix(&[VERSION]);
            let stored = json.and_then(|json| serde_json::from_slice(json).ok());
            match (key.parse(), stored) {
                (Ok(id), Some(stored)) => restored.push((id, live(stored))),
                _ => tracing::warn!(key, "second opinions: skipped an unreadable record"),
            }
        }
    }
    Ok(restored)
}

fn live(stored: Stored) -> Progress {
    match stored {
        Stored::Waiting { case } => Progress::Waiting(case),
        Stored::Asked { case } => Progress::Asked(case),
        Stored::Done => Progress::Done,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::rule::Severity;
    use watchkeeper_store::{Batch, MemoryStore};

    use super::super::testing::doubtful;
    use super::*;

    fn write(store: &MemoryStore, op: Op) {
        let mut batch = Batch::new();
        batch.push(op);
        store.commit(batch).unwrap();
    }

    fn restored(store: &MemoryStore) -> Result<Vec<(EventId, Progress)>, StoreError> {
        restore(store, Path::new("/state"))
    }

    #[test]
    fn saved_events_restore_in_order_and_deleted_ones_do_not() {
        let store = MemoryStore::new();
        let events: Vec<_> = (1..=100_u64)
            .map(|n| doubtful(n.into(), n, Severity::Warning))
            .collect();
        let kept = |n: usize| match n % 3 {
            0 => Progress::Waiting(Box::new(Case::of(&events[n]))),
            1 => Progress::Asked(Box::new(Case::of(&events[n]))),
            _ => Progress::Done,
        };
        for n in (0..100).rev() {
            write(&store, save_op(events[n].id, Some(kept(n))));
        }
        write(&store, save_op(events[99].id, None));
        let want: Vec<_> = (0..99).map(|n| (events[n].id, kept(n))).collect();
        assert_eq!(restored(&store).unwrap(), want);
    }

    #[test]
    fn damaged_record_is_skipped_and_newer_one_fails_restore() {
        let store = MemoryStore::new();
        let (one, two) = (
            doubtful(1, 1, Severity::Info),
            doubtful(2, 2, Severity::Info),
        );
        write(&store, save_op(one.id, Some(Progress::Done)));
        let damaged = |value: &[u8]| Op::Put {
            keyspace: OPINIONS,
            key: two.id.to_string().into_bytes(),
            value: value.to_vec(),
        };
        write(&store, damaged(&[VERSION, b'{']));
        assert_eq!(restored(&store).unwrap(), [(one.id, Progress::Done)]);
        write(&store, damaged(&[VERSION + 1, b'{']));
        let refused = restored(&store).unwrap_err().to_string();
        assert!(refused.contains("opinion"), "{refused}");
    }
}
