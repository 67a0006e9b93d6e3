//! The outbox on a [`Store`]: restores it, applies its changes, loads entries to send.
//!
//! Invariants:
//! - One batch deletes damaged entries and counts them ([`count_damaged`]). The batch that stores
//!   their loss record deletes the count.
//! - Memory holds at most [`PAGE`] messages at a time. Of a waiting message it holds the
//!   `EntryMeta` only; the message is read when it is sent.

use std::path::Path;

use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{
    Batch, Keyspace, NewerFormat, Op, Store, StoreError, log_key, log_seq, pages,
};

use super::on_disk::{DecodeError, VERSION, decode, encode};
use super::{Change, Content, LossFrom, OutboxId, Restored, RestoredEntry};
use crate::stored_records::read_number;

const ENTRIES: Keyspace = Keyspace::new("outbox");
const META: Keyspace = Keyspace::new("outbox_meta");
const CURSOR: &[u8] = b"cursor";
const NEXT_ID: &[u8] = b"next_id";
/// Number of deleted damaged entries that no stored loss record covers yet.
const DAMAGED: &[u8] = b"damaged";
/// Entries read at a time by [`restore`]. A message has up to 256 KiB.
const PAGE: usize = 16;

/// Reads the store in `folder` and returns the metadata of all messages. Writes nothing; the
/// returned batch, if any, deletes damaged entries and counts them.
///
/// A store that never assigned an id begins at `first`. That should exceed every id of an earlier,
/// lost store: consumers identify loss records by their ids.
///
/// # Errors
/// Fails when the store is unreadable or contains an entry of a newer version.
pub fn restore(
    store: &dyn Store,
    folder: &Path,
    first: OutboxId,
) -> Result<(Restored, Option<Batch>), StoreError> {
    let mut damaged = Vec::new();
    let mut restored = Restored {
        // Without its cursor the outbox reads the journal from the start: better twice than never.
        cursor: read_number(store, META, CURSOR)?.map(EventSeq),
        next_id: read_number(store, META, NEXT_ID)?.map_or(first, OutboxId),
        ..Restored::default()
    };
    for page in pages(store, ENTRIES, PAGE) {
        let page = page?;
        damaged.extend(page.corrupt.into_iter().map(|record| record.key));
        for entry in page.entries {
            match (log_seq(&entry.key), decode(&entry.value)) {
                (Some(id), Ok(content)) => {
                    restored
                        .entries
                        .insert(OutboxId(id), RestoredEntry::from_content(content));
                }
                (id, Err(DecodeError::Version(found))) => {
                    let what = format!("outbox entry {}", id.unwrap_or_default());
                    return Err(NewerFormat::new(folder, what, found, VERSION).into());
                }
                (_, Err(error @ DecodeError::Malformed(_))) => {
                    tracing::warn!(%error, key = ?entry.key, "outbox: can't read an entry");
                    damaged.push(entry.key);
                }
                (None, Ok(_)) => damaged.push(entry.key),
            }
        }
    }
    if damaged.is_empty() {
        restored.damaged = read_number(store, META, DAMAGED)?.unwrap_or(0);
        return Ok((restored, None));
    }
    let (count, mut change) = count_damaged(store, damaged.len() as u64)?;
    restored.damaged = count;
    for key in damaged {
        change.push(Op::delete(ENTRIES, key));
    }
    Ok((restored, Some(change)))
}

/// Returns the new number of damaged entries without a stored loss record, after adding `more`, and
/// the batch that stores it.
///
/// # Errors
/// Fails when the store is unreadable.
pub(crate) fn count_damaged(store: &dyn Store, more: u64) -> Result<(u64, Batch), StoreError> {
    let count = read_number(store, META, DAMAGED)?
        .unwrap_or(0)
        .saturating_add(more);
    let batch = Batch::new().put(META, DAMAGED, &count.to_be_bytes());
    Ok((count, batch))
}

/// Builds the batch that applies `change`; the caller may add operations.
pub(crate) fn batch_of(change: &Change) -> Batch {
    let mut batch = Batch::new();
    for (id, content) in &change.puts {
        batch.push(Op::put(ENTRIES, log_key(id.0), encode(content)));
    }
    for id in &change.deletes {
        batch.push(Op::delete(ENTRIES, log_key(id.0)));
    }
    // The first change after a start contains the loss record of all damage counted before.
    let is_damage_record =
        |content: &Content| matches!(content, Content::Loss(loss) if loss.from == LossFrom::Store);
    if change
        .puts
        .iter()
        .any(|(_, content)| is_damage_record(content))
    {
        batch = batch.delete(META, DAMAGED);
    }
    if change.must_sync() {
        if let Some(cursor) = change.cursor {
            batch = batch.put(META, CURSOR, &cursor.0.to_be_bytes());
        }
        batch = batch.put(META, NEXT_ID, &change.next_id.0.to_be_bytes());
    }
    batch
}

/// Loads entry `id`; `None` when it is absent or damaged.
///
/// # Errors
/// Fails when the store is unreadable.
pub fn load(store: &dyn Store, id: OutboxId) -> Result<Option<Content>, StoreError> {
    let Some(bytes) = store.get(ENTRIES, &log_key(id.0))? else {
        return Ok(None);
    };
    match decode(&bytes) {
        Ok(content) => Ok(Some(content)),
        Err(error) => {
            tracing::warn!(%error, id = id.0, "outbox: can't read an entry");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use watchkeeper_contract::rule::Severity;
    use watchkeeper_store::{MemoryStore, Page};

    use super::super::{Class, Draft, Input, Limits, Outbox, Output};
    use super::*;

    /// Records the largest page that was read.
    #[derive(Debug, Default)]
    struct PageGauge {
        store: MemoryStore,
        largest: AtomicUsize,
    }

    impl Store for PageGauge {
        fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.store.get(keyspace, key)
        }

        fn scan(
            &self,
            keyspace: Keyspace,
            from: Bound<&[u8]>,
            limit: usize,
        ) -> Result<Page, StoreError> {
            let page = self.store.scan(keyspace, from, limit)?;
            let bytes = page.entries.iter().map(|entry| entry.value.len()).sum();
            self.largest.fetch_max(bytes, Ordering::Relaxed);
            Ok(page)
        }

        fn write(&self, batch: Batch) -> Result<(), StoreError> {
            self.store.write(batch)
        }

        fn sync(&self) -> Result<(), StoreError> {
            self.store.sync()
        }

        fn check(&self) -> Result<(), StoreError> {
            self.store.check()
        }

        fn poison(&self) -> Option<String> {
            self.store.poison()
        }

        fn size_on_disk(&self) -> Result<u64, StoreError> {
            self.store.size_on_disk()
        }
    }

    #[test]
    fn large_outbox_opens_page_by_page_and_keeps_metadata() {
        const MESSAGES: u64 = 200;
        const BYTES: usize = 200_000;
        let store = PageGauge::default();
        let draft = Draft {
            class: Class::Event,
            severity: Severity::Warning,
            topic: "ev/x".to_owned(),
            retain: false,
            seq: Some(EventSeq(7)),
            payload: vec![b'x'; BYTES],
        };
        for id in 1..=MESSAGES {
            let content = Content::Message(draft.clone());
            let change = Change {
                batch: id,
                puts: vec![(OutboxId(id), content)],
                deletes: vec![],
                cursor: None,
                next_id: OutboxId(id + 1),
            };
            store.commit(batch_of(&change)).expect("commit");
        }
        let (restored, change) =
            restore(&store, Path::new("/state/agent"), OutboxId(1)).expect("restore");
        assert_eq!(change, None);
        assert_eq!(restored.entries.len() as u64, MESSAGES);
        let meta = Content::Message(draft).meta();
        assert!(
            restored
                .entries
                .values()
                .all(|kept| *kept == RestoredEntry::Message(meta))
        );
        let largest = store.largest.load(Ordering::Relaxed);
        assert!(largest < 8 << 20, "{largest} bytes at once");
    }

    #[test]
    fn newer_entry_fails_restore_and_stays_untouched() {
        let store = MemoryStore::new();
        let entries = Batch::new().put(ENTRIES, &log_key(1), &[VERSION]).put(
            ENTRIES,
            &log_key(2),
            &[VERSION + 1, 7, 7],
        );
        store.commit(entries).expect("commit");
        let refused = restore(&store, Path::new("/state/agent"), OutboxId(1));
        let said = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            said.starts_with("/state/agent ")
                && said.contains("outbox entry 2 has format 3 and this version reads up to 2"),
            "{said}"
        );
        assert!(matches!(store.get(ENTRIES, &log_key(2)), Ok(Some(_))));
        assert!(matches!(store.get(ENTRIES, &log_key(1)), Ok(Some(_))));
    }

    #[test]
    fn damage_stays_counted_until_its_loss_record_is_stored() {
        let start = |store: &MemoryStore| {
            let (restored, change) =
                restore(store, Path::new("/state/agent"), OutboxId(1)).expect("restore");
            if let Some(change) = change {
                store.commit(change).expect("commit");
            }
            restored
        };
        let store = MemoryStore::new();
        let malformed =
            Batch::new()
                .put(ENTRIES, &log_key(1), &[VERSION])
                .put(ENTRIES, b"odd", &[VERSION]);
        store.commit(malformed).expect("commit");
        assert_eq!(start(&store).damaged, 2);
        assert!(matches!(store.get(ENTRIES, &log_key(1)), Ok(None)));
        // That start failed; opening the store before the next one finds another damaged entry.
        let (_, opened) = count_damaged(&store, 1).expect("a note");
        store.commit(opened).expect("commit");
        let restored = start(&store);
        assert_eq!(restored.damaged, 3);
        let mut outbox = Outbox::new(Limits::default(), restored);
        outbox.handle(Instant::now(), Input::Tick);
        let Some(Output::Persist(change)) = outbox.poll() else {
            panic!("the loss is not stored");
        };
        store.commit(batch_of(&change)).expect("commit");
        let restored = start(&store);
        assert_eq!(restored.damaged, 0);
        let count = |kept: &RestoredEntry| match kept {
            RestoredEntry::Loss(loss) => loss.count,
            RestoredEntry::Message(_) => 0,
        };
        let counts: Vec<_> = restored.entries.values().map(count).collect();
        assert_eq!(counts, [3]);
    }
}
