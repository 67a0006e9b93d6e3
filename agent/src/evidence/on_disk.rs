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
use watchkeeper_contract::id::EventId;
use watchkeeper_evidence::chain::Chain;
use watchkeeper_store::{JsonRecords, Keyspace, Op, Store, StoreError};

use crate::second_opinion::Answer;
use crate::stored_cursor::StoredCursor;

const CHAINS: JsonRecords = JsonRecords::new(Keyspace::new("chains"), 1, "chain");
pub(crate) const CURSOR: StoredCursor = StoredCursor(Keyspace::new("chains_mark"));

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredChain {
    /// Record that began the event; of a second opinion with the box's latest decision.
    pub event: Event,
    pub chain: Chain,
    /// Answer of a second opinion, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Whether its assessment was made: a later decision of the box changes nothing.
    #[serde(skip)]
    pub is_reported: bool,
}

impl StoredChain {
    pub(super) fn is_opinion(&self) -> bool {
        is_opinion(&self.event)
    }

    /// Takes over the decision of a later record of the event, which its second opinion is weighed
    /// against. Returns whether something changed.
    pub(super) fn follow(&mut self, record: &Event) -> bool {
        let is_changed = self.event.decision != record.decision;
        if !is_changed || self.is_reported || !self.is_opinion() {
            return false;
        }
        self.event.decision = record.decision.clone();
        self.event.evidence = record.evidence.clone();
        true
    }
}

/// Whether the chain of an event is its second opinion: its rule names no sources.
pub(super) fn is_opinion(event: &Event) -> bool {
    event.body.rule().is_some_and(|rule| rule.decide.is_none())
}

pub(crate) fn save_op(stored: &StoredChain) -> Op {
    CHAINS.put(stored.event.id.to_string(), stored)
}

pub(crate) fn delete_op(id: EventId) -> Op {
    CHAINS.delete(id.to_string())
}

/// Reads the chains from the store in `folder`, ordered by their events.
///
/// # Errors
/// When the store fails, or holds a record of a newer version.
pub(crate) fn restore(store: &dyn Store, folder: &Path) -> Result<Vec<StoredChain>, StoreError> {
    let mut restored = Vec::new();
    CHAINS.for_each(store, folder, |key, stored| match stored {
        Some(stored) => restored.push(stored),
        None => {
            let key = String::from_utf8_lossy(&key);
            tracing::warn!(%key, "chains: skipped an unreadable record");
        }
    })?;
    Ok(restored)
}
