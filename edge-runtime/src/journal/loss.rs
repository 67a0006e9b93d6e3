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
    /// One sentence.
    pub message: String,
}

/// When and by which run of the runtime an event is made.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Identity of the run.
    pub boot_id: String,
    /// Milliseconds since the run began, monotonic.
    pub mono_ms: u64,
    /// Wall clock.
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
                },
                evidence: Vec::new(),
                media: Vec::new(),
                hash: String::new(),
            })
            .collect()
    }
}

/// What is noted in the store, which lies in `folder`.
///
/// # Errors
/// When the store can't be read, or a newer version wrote the note.
pub(super) fn noted(store: &dyn Store, folder: &Path) -> Result<Vec<Loss>, StoreError> {
    let bytes = match store.get(META, NOTE) {
        Ok(Some(bytes)) => bytes,
        // A damaged note is itself a damaged record, and noted as that.
        Ok(None) | Err(StoreError::Corrupt { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    match bytes.split_first() {
        Some((&VERSION, json)) => Ok(serde_json::from_slice(json).unwrap_or_else(|error| {
            // Its checksum is right, so it is what was written; that something was lost is known at least.
            vec![Loss {
                from: "store".to_owned(),
                count: 1,
                message: format!("records of the journal's store were lost; the note of which can't be read: {error}"),
            }]
        })),
        Some((&found, _)) => {
            Err(NewerFormat::new(folder, "the note of what was lost", found, VERSION).into())
        }
        None => Ok(Vec::new()),
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
    let found = of_store(outcome, corrupt);
    if found.is_empty() {
        return Ok(Batch::new());
    }
    let mut losses = noted(store, folder)?;
    losses.extend(found);
    let more = losses.split_off(losses.len().min(MAX_NOTED));
    if !more.is_empty() {
        let count = more
            .iter()
            .map(|loss| loss.count)
            .fold(0, u64::saturating_add);
        losses.push(Loss {
            from: "store".to_owned(),
            count,
            message: format!(
                "{count} more records of the journal's store were damaged and taken out"
            ),
        });
    }
    let mut bytes = vec![VERSION];
    // Plain text and numbers: serde_json can't fail on them.
    bytes.extend(serde_json::to_vec(&losses).unwrap_or_default());
    Ok(Batch::new().put(META, NOTE, &bytes))
}

/// The batch that takes the note away.
pub(super) fn told() -> Batch {
    Batch::new().delete(META, NOTE)
}

/// What opening a store says, as losses. Damaged events are told by their number elsewhere.
fn of_store(outcome: &OpenOutcome, corrupt: &[CorruptRecord]) -> Vec<Loss> {
    let mut losses = Vec::new();
    match outcome {
        OpenOutcome::Clean => {}
        OpenOutcome::Recovered { what } => tracing::warn!(what, "journal repaired"),
        OpenOutcome::Truncated { lost_batches } => losses.push(Loss {
            from: "store".to_owned(),
            count: *lost_batches,
            message: format!(
                "the last {lost_batches} writes to the journal's store are gone; sources and pipelines may be as they were before"
            ),
        }),
        OpenOutcome::Quarantined { to, why } => losses.push(Loss {
            from: "store".to_owned(),
            count: 1,
            message: format!(
                "the journal's store was beyond repair ({why}); it was set aside as {} and begun empty, without sources and pipelines",
                to.display()
            ),
        }),
    }
    for bad in corrupt.iter().filter(|bad| bad.keyspace != EVENTS.name()) {
        losses.push(Loss {
            from: bad.keyspace.clone(),
            count: 1,
            message: format!(
                "record {} of {} was damaged ({}) and taken out",
                bad.key.escape_ascii(),
                bad.keyspace,
                bad.why
            ),
        });
    }
    losses
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
            id: EventId(ulid::Ulid::new()),
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

    #[test]
    fn what_was_damaged_is_told_by_every_opening_until_its_events_are_there() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let open = || {
            let (store, limits) = (Arc::clone(&store) as _, Limits::default());
            Journal::over(store, state.path(), limits, &OpenOutcome::Clean).unwrap()
        };
        let found = note(&*store, state.path(), &OpenOutcome::Clean, &damaged(1)).unwrap();
        store.commit(found).unwrap();
        // A start that fails before it tells.
        assert_eq!(open().1.len(), 1);
        let cut = OpenOutcome::Truncated { lost_batches: 3 };
        let found = note(&*store, state.path(), &cut, &[]).unwrap();
        store.commit(found).unwrap();
        let (journal, losses) = open();
        let counts: Vec<u64> = losses.iter().map(|loss| loss.count).collect();
        assert_eq!(counts, [1, 3]);
        assert!(losses[0].message.contains("cam-0"), "{losses:?}");
        let told = journal.append_losses(&losses, &stamp).unwrap();
        assert_eq!(told.len(), 4);
        assert_eq!(open().1, []);
    }

    #[test]
    fn a_note_is_bounded_and_counts_what_it_does_not_name() {
        let (store, folder) = (MemoryStore::new(), Path::new("/state/journal"));
        let found = note(&store, folder, &OpenOutcome::Clean, &damaged(MAX_NOTED + 7)).unwrap();
        store.commit(found).unwrap();
        let losses = noted(&store, folder).unwrap();
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
