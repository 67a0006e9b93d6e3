//! Inputs and outputs of the outbox: the interface between the state machine and its shell.
//!
//! Only data; no behaviour.

use std::collections::BTreeMap;

use watchkeeper_contract::id::EventSeq;

use super::entry::{Content, Draft, OutboxId, RestoredEntry};

/// Event that the shell reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The next journal record, converted into a message.
    Record { seq: EventSeq, draft: Draft },
    /// A journal record that can't be converted into a message.
    Unreadable { seq: EventSeq },
    /// A message of the agent itself.
    Own(Draft),
    /// The shell has operations to store and needs a change that carries them.
    RequestChange,
    /// The journal lost its files and counts again from below the cursor.
    JournalRestarted,
    /// Change `batch` is on stable storage.
    Stored {
        /// Number of the change.
        batch: u64,
    },
    /// A session with the broker began.
    LinkUp { session: u64 },
    /// The session with the broker ended.
    LinkDown,
    /// The broker acknowledged an entry.
    Acked {
        /// Session in which it was published.
        session: u64,
        id: OutboxId,
    },
    /// An entry that was to be published is damaged in the store.
    Damaged { id: OutboxId },
    /// A deadline passed.
    Tick,
}

/// Action for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Apply a change atomically, then answer [`Input::Stored`]; if [`Change::must_sync`], only
    /// once it is durable.
    Persist(Change),
    /// Publish an entry at QoS 1.
    Publish {
        /// Session to publish in.
        session: u64,
        id: OutboxId,
        /// Whether it has waited since before this session.
        late: bool,
    },
    /// The broker did not acknowledge in time: end the session and start another.
    LinkStuck { session: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Number of the change; there is one change at a time.
    pub batch: u64,
    /// Entries to write; an existing one of the same id is replaced.
    pub puts: Vec<(OutboxId, Content)>,
    pub deletes: Vec<OutboxId>,
    /// Last journal record that the outbox has processed with this change; `None` before the first
    /// one.
    pub cursor: Option<EventSeq>,
    /// First id that was never assigned.
    pub next_id: OutboxId,
}

impl Change {
    /// Whether the change must be durable. One that only deletes may be repeated after a crash.
    pub(crate) fn must_sync(&self) -> bool {
        !self.puts.is_empty()
    }
}

/// Content of the store at the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    pub entries: BTreeMap<OutboxId, RestoredEntry>,
    /// Last journal record that was processed.
    pub cursor: Option<EventSeq>,
    /// First id that was never assigned.
    pub next_id: OutboxId,
    /// Unreadable entries that no stored loss record covers yet.
    pub damaged: u64,
}
