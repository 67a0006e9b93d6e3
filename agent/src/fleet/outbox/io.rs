//! What goes into the outbox and what comes out: the words between the state machine and the shell around it.
//!
//! No behaviour here, and nothing that is only the outbox's own.

use std::collections::BTreeMap;

use watchkeeper_contract::id::EventSeq;

use super::entry::{Content, Draft, OutboxId, RestoredEntry};

/// What happens to the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The next record of the journal, made into a message.
    Record { seq: EventSeq, draft: Draft },
    /// A record of the journal that can't be made into a message.
    Unreadable { seq: EventSeq },
    /// A message of the agent's own.
    Own(Draft),
    /// The shell has something of its own to store, which rides along with the next change: there has to be one.
    Carry,
    /// The journal begins again below the cursor: its files were lost.
    JournalRestarted,
    /// Change number `batch` is on stable storage.
    Stored {
        /// Number of the change.
        batch: u64,
    },
    /// A new session with the broker.
    LinkUp { session: u64 },
    /// The session is over.
    LinkDown,
    /// The broker has an entry.
    Acked {
        /// Session in which it was published.
        session: u64,
        id: OutboxId,
    },
    /// An entry that was to be published turned out to be damaged in the store.
    Damaged { id: OutboxId },
    /// A deadline passed.
    Tick,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Apply a change whole or not at all, then answer [`Input::Stored`]; when it is [`Change::must_sync`], only once
    /// it is durable.
    Persist(Change),
    /// Publish an entry at QoS 1.
    Publish {
        /// Session to publish in.
        session: u64,
        id: OutboxId,
        /// Whether it waited since before this session.
        late: bool,
    },
    /// The broker did not acknowledge in time: end the session and begin another.
    LinkStuck { session: u64 },
}

/// A change to what is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Number of the change; changes are made one after the other.
    pub batch: u64,
    /// Entries to write, replacing those of the same id.
    pub puts: Vec<(OutboxId, Content)>,
    /// Entries to remove.
    pub deletes: Vec<OutboxId>,
    /// Last journal record that has been dealt with once this is stored; `None` before the first one.
    pub cursor: Option<EventSeq>,
    /// First id that has never been given away.
    pub next_id: OutboxId,
}

impl Change {
    /// Whether it says something new; a change that only forgets may be repeated after a crash.
    #[must_use]
    pub fn must_sync(&self) -> bool {
        !self.puts.is_empty()
    }
}

/// What the store held at the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    pub entries: BTreeMap<OutboxId, RestoredEntry>,
    /// Last journal record that was dealt with.
    pub cursor: Option<EventSeq>,
    /// First id that had never been given away.
    pub next_id: OutboxId,
    /// Entries that were there and could not be read, and of which no loss record is stored yet.
    pub damaged: u64,
}
