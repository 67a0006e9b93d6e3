//! Second opinions that the runtime has still to record in its journal.
//!
//! Keyspace `assessments`; key: the event's id, value: a version byte and JSON.
//!
//! Invariants:
//! - An opinion is stored in one batch with its publication, sent once that is durable, and deleted
//!   once the runtime has it, or no longer has its event.
//! - One that the runtime refuses stays stored, and is sent again after the next start.
//! - At most [`MAX_PENDING`] wait; another one drops that of the oldest event.
//! - A damaged record is skipped; one of a newer version fails the start and stays untouched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::review::NewAssessment;
use watchkeeper_store::{JsonRecords, Keyspace, Op, Store, StoreError};

const ASSESSMENTS: JsonRecords = JsonRecords::new(Keyspace::new("assessments"), 1, "assessment");
/// Waiting opinions: hours of the largest budget while the runtime is away.
pub const MAX_PENDING: usize = 256;

/// An assessment of the event of record `seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingAssessment {
    pub seq: EventSeq,
    pub new: NewAssessment,
}

/// The waiting assessments.
#[derive(Debug, Default)]
pub(crate) struct PendingAssessments {
    waiting: BTreeMap<EventId, PendingAssessment>,
    /// Those that are not durable yet.
    unstored: BTreeSet<EventId>,
    /// Those that the runtime refused since the agent's start.
    refused: BTreeSet<EventId>,
}

impl PendingAssessments {
    /// Reads the waiting assessments from the store in `folder`.
    ///
    /// # Errors
    /// When the store fails, or holds a record of a newer version.
    pub(crate) fn restore(store: &dyn Store, folder: &Path) -> Result<Self, StoreError> {
        let mut waiting = BTreeMap::new();
        ASSESSMENTS.for_each(store, folder, |key, stored| {
            let key = String::from_utf8_lossy(&key);
            match (key.parse(), stored) {
                (Ok(id), Some(stored)) => drop(waiting.insert(id, stored)),
                _ => tracing::warn!(%key, "assessments: skipped an unreadable record"),
            }
        })?;
        Ok(Self {
            waiting,
            ..Self::default()
        })
    }

    /// Adds an assessment of event `id`. Returns the operations that store it.
    pub(crate) fn add(&mut self, id: EventId, pending: PendingAssessment) -> Vec<Op> {
        let mut ops = vec![ASSESSMENTS.put(id.to_string(), &pending)];
        self.waiting.insert(id, pending);
        self.unstored.insert(id);
        while self.waiting.len() > MAX_PENDING
            && let Some((oldest, _)) = self.waiting.pop_first()
        {
            self.unstored.remove(&oldest);
            self.refused.remove(&oldest);
            tracing::warn!(event = %oldest, "second opinion not recorded: too many wait");
            ops.push(ASSESSMENTS.delete(oldest.to_string()));
        }
        ops
    }

    /// The assessment of event `id` is durable.
    pub(crate) fn stored(&mut self, id: EventId) {
        self.unstored.remove(&id);
    }

    /// The runtime refused the assessment of event `id`: it is sent again after the next start.
    pub(crate) fn refuse(&mut self, id: EventId) {
        self.refused.insert(id);
    }

    /// The assessment of the oldest event, of those that are durable and not refused.
    pub(crate) fn oldest(&self) -> Option<(EventId, PendingAssessment)> {
        let mut waiting = self.waiting.iter();
        let is_held = |id| self.unstored.contains(id) || self.refused.contains(id);
        let (id, pending) = waiting.find(|(id, _)| !is_held(*id))?;
        Some((*id, pending.clone()))
    }

    /// Removes an assessment that the runtime recorded, or whose event is gone. Returns the
    /// operation that deletes it.
    pub(crate) fn remove(&mut self, id: EventId) -> Op {
        self.waiting.remove(&id);
        self.unstored.remove(&id);
        self.refused.remove(&id);
        ASSESSMENTS.delete(id.to_string())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_store::{Batch, MemoryStore};

    use super::super::Case;
    use super::super::assessment::new_assessment;
    use super::super::testing::doubtful;
    use super::super::weigh::weigh;
    use super::*;
    use watchkeeper_contract::rule::Severity;

    fn pending(n: u64) -> (EventId, PendingAssessment) {
        let event = doubtful(n.into(), n, Severity::Warning);
        let case = Case::of(&event);
        let answer = Err("no budget".into());
        let new = new_assessment(&case, &answer, &weigh(&case, &answer, case.event.at));
        let seq = event.seq;
        (event.id, PendingAssessment { seq, new })
    }

    fn commit(store: &MemoryStore, ops: Vec<Op>) {
        store.commit(Batch::from_iter(ops)).unwrap();
    }

    fn restored(store: &MemoryStore) -> PendingAssessments {
        PendingAssessments::restore(store, Path::new("/state")).unwrap()
    }

    #[test]
    fn waiting_assessments_survive_a_restart_until_they_are_removed() {
        let store = MemoryStore::new();
        let mut all = PendingAssessments::default();
        let [first, second] = [pending(1), pending(2)];
        for (id, pending) in [&second, &first] {
            commit(&store, all.add(*id, pending.clone()));
        }
        assert_eq!(all.oldest(), None, "not durable yet");
        all.stored(second.0);
        assert_eq!(all.oldest(), Some(second.clone()));
        let mut all = restored(&store);
        assert_eq!(all.oldest(), Some(first.clone()));
        commit(&store, vec![all.remove(first.0)]);
        assert_eq!(restored(&store).oldest(), Some(second));
    }

    #[test]
    fn refused_assessment_waits_for_the_next_start() {
        let store = MemoryStore::new();
        let mut all = PendingAssessments::default();
        let [first, second] = [pending(1), pending(2)];
        for (id, pending) in [&first, &second] {
            commit(&store, all.add(*id, pending.clone()));
            all.stored(*id);
        }
        all.refuse(first.0);
        assert_eq!(all.oldest(), Some(second.clone()), "others are sent");
        commit(&store, vec![all.remove(second.0)]);
        assert_eq!(all.oldest(), None);
        assert_eq!(restored(&store).oldest(), Some(first));
    }

    #[test]
    fn oldest_is_dropped_when_too_many_wait() {
        let store = MemoryStore::new();
        let mut all = PendingAssessments::default();
        for n in 1..=MAX_PENDING as u64 + 1 {
            let (id, pending) = pending(n);
            commit(&store, all.add(id, pending));
        }
        assert_eq!(restored(&store).oldest(), Some(pending(2)));
    }
}
