//! Losses of the store, reported as events.
//!
//! - Damage found at opening is noted in the batch that removes it. The note stays until the events
//!   about it are appended, so that a start that fails in between loses nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::event::{
    ChainLoss, ChainLossCause, Decision, EVENT_SCHEMA, Event, EventBody, LostRange, Phase, Verdict,
};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{Batch, CorruptRecord, NewerFormat, OpenOutcome, Store, StoreError};

use super::keyspaces::{EVENTS, META};

const NOTE_KEY: &[u8] = b"losses";
/// Version of the note: one byte, then JSON.
const VERSION: u8 = 1;
/// Maximum number of losses in a note; the others are counted in one more.
const MAX_NOTED: usize = 256;

/// Maximum number of ranges in a message; the record has all of them.
const MAX_LISTED: usize = 8;

/// Acknowledged data that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The queue or store.
    pub from: String,
    /// Number of entries, at most.
    pub count: u64,
    pub message: String,
    /// Records that are missing from the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainLoss>,
}

/// When, and in which run of the runtime, an event is made.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// Identity of the run.
    pub boot_id: String,
    /// Milliseconds since the start of the run, monotonic.
    pub mono_ms: u64,
    pub at: Wall,
    pub id: EventId,
}

impl Stamp {
    /// A record of an event without source, pictures and evidence; appending it sets number and
    /// hash.
    pub fn event(
        self,
        phase: Phase,
        severity: Severity,
        body: EventBody,
        decision: Decision,
    ) -> Event {
        Event {
            schema: EVENT_SCHEMA,
            id: self.id,
            seq: EventSeq(0),
            boot_id: self.boot_id,
            mono_ms: self.mono_ms,
            at: self.at,
            phase,
            source: None,
            pipeline: None,
            definition: None,
            severity,
            body,
            decision,
            evidence: Vec::new(),
            media: Vec::new(),
            assessment: None,
            clip: None,
            hash: String::new(),
        }
    }
}

impl Loss {
    /// A loss that does not concern records of the journal.
    pub fn new(from: &str, count: u64, message: String) -> Self {
        Self {
            from: from.to_owned(),
            count,
            message,
            chain: None,
        }
    }

    /// The loss of the records that `chain` names.
    pub(super) fn missing_records(chain: ChainLoss) -> Self {
        let size = |range: &LostRange| range.last.0.saturating_sub(range.first.0) + 1;
        let (unsure, sure): (Vec<_>, Vec<_>) = chain.lost.iter().partition(|range| range.at_most);
        let mut parts = Vec::new();
        if !sure.is_empty() {
            parts.push(match sure.as_slice() {
                [one] if one.first == one.last => format!("event {} is lost", one.first),
                _ => format!("events {} are lost", numbers(&sure)),
            });
        }
        if !unsure.is_empty() {
            parts.push(format!(
                "at most events {} are lost; which of these numbers were given and still stored could not be known",
                numbers(&unsure)
            ));
        }
        Self {
            count: chain.lost.iter().map(size).sum(),
            message: format!("{}: {}", parts.join("; "), context(&chain)),
            chain: Some(chain),
            ..Self::new("journal", 0, String::new())
        }
    }

    /// The loss of `count` records that outlived younger ones.
    pub(super) fn older_records(count: u64, chain: ChainLoss) -> Self {
        let below = chain.lost.last().map_or(EventSeq(0), |range| range.last);
        let message = format!(
            "at most {count} records that retention had kept, of events 1 to {below}, are lost; which ones could not be known: {}",
            context(&chain)
        );
        Self {
            chain: Some(chain),
            ..Self::new("journal", count, message)
        }
    }

    /// The `new` and `end` records of the loss, which has no duration.
    pub fn events(&self, stamp: &Stamp) -> Vec<Event> {
        let record = |phase| {
            let body = EventBody::Loss {
                from: self.from.clone(),
                count: self.count,
                message: self.message.clone(),
                chain: self.chain.clone().map(Box::new),
            };
            let decision = Decision {
                verdict: Verdict::Record,
                confidence: 1.0,
                raw_confidence: None,
                reason: "a loss is always recorded".to_owned(),
                asks: None,
            };
            stamp
                .clone()
                .event(phase, Severity::Critical, body, decision)
        };
        [Phase::New, Phase::End].map(record).into()
    }
}

/// Lists numbers, such as `3, 5 to 9 and 2 more ranges`.
fn numbers(ranges: &[&LostRange]) -> String {
    let listed = ranges.iter().take(MAX_LISTED).map(|range| {
        if range.first == range.last {
            range.first.to_string()
        } else {
            format!("{} to {}", range.first, range.last)
        }
    });
    let listed = listed.collect::<Vec<_>>().join(", ");
    match ranges.len().saturating_sub(MAX_LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more ranges"),
    }
}

/// The cause of a loss, and how the chain continues.
fn context(chain: &ChainLoss) -> String {
    let why = match chain.cause {
        ChainLossCause::Damage => "the journal's files were damaged",
        ChainLossCause::Unknown => "they were removed, though the journal's files are sound",
    };
    format!(
        "{why}; the hash chain continues from event {} with event {}",
        chain.last, chain.next
    )
}

/// Losses found when the store was opened, now or earlier, and not reported yet.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct DamageNote {
    /// Acknowledged writes that are gone: the highest number that any start found.
    lost_batches: u64,
    /// Whether given numbers may be gone. Not visible in the store, because writing the note makes
    /// it whole.
    is_cut: bool,
    /// Whether damaged event records were removed.
    #[serde(default)]
    has_damaged_events: bool,
    losses: Vec<Loss>,
}

impl DamageNote {
    /// Whether given numbers may be gone.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether event records may be gone.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_cut || self.has_damaged_events
    }

    /// All losses of the note.
    pub(super) fn losses(&self) -> Vec<Loss> {
        let cut = (self.lost_batches > 0).then(|| {
            let message = format!(
                "the last {} writes to the journal's store are lost; sources and pipelines may be in an older state",
                self.lost_batches
            );
            Loss::new("store", self.lost_batches, message)
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
                let message = format!(
                    "the journal's store was beyond repair ({why}); it was set aside as {} and recreated with the {saved} records that could be read; sources and pipelines may be missing",
                    to.display()
                );
                self.losses.push(Loss::new("store", 1, message));
            }
        }
        // Missing events are named by number when the journal is opened.
        let is_event = |bad: &&CorruptRecord| bad.keyspace == EVENTS.name();
        self.has_damaged_events |= corrupt.iter().any(|bad| is_event(&bad));
        let records = corrupt.iter().filter(|bad| !is_event(bad));
        self.losses.extend(records.map(|bad| {
            let message = format!(
                "record {} of {} was damaged ({}) and removed",
                bad.key.escape_ascii(),
                bad.keyspace,
                bad.why
            );
            Loss::new(&bad.keyspace, 1, message)
        }));
        let more = self.losses.split_off(self.losses.len().min(MAX_NOTED));
        let count = more
            .iter()
            .fold(0, |sum: u64, loss| sum.saturating_add(loss.count));
        if count > 0 {
            let message =
                format!("{count} more records of the journal's store were damaged and removed");
            self.losses.push(Loss::new("store", count, message));
        }
    }
}

/// Reads the note of the store in `folder`.
///
/// # Errors
/// When the store can't be read, or a newer version wrote the note.
pub(super) fn read_note(store: &dyn Store, folder: &Path) -> Result<DamageNote, StoreError> {
    let bytes = match store.get(META, NOTE_KEY) {
        Ok(Some(bytes)) => bytes,
        // A damaged note is itself noted as a damaged record.
        Ok(None) | Err(StoreError::Corrupt { .. }) => return Ok(DamageNote::default()),
        Err(error) => return Err(error),
    };
    match bytes.split_first() {
        Some((&VERSION, json)) => Ok(serde_json::from_slice(json).unwrap_or_else(|error| DamageNote {
            lost_batches: 0,
            is_cut: true,
            has_damaged_events: true,
            // The checksum is correct, so this was written; at least the fact of a loss is known.
            losses: vec![Loss::new(
                "store",
                1,
                format!("records of the journal's store were lost; their note can't be read: {error}"),
            )],
        })),
        Some((&found, _)) => {
            Err(NewerFormat::new(folder, "the note of lost records", found, VERSION).into())
        }
        None => Ok(DamageNote::default()),
    }
}

/// The batch that adds the damage found when opening the store in `folder` to its note.
///
/// # Errors
/// Those of [`read_note`].
pub(super) fn note_damage(
    store: &dyn Store,
    folder: &Path,
    outcome: &OpenOutcome,
    corrupt: &[CorruptRecord],
) -> Result<Batch, StoreError> {
    let mut note = read_note(store, folder)?;
    note.add(outcome, corrupt);
    if note.losses().is_empty() && !note.is_damaged() {
        return Ok(Batch::new());
    }
    let mut bytes = vec![VERSION];
    // Plain text and numbers always serialise.
    bytes.extend(serde_json::to_vec(&note).unwrap_or_default());
    Ok(Batch::new().put(META, NOTE_KEY, &bytes))
}

/// Removes the note, together with `batch`.
pub(super) fn remove_note(batch: Batch) -> Batch {
    batch.delete(META, NOTE_KEY)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use std::sync::Arc;

    use watchkeeper_contract::time::TimeQuality;
    use watchkeeper_store::MemoryStore;

    use super::super::tests::opened;
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

    /// Notes damage like opening the store does.
    fn noting(store: &MemoryStore, outcome: &OpenOutcome, corrupt: &[CorruptRecord]) {
        let found = note_damage(store, Path::new("/state/journal"), outcome, corrupt).unwrap();
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
    fn damage_is_reported_until_its_events_are_appended() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let open = || {
            let (store, limits) = (Arc::clone(&store) as _, Limits::default());
            let result = Journal::with_store(store, state.path(), limits, &OpenOutcome::Clean);
            opened(result)
        };
        noting(&store, &OpenOutcome::Clean, &damaged(1));
        // A start that fails before it reports.
        assert_eq!(open().1.len(), 1);
        noting(&store, &OpenOutcome::Truncated { lost_batches: 3 }, &[]);
        // A later start that finds fewer: the larger number stays.
        noting(&store, &OpenOutcome::Truncated { lost_batches: 2 }, &[]);
        let (journal, losses) = open();
        let mut counts: Vec<u64> = losses.iter().map(|loss| loss.count).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 3]);
        let events = events_of(&losses);
        // One half of the events is not all of them.
        let (first, rest) = events.split_at(1);
        journal.set_unreported(&events);
        journal.append(first.to_vec()).unwrap();
        // Without the numbers that may have been given after them.
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
    fn lost_numbers_are_not_reused_after_failed_starts() {
        let state = tempfile::tempdir().unwrap();
        let store = Arc::new(MemoryStore::new());
        let open = || {
            let (store, limits) = (Arc::clone(&store) as _, Limits::default());
            let result = Journal::with_store(store, state.path(), limits, &OpenOutcome::Clean);
            opened(result)
        };
        let loss = Loss::new("test", 1, "an earlier loss".to_owned());
        let before = open().0.append(events_of(&[loss])).unwrap();
        let last_given = before.last().unwrap().seq;
        // One more was given, its batch is lost, and no mark names it. The start that found that
        // died; the store now looks whole.
        store.commit(Batch::new().mark(b"")).unwrap();
        noting(&store, &OpenOutcome::Truncated { lost_batches: 1 }, &[]);
        for _ in 0..3 {
            let (_, losses) = open();
            assert!(
                losses.iter().any(|loss| loss.from == "journal"),
                "{losses:?}"
            );
        }
        let (journal, losses) = open();
        let events = events_of(&losses);
        journal.set_unreported(&events);
        let appended = journal.append(events).unwrap();
        assert!(appended[0].seq.0 > last_given.0 + 1, "{}", appended[0].seq);
        assert_eq!(open().1, []);
    }

    #[test]
    fn note_is_bounded_and_counts_the_rest() {
        let (store, folder) = (MemoryStore::new(), Path::new("/state/journal"));
        noting(&store, &OpenOutcome::Clean, &damaged(MAX_NOTED + 7));
        let losses = read_note(&store, folder).unwrap().losses();
        assert_eq!(losses.len(), MAX_NOTED + 1);
        assert_eq!(
            losses.iter().map(|loss| loss.count).sum::<u64>(),
            MAX_NOTED as u64 + 7
        );
    }

    #[test]
    fn note_of_a_newer_version_keeps_the_journal_closed() {
        let store = MemoryStore::new();
        store
            .commit(Batch::new().put(META, NOTE_KEY, &[VERSION + 1]))
            .unwrap();
        let message = read_note(&store, Path::new("/state/journal"))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("the note of lost records has format 2"),
            "{message}"
        );
    }
}
