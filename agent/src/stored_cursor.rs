//! A cursor in the journal as the only record of a keyspace, a log key.
//!
//! Not here: what is stored with it, and when.

use watchkeeper_contract::id::EventSeq;
use watchkeeper_store::{Keyspace, Op, Store, StoreError, log_key};

use crate::stored_records::read_number;

const REACHED: &[u8] = b"reached";

/// A cursor in the journal as the only record of a keyspace, a log key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredCursor(pub Keyspace);

impl StoredCursor {
    pub(crate) fn read(self, store: &dyn Store) -> Result<Option<EventSeq>, StoreError> {
        Ok(read_number(store, self.0, REACHED)?.map(EventSeq))
    }

    pub(crate) fn op(self, cursor: EventSeq) -> Op {
        Op::put(self.0, REACHED, log_key(cursor.0))
    }
}
