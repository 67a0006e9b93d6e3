//! What was lost, in a form that becomes an event.
//!
//! Invariant: what opening the store finds damaged is noted in the batch that takes it out, and the note stays until the events that tell
//! of it are appended: a start that fails, or dies, in between forgets nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::{Decision, EVENT_SCHEMA, Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{Batch, CorruptRecord, NewerFormat, OpenOutcome, Store, StoreError};

use super::{EVENTS, META};

/// Key of the note.
const NOTE: &[u8] = b"losses";
/// Version of the note: one byte, then JSON.
const VERSION: u8 = 1;
/// Losses that a note names; those behind them are counted in one more.
const MAX_NOTED: usize = 256;

/// Something that we promised to keep is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Which queue or store.
    pub from: String,
    /// How many entries, at most.
    pub count: u64,
    pub message: String,
}

/// When and by which run of the runtime an event is made.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Identity of the run.
    pub boot_id: String,
    /// Milliseconds since the run began, monotonic.
    pub mono_ms: u64,
    pub at: Wall,
    /// Identity of the event.
    pub id: EventId,
}

impl Loss {
    pub(super) fn numbers_skipped(from: u64, to: u64) -> Self {
        let count = (to + 1).saturating_sub(from);
        Self {
            from: "journal".to_owned(),
            count,
            message: format!(
                "events {from} to {to} were lost with the journal's files, as far as they existed; numbering goes on after them"
            ),
        }
    }

    pub(super) fn records_missing(count: u64) -> Self {
        Self {
            from: "journal".to_owned(),
            count,
            message: format!("{count} event records are missing from the middle of the journal"),
        }
    }

    /// The loss as an event: its `new` and, as it has no duration, at once its `end`.
    #[must_use]
    pub fn events(&self, stamp: &Stamp) -> Vec<Event> {
        [Phase::New, Phase::End]
            .into_iter()
            .map(|phase| Event {
                schema: EVENT_SCHEMA,
                id: stamp.id,
                seq: EventSeq(0),
                boot_id: stamp.boot_id.clone(),
                mono_ms: stamp.mono_ms,
                at: stamp.at,
                phase,
                source: None,
                pipeline: None,
                severity: Severity::Critical,
                body: EventBody::Loss {
                    from: self.from.clone(),
                    count: self.count,
                    message: self.message.clone(),
                },
                decision: Decision {
                    verdict: Verdict::Record,
                    confidence: 1.0,
                    reason: "a loss is always recorded".to_owned(),
                    asks: None,
                },
                evidence: Vec::new(),
                media: Vec::new(),
                clip: None,
                hash: String::new(),
            })
            .collect()
    }
}

/// What opening the store found, by now and before, and no event tells of yet.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Note {
    /// Acknowledged writes that are gone, at most: the most that any start found.
    lost_batches: u64,
    /// Whether numbers that were given may be gone with what was lost. Writing the note itself makes the store look whole again.
    is_cut: bool,
    /// What else was lost.
    losses: Vec<Loss>,
}

impl Note {
    /// Whether numbers that were given may be gone.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// All of it.
    pub(super) fn losses(&self) -> Vec<Loss> {
        let cut = (self.lost_batches > 0).then(|| Loss {
            from: "store".to_owned(),
            count: self.lost_batches,
            message: format!(
                "the last {} writes to the journal's store are gone; sources and pipelines may be as they were before",
                self.lost_batches
            ),
        });
        cut.into_iter().chain(self.losses.iter().cloned()).collect()
    }

    fn add(&mut self, outcome: &OpenOutcome, corrupt: &[CorruptRecord]) {
        match outcome {
            OpenOutcome::Clean => {}
            OpenOutcome::Truncated { lost_batches } => {
                self.is_cut = true;
                self.lost_batches = self.lost_batches.max(*lost_batches);
            }
            OpenOutcome::Quarantined { to, why, saved } => {
                self.is_cut = true;
                self.losses.push(Loss {
                    from: "store".to_owned(),
                    count: 1,
                    message: format!(
                        "the journal's store was beyond repair ({why}); it was set aside as {} and begun anew with the {saved} records that could still be read; sources and pipelines may be missing",
                        to.display()
                    ),
                });
            }
        }
        // Damaged events are told by their number elsewhere.
        let records = corrupt.iter().filter(|bad| bad.keyspace != EVENTS.name());
        self.losses.extend(records.map(|bad| Loss {
            from: bad.keyspace.clone(),
            count: 1,
            message: format!(
                "record {} of {} was damaged ({}) and taken out",
                bad.key.escape_ascii(),
                bad.keyspace,
                bad.why
            ),
        }));
        let more = self.losses.split_off(self.losses.len().min(MAX_NOTED));
        let count = more
            .iter()
            .fold(0, |sum: u64, loss| sum.saturating_add(loss.count));
        if count > 0 {
            self.losses.push(Loss {
                from: "store".to_owned(),
                count,
                message: format!(
                    "{count} more records of the journal's store were damaged and taken out"
                ),
            });
        }
    }
}

/// What is noted in the store, which lies in `folder`.
///
/// # Errors
/// When the store can't be read, or a newer version wrote the note.
pub(super) fn noted(store: &dyn Store, folder: &Path) -> Result<Note, StoreError> {
    let bytes = match store.get(META, NOTE) {
        Ok(Some(bytes)) => bytes,
        // A damaged note is itself a damaged record, and noted as that.
        Ok(None) | Err(StoreError::Corrupt { .. }) => return Ok(Note::default()),
        Err(error) => return Err(error),
    };
    match bytes.split_first() {
        Some((&VERSION, json)) => Ok(serde_json::from_slice(json).unwrap_or_else(|error| Note {
            lost_batches: 0,
            is_cut: true,
            // Its checksum is right, so it is what was written; that something was lost is known at least.
            losses: vec![Loss {
                from: "store".to_owned(),
                count: 1,
                message: format!("records of the journal's store were lost; the note of which can't be read: {error}"),
            }],
        })),
        Some((&found, _)) => {
            Err(NewerFormat::new(folder, "the note of what was lost", found, VERSION).into())
        }
        None => Ok(Note::default()),
    }
}

/// The batch that adds what opening the store in `folder` found to what is noted.
///
/// # Errors
/// Those of [`noted`].
pub(super) fn note(
    store: &dyn Store,
    folder: &Path,
    outcome: &OpenOutcome,
    corrupt: &[CorruptRecord],
) -> Result<Batch, StoreError> {
    let mut note = noted(store, folder)?;
    note.add(outcome, corrupt);
    if note.losses().is_empty() {
        return Ok(Batch::new());
    }
    let mut bytes = vec![VERSION];
    // Plain text and numbers: serde_json can't fail on them.
    bytes.extend(serde_json::to_vec(&note).unwrap_or_default());
    Ok(Batch::new().put(META, NOTE, &bytes))
}

/// Takes the note away with what else is in `batch`.
pub(super) fn told(batch: Batch) -> Batch {
    batch.delete(META, NOTE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use std::sync::Arc;

    use watchkeeper_contract::time::TimeQuality;
    use watchkeeper_store::MemoryStore;

    use super::super::{Journal, Limits};
    use super::*;

    fn stamp() -> Stamp {
        Stamp {
            boot_id: "b".to_owned(),
            mono_ms: 0,
            at: Wall {
                unix_ms: 0,
                quality: TimeQuality::Synced,
            },
            id: EventId::generate(),
        }
    }

    fn damaged(count: usize) -> Vec<CorruptRecord> {
        let record = |n: usize| CorruptRecord {
            keyspace: "sources".to_owned(),
            key: format!("cam-{n}").into_bytes(),
            why: "checksum".to_owned(),
        };
        (0..count).map(record).collect()
    }

    /// As opening the store after `outcome` notes it.
    fn noting(store: &MemoryStore, outcome: &OpenOutcome, corrupt: &[CorruptRecord]) {
        let found = note(store, Path::new("/state/journal"), outcome, corrupt).unwrap();
        if !found.is_empty() {
            store.commit(found).unwrap();
        }
    }

    fn events_of(losses: &[Loss]) -> Vec<Event> {
        losses
            .iter()
            .flat_map(|loss| loss.events(&stamp()))
            .collect()
    }

    #[test]
    fn what_was_damaged_is_told_by_every_opening_until_its_events_are_there() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let open = || {
            let (store, limits) = (Arc::clone(&store) as _, Limits::default());
            Journal::over(store, state.path(), limits, &OpenOutcome::Clean).unwrap()
        };
        noting(&store, &OpenOutcome::Clean, &damaged(1));
        // A start that fails before it tells.
        assert_eq!(open().1.len(), 1);
        noting(&store, &OpenOutcome::Truncated { lost_batches: 3 }, &[]);
        // A later start that finds fewer: the larger number stays.
        noting(&store, &OpenOutcome::Truncated { lost_batches: 2 }, &[]);
        let (journal, losses) = open();
        let mut counts: Vec<u64> = losses.iter().map(|loss| loss.count).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 3]);
        let events = events_of(&losses);
        // One half of them is not all of them, whoever appends it.
        let (first, rest) = events.split_at(1);
        journal.tells(&events);
        journal.append(first.to_vec()).unwrap();
        // Besides the numbers that may have been given after it.
        let of_store = |losses: Vec<Loss>| {
            losses
                .into_iter()
                .filter(|loss| loss.from != "journal")
                .count()
        };
        assert_eq!(of_store(open().1), 2);
        journal.append(rest.to_vec()).unwrap();
        assert_eq!(open().1, []);
    }

    #[test]
    fn numbers_that_may_be_gone_are_not_given_again_after_any_number_of_starts_that_died() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let open = || {
            let (store, limits) = (Arc::clone(&store) as _, Limits::default());
            Journal::over(store, state.path(), limits, &OpenOutcome::Clean).unwrap()
        };
        let loss = Loss::records_missing(1);
        let before = open().0.append(events_of(&[loss])).unwrap();
        let given = before.last().unwrap().seq;
        // One more was given, and its batch is gone. The start that found that died; to the next one the store looks whole.
        noting(&store, &OpenOutcome::Truncated { lost_batches: 1 }, &[]);
        for _ in 0..3 {
            let (_, losses) = open();
            assert!(
                losses.iter().any(|loss| loss.from == "journal"),
                "{losses:?}"
            );
        }
        let (journal, losses) = open();
        let told = journal.append_losses(events_of(&losses)).unwrap();
        assert!(told[0].seq.0 > given.0 + 1, "{}", told[0].seq);
        assert_eq!(open().1, []);
    }

    #[test]
    fn a_note_is_bounded_and_counts_what_it_does_not_name() {
        let (store, folder) = (MemoryStore::new(), Path::new("/state/journal"));
        noting(&store, &OpenOutcome::Clean, &damaged(MAX_NOTED + 7));
        let losses = noted(&store, folder).unwrap().losses();
        assert_eq!(losses.len(), MAX_NOTED + 1);
        assert_eq!(
            losses.iter().map(|loss| loss.count).sum::<u64>(),
            MAX_NOTED as u64 + 7
        );
    }

    #[test]
    fn a_note_of_a_newer_version_keeps_the_journal_closed() {
        let store = MemoryStore::new();
        store
            .commit(Batch::new().put(META, NOTE, &[VERSION + 1]))
            .unwrap();
        let said = noted(&store, Path::new("/state/journal"))
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("the note of what was lost has format 2"),
            "{said}"
        );
    }
}
