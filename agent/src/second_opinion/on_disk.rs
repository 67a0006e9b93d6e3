//! Stored form of the queue, separate from the live one.
//!
//! - Keyspace `opinions_mark`, key `reached`: the journal tail's cursor as a log key.
//! - Keyspace `opinions`, key: the event's id, value: a version byte and JSON.
//!
//! Invariants:
//! - A damaged record is skipped: better an event without an opinion than a failed start.
//! - A record of a newer version fails the start and stays untouched.

use std::path::Path;

use watchkeeper_contract::id::EventId;
use watchkeeper_store::{JsonRecords, Keyspace, Op, Store, StoreError};

use super::queue::Progress;
use crate::stored_cursor::StoredCursor;

const OPINIONS: JsonRecords = JsonRecords::new(Keyspace::new("opinions"), 1, "opinion");
/// The cursor of the journal's tail.
pub const CURSOR: StoredCursor = StoredCursor(Keyspace::new("opinions_mark"));

/// The operation that stores the progress of an event; `None` deletes it.
pub(crate) fn save_op(id: EventId, kept: Option<Progress>) -> Op {
    match kept {
        Some(progress) => OPINIONS.put(id.to_string(), &progress),
        None => OPINIONS.delete(id.to_string()),
    }
}

/// Reads the events back from the store in `folder`, ordered by their start.
///
/// # Errors
/// When the store fails, or holds a record of a newer version.
pub fn restore(store: &dyn Store, folder: &Path) -> Result<Vec<(EventId, Progress)>, StoreError> {
    let mut restored = Vec::new();
    OPINIONS.for_each(store, folder, |key, stored| {
        let key = String::from_utf8_lossy(&key);
        match (key.parse(), stored) {
            (Ok(id), Some(progress)) => restored.push((id, progress)),
            _ => tracing::warn!(%key, "second opinions: skipped an unreadable record"),
        }
    })?;
    Ok(restored)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::rule::Severity;
    use watchkeeper_store::{Batch, MemoryStore};

    use super::super::Case;
    use super::super::testing::doubtful;
    use super::*;

    fn write(store: &MemoryStore, op: Op) {
        store.commit(Batch::from_iter([op])).unwrap();
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
        let opinions = Keyspace::new("opinions");
        let damaged = |value: &[u8]| Op::put(opinions, two.id.to_string(), value);
        write(&store, damaged(b"\x01{"));
        assert_eq!(restored(&store).unwrap(), [(one.id, Progress::Done)]);
        write(&store, damaged(b"\x02{"));
        let refused = restored(&store).unwrap_err().to_string();
        assert!(refused.contains("opinion"), "{refused}");
    }
}
