//! Numbers that rise even if the state folder is lost: sessions and outbox ids.

use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_store::{Keyspace, Op, Store, StoreError, log_key};

use crate::fleet::outbox::OutboxId;
use crate::stored_records::read_number;

const META: Keyspace = Keyspace::new("agent_meta");
const STARTS: &[u8] = b"starts";

/// Counts this start, and returns the count, the major part of its session numbers, with the
/// operation that stores it.
///
/// The count is at least the clock's seconds since 1970, where the clock was set. So it rises over
/// a lost state folder too: consumers ignore an `offline` of a smaller session as an old last will.
pub(super) fn count_start(store: &dyn Store, now: Wall) -> Result<(u64, Op), StoreError> {
    let before = read_number(store, META, STARTS)?.unwrap_or(0);
    let starts = before.saturating_add(1).max(set_ms(now) / 1000);
    Ok((starts, Op::put(META, STARTS, log_key(starts))))
}

/// First id of a new outbox: the clock's milliseconds since 1970.
///
/// It exceeds every id of a lost outbox, unless that one assigned over a thousand ids a second.
pub(super) fn first_outbox_id(now: Wall) -> OutboxId {
    OutboxId(set_ms(now).max(1))
}

/// Milliseconds since 1970; zero if the clock was never set.
fn set_ms(now: Wall) -> u64 {
    match now.quality {
        TimeQuality::Unsynced => 0,
        TimeQuality::Synced | TimeQuality::Estimated => u64::try_from(now.unix_ms).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use watchkeeper_store::{Batch, MemoryStore};

    use super::*;
    use crate::fleet::outbox;

    fn at(unix_ms: i64, quality: TimeQuality) -> Wall {
        Wall { unix_ms, quality }
    }

    #[test]
    fn start_count_rises_over_lost_store_and_clock_set_back() {
        let today = at(1_798_761_600_000, TimeQuality::Estimated);
        let tomorrow = at(1_798_848_000_000, TimeQuality::Synced);
        let unset = at(5, TimeQuality::Unsynced);
        let store = MemoryStore::new();
        let mut before = 0;
        for now in [unset, today, unset, today] {
            let (starts, op) = count_start(&store, now).expect("counted");
            store.commit(Batch::from_iter([op])).expect("stored");
            assert!(starts > before, "{starts} after {before}");
            before = starts;
        }
        let (after_loss, _) = count_start(&MemoryStore::new(), tomorrow).expect("counted");
        assert!(after_loss > before, "{after_loss} after {before}");
    }

    #[test]
    fn new_outbox_ids_exceed_those_of_lost_outbox() {
        let restore = |now| {
            let first = first_outbox_id(now);
            let folder = Path::new("/state/agent");
            let restored = outbox::store::restore(&MemoryStore::new(), folder, first);
            restored.expect("empty").0
        };
        let early = restore(at(1_798_761_600_000, TimeQuality::Estimated)).next_id;
        let late = restore(at(1_798_848_000_000, TimeQuality::Estimated)).next_id;
        assert!(late.0 > early.0 + 80_000_000);
        let unset = restore(at(5, TimeQuality::Unsynced)).next_id;
        assert_eq!(unset, OutboxId(1));
    }
}
