//! What was lost, in a form that becomes an event.

use watchkeeper_contract::event::{Decision, EVENT_SCHEMA, Event, EventBody, Phase, Verdict};
use watchkeeper_contract::id::{EventId, EventSeq};
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::{CorruptRecord, OpenOutcome};

/// Something that we promised to keep is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What opening a store says, as losses. Damaged records of `events` are told by their number elsewhere.
pub(super) fn of_store(
    outcome: &OpenOutcome,
    corrupt: &[CorruptRecord],
    events: &str,
) -> Vec<Loss> {
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
    for bad in corrupt.iter().filter(|bad| bad.keyspace != events) {
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
