//! Decides what happens to events that the journal refuses. No I/O: an error goes in, a remedy
//! comes out.
//!
//! | class | errors | remedy |
//! |---|---|---|
//! | full | the disk is full | old recordings and pictures are deleted ([`disk_space`]); then wait without limit, because a user frees the disk and no event of a pipeline is lost meanwhile |
//! | read-only | the disk is mounted read-only, and the store is not open for writing | wait without limit, as for a full disk |
//! | transient | the system refused, and the store still takes writes | retry for [`RETRY_TIMEOUT`], then as broken |
//! | broken | the store is poisoned, damaged or newer than this build | end the process: opening the store checks it, and repairs it or sets it aside |
//! | unstorable | this event can never be stored (too large) | a [`Loss`] replaces it, and later events do not wait |
//!
//! - Only a full or read-only disk is retried without limit.
//!
//! [`disk_space`]: crate::pipeline::retention::disk_space

use std::io;
use std::time::{Duration, Instant};

use watchkeeper_contract::event::Event;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::time::Wall;
use watchkeeper_store::StoreError;

use crate::journal::{JournalError, Loss, Stamp};

/// How long a transient error is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// The outlook of events that wait for a full or read-only disk.
pub const STORED_LATER: &str = "they are stored later without a restart";

/// Why events are not stored at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageError {
    /// A phrase, with the remedy where a user has one.
    pub why: String,
    /// Whether it is waited for without limit: the disk is full or read-only.
    pub is_waited_for: bool,
    /// When the first write was refused.
    pub since: Wall,
}

impl StorageError {
    /// Describes why `error`, first met at `since`, keeps events from the disk.
    pub(super) fn new(error: &JournalError, since: Wall) -> Self {
        let class = classify(error);
        let why = match (error, class) {
            // The store's errors name it themselves.
            (JournalError::Reservation(_), Class::Full(_)) => {
                format!("{error}; free some space on its disk")
            }
            (JournalError::Reservation(_), Class::ReadOnly) => {
                format!("{error}; mount its disk for writing")
            }
            _ => error.to_string(),
        };
        Self {
            why,
            is_waited_for: matches!(class, Class::Full(_) | Class::ReadOnly),
            since,
        }
    }

    /// The next step, as the end of a sentence about it.
    pub fn outlook(&self) -> String {
        if self.is_waited_for {
            return STORED_LATER.to_owned();
        }
        let seconds = RETRY_TIMEOUT.as_secs();
        format!("the runtime restarts if the error lasts {seconds} s")
    }
}

/// Next step of the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Free this many bytes and retry.
    FreeSpace(u64),
    /// Retry after a pause.
    Wait,
    /// End the process, to be restarted.
    Restart,
    /// Replace the event by a loss record.
    GiveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Full(u64),
    ReadOnly,
    Transient,
    Broken,
    Unstorable,
}

fn classify(error: &JournalError) -> Class {
    match error {
        JournalError::Store(error) => match error {
            StoreError::Full { needed, .. } => Class::Full(*needed),
            error if error.is_disk_refusal() => Class::ReadOnly,
            StoreError::Poisoned { .. } | StoreError::Damaged { .. } | StoreError::Newer(_) => {
                Class::Broken
            }
            StoreError::TooLarge { .. } | StoreError::BadKey { .. } => Class::Unstorable,
            StoreError::InUse { .. }
            | StoreError::NotWritable { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Io { .. }
            | StoreError::Injected(_) => Class::Transient,
        },
        JournalError::Reservation(refused) => match refused.source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Class::Full(1),
            io::ErrorKind::ReadOnlyFilesystem => Class::ReadOnly,
            _ => Class::Transient,
        },
        JournalError::Unreadable { .. } => Class::Unstorable,
    }
}

/// The refusals of one group of events.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    since: Option<Instant>,
}

impl Refusals {
    /// Chooses the remedy for a refusal at `now`.
    pub(super) fn next(&mut self, error: &JournalError, now: Instant) -> Remedy {
        match classify(error) {
            Class::Full(needed) => {
                self.since = None;
                Remedy::FreeSpace(needed)
            }
            Class::ReadOnly => {
                self.since = None;
                Remedy::Wait
            }
            Class::Transient => {
                let since = *self.since.get_or_insert(now);
                if now.saturating_duration_since(since) < RETRY_TIMEOUT {
                    Remedy::Wait
                } else {
                    Remedy::Restart
                }
            }
            Class::Broken => Remedy::Restart,
            Class::Unstorable => Remedy::GiveUp,
        }
    }
}

/// The records that replace an event which can't be stored.
pub(super) fn loss_of(event: &Event, error: &JournalError) -> Vec<Event> {
    let message = format!(
        "a record of event {} could not be stored and is lost: {error}",
        event.id
    );
    let loss = Loss::new("recorder", 1, message);
    let stamp = Stamp {
        boot_id: event.boot_id.clone(),
        mono_ms: event.mono_ms,
        at: event.at,
        id: EventId::generate(),
    };
    let mut records = loss.events(&stamp);
    for record in &mut records {
        record.source.clone_from(&event.source);
        record.pipeline.clone_from(&event.pipeline);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::ReservationError;

    fn io_error() -> JournalError {
        JournalError::Store(StoreError::Io {
            path: "/state".into(),
            what: "write",
            source: io::Error::other("odd"),
        })
    }

    fn full() -> JournalError {
        JournalError::Store(StoreError::Full {
            path: "/state".into(),
            free: 0,
            needed: 7,
        })
    }

    #[test]
    fn full_disk_is_waited_for_without_limit() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for hours in 0..100 {
            let now = start + Duration::from_secs(hours * 3600);
            assert_eq!(refusals.next(&full(), now), Remedy::FreeSpace(7));
        }
    }

    #[test]
    fn read_only_disk_is_waited_for_without_limit() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let read_only = JournalError::Store(StoreError::NotWritable {
            path: "/state".into(),
            source: io::ErrorKind::ReadOnlyFilesystem.into(),
        });
        for hours in 0..100 {
            let now = start + Duration::from_secs(hours * 3600);
            assert_eq!(refusals.next(&read_only, now), Remedy::Wait);
        }
    }

    #[test]
    fn remedy_of_a_storage_error_fits_its_class() {
        let reservation = |kind: io::ErrorKind| {
            JournalError::Reservation(ReservationError {
                path: "/state/journal.reserved".into(),
                action: "written",
                source: kind.into(),
            })
        };
        let read_only = |kind: io::ErrorKind| {
            JournalError::Store(StoreError::NotWritable {
                path: "/state".into(),
                source: kind.into(),
            })
        };
        let cases = [
            (full(), "free some space", true),
            (
                reservation(io::ErrorKind::StorageFull),
                "free some space",
                true,
            ),
            (
                read_only(io::ErrorKind::ReadOnlyFilesystem),
                "for writing",
                true,
            ),
            (
                reservation(io::ErrorKind::ReadOnlyFilesystem),
                "for writing",
                true,
            ),
            (io_error(), "odd", false),
        ];
        for (error, part, is_waited_for) in cases {
            let storage = StorageError::new(&error, crate::clock::wall());
            let text = format!("{}; {}", storage.why, storage.outlook());
            assert_eq!(storage.is_waited_for, is_waited_for, "{text}");
            for remedy in ["free some space", "for writing"] {
                let expected = usize::from(part == remedy);
                assert_eq!(text.matches(remedy).count(), expected, "{text}");
            }
            assert!(text.contains(part), "{text}");
            assert_eq!(text.contains("without a restart"), is_waited_for, "{text}");
            assert_eq!(text.contains("restarts if"), !is_waited_for, "{text}");
        }
    }

    #[test]
    fn transient_error_is_retried_then_restarts() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.next(&io_error(), start), Remedy::Wait);
        let later = start + RETRY_TIMEOUT - Duration::from_secs(1);
        assert_eq!(refusals.next(&io_error(), later), Remedy::Wait);
        assert_eq!(
            refusals.next(&io_error(), start + RETRY_TIMEOUT),
            Remedy::Restart
        );
    }

    #[test]
    fn broken_store_restarts_and_oversized_event_is_given_up() {
        let mut refusals = Refusals::default();
        let poisoned = JournalError::Store(StoreError::Poisoned {
            path: "/state".into(),
            why: "x".to_owned(),
        });
        assert_eq!(refusals.next(&poisoned, Instant::now()), Remedy::Restart);
        let large = JournalError::Store(StoreError::TooLarge {
            keyspace: "events",
            len: 9,
        });
        assert_eq!(refusals.next(&large, Instant::now()), Remedy::GiveUp);
    }
}
