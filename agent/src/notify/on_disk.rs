//! Position of each channel in the journal, in the agent's store.
//!
//! Keyspace `channels`; key: channel id; value: number of the last finished record, as a log key.
//! A channel that left the configuration is deleted, so a later one of that name starts as new.

use std::ops::Bound;
use std::time::{Duration, Instant};

use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_store::{Batch, Keyspace, Op, Store, StoreError, log_key};

use crate::journal_tail::SAVE_EVERY;
use crate::stored_records::read_number;

const CHANNELS: Keyspace = Keyspace::new("channels");
/// How long a moved position may stay unstored: a restart reads these records again, perhaps with
/// another configuration of the channel.
const SAVE_AFTER: Duration = Duration::from_secs(30);
/// Records per scan; above the number of channels.
const PAGE: usize = 256;

/// Position of `channel`; `None` if the channel is new or its record is damaged.
///
/// # Errors
/// When the store can't be read.
pub(crate) fn load_position(
    store: &dyn Store,
    channel: &ChannelId,
) -> Result<Option<EventSeq>, StoreError> {
    let reached = read_number(store, CHANNELS, channel.as_str().as_bytes())?;
    Ok(reached.map(EventSeq))
}

/// Operation that stores the position of `channel`.
pub(crate) fn position_op(channel: &ChannelId, reached: EventSeq) -> Op {
    Op::put(CHANNELS, channel.as_str(), log_key(reached.0))
}

/// Deletes the positions of all channels except `kept`; on a full or read-only disk, the next start
/// does.
///
/// # Errors
/// When the store can't be read or written.
pub(crate) fn delete_others(store: &dyn Store, kept: &[ChannelId]) -> Result<(), StoreError> {
    let page = store.scan(CHANNELS, Bound::Unbounded, PAGE)?;
    let keys = page.entries.into_iter().map(|entry| entry.key);
    let keys = keys.chain(page.corrupt.into_iter().map(|record| record.key));
    let removed = keys.filter(|key| {
        !kept
            .iter()
            .any(|id| id.as_str().as_bytes() == key.as_slice())
    });
    let batch = removed.fold(Batch::new(), |batch, key| batch.delete(CHANNELS, &key));
    if batch.is_empty() {
        return Ok(());
    }
    match store.write(batch) {
        Err(error) if error.is_disk_refusal() => Ok(()),
        written => written,
    }
}

/// The position of a channel as of its last write, which decides when the next is due.
#[derive(Debug)]
pub(super) struct SavedPosition {
    saved: Option<EventSeq>,
    /// When the position left the saved one, or could not be written.
    moved: Option<Instant>,
    /// Whether the disk refused the last write.
    is_refused: bool,
}

impl SavedPosition {
    /// `saved` is the stored position.
    pub(super) const fn new(saved: Option<EventSeq>) -> Self {
        Self {
            saved,
            moved: None,
            is_refused: false,
        }
    }

    /// Whether to store now that the channel reached `reached`. It is, if notifications were
    /// finished, the position is [`SAVE_EVERY`] records or [`SAVE_AFTER`] away, or the last write
    /// was refused.
    pub(super) fn is_due(
        &mut self,
        now: Instant,
        reached: Option<EventSeq>,
        has_finished: bool,
    ) -> bool {
        if reached.is_some() && reached != self.saved {
            self.moved.get_or_insert(now);
        }
        // In both directions: a new journal starts at 1.
        let is_far =
            |(saved, reached): (EventSeq, EventSeq)| reached.0.abs_diff(saved.0) >= SAVE_EVERY;
        has_finished
            || self.is_refused
            || self.saved.zip(reached).is_some_and(is_far)
            || self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When a position that moved is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.moved.map(|moved| moved + SAVE_AFTER)
    }

    /// Records a write of `reached`. Returns whether it is the first that the disk refuses.
    pub(super) fn record_write(
        &mut self,
        now: Instant,
        reached: Option<EventSeq>,
        is_stored: bool,
    ) -> bool {
        if is_stored {
            self.saved = reached;
        }
        self.moved = (!is_stored).then_some(now);
        !std::mem::replace(&mut self.is_refused, !is_stored) && !is_stored
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_store::MemoryStore;

    use super::*;

    #[test]
    fn position_is_restored_and_removed_channel_is_deleted() {
        let store = MemoryStore::new();
        let id = |name: &str| ChannelId::new(name).unwrap();
        let (yard, gate) = (id("yard"), id("gate"));
        assert_eq!(load_position(&store, &yard).unwrap(), None);
        let ops = [
            position_op(&yard, EventSeq(7)),
            position_op(&gate, EventSeq(9)),
        ];
        store.commit(Batch::from_iter(ops)).unwrap();
        delete_others(&store, std::slice::from_ref(&gate)).unwrap();
        assert_eq!(load_position(&store, &yard).unwrap(), None);
        assert_eq!(load_position(&store, &gate).unwrap(), Some(EventSeq(9)));
    }

    #[test]
    fn refused_position_is_due_until_it_is_stored() {
        let mut position = SavedPosition::new(Some(EventSeq(1)));
        let (now, reached) = (Instant::now(), Some(EventSeq(2)));
        assert!(!position.is_due(now, reached, false));
        assert!(position.record_write(now, reached, false));
        assert!(position.is_due(now, reached, false));
        assert!(!position.record_write(now, reached, false), "logged once");
        assert_eq!(position.deadline(), Some(now + SAVE_AFTER), "tried again");
        position.record_write(now, reached, true);
        assert!(!position.is_due(now, reached, false));
        assert!(position.is_due(now, Some(EventSeq(2 + SAVE_EVERY)), false));
    }

    #[test]
    fn position_that_moved_is_due_after_a_while() {
        let mut position = SavedPosition::new(Some(EventSeq(1)));
        let now = Instant::now();
        assert!(!position.is_due(now, Some(EventSeq(1)), false));
        assert_eq!(position.deadline(), None, "nothing to store");
        assert!(!position.is_due(now, Some(EventSeq(2)), false));
        let later = now + SAVE_AFTER;
        assert_eq!(position.deadline(), Some(later));
        assert!(position.is_due(later, Some(EventSeq(3)), false));
        position.record_write(later, Some(EventSeq(3)), true);
        assert_eq!(position.deadline(), None);
    }
}
