//! Position of each channel in the journal, in the agent's store.
//!
//! Keyspace `channels`; key: channel id; value: number of the last finished record, as a log key.
//! A channel that left the configuration is deleted, so a later one of that name starts as new.

use std::ops::Bound;

use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_store::{Batch, Keyspace, Op, Store, StoreError, log_key, log_seq};

use crate::journal_tail::SAVE_EVERY;

const CHANNELS: Keyspace = Keyspace::new("channels");
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
    match store.get(CHANNELS, channel.as_str().as_bytes()) {
        Ok(value) => Ok(value.as_deref().and_then(log_seq).map(EventSeq)),
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    }
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
    /// Whether the disk refused the last write.
    is_refused: bool,
}

impl SavedPosition {
    /// `saved` is the stored position.
    pub(super) const fn new(saved: Option<EventSeq>) -> Self {
        Self {
            saved,
            is_refused: false,
        }
    }

    /// Whether to store now that the channel reached `reached`: notifications were settled, the
    /// position is [`SAVE_EVERY`] records away, or the last write was refused.
    pub(super) fn is_due(&self, reached: Option<EventSeq>, is_settled: bool) -> bool {
        // In both directions: a new journal starts at 1.
        let is_far =
            |(saved, reached): (EventSeq, EventSeq)| reached.0.abs_diff(saved.0) >= SAVE_EVERY;
        is_settled || self.is_refused || self.saved.zip(reached).is_some_and(is_far)
    }

    /// Records a write of `reached`. Returns whether it is the first that the disk refuses.
    pub(super) fn record_write(&mut self, reached: Option<EventSeq>, is_stored: bool) -> bool {
        if is_stored {
            self.saved = reached;
        }
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
        let reached = Some(EventSeq(2));
        assert!(!position.is_due(reached, false));
        assert!(position.record_write(reached, false));
        assert!(position.is_due(reached, false));
        assert!(!position.record_write(reached, false), "logged once");
        position.record_write(reached, true);
        assert!(!position.is_due(reached, false));
        assert!(position.is_due(Some(EventSeq(2 + SAVE_EVERY)), false));
    }
}
