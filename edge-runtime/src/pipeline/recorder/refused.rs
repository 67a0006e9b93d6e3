//! What becomes of events that the journal refuses.
//!
//! Owns the policy, and no I/O: an error goes in, what to do comes out.
//!
//! | class | which errors | what is done |
//! |---|---|---|
//! | no room | the disk is full | old recordings and pictures give way ([`crate::pipeline::retention::disk_space`]); then it is waited for, for as long as it takes: a person frees the disk, and nothing is lost meanwhile |
//! | may pass | the system refused, and the store still takes writes | tried again for [`PATIENCE`], then as below |
//! | the store is broken | poisoned, damaged or newer than this build | the process ends, to be started again: opening checks, mends or sets aside |
//! | hopeless | this very event can't be stored, now or ever (too large) | a [`Loss`](crate::journal::Loss) takes its place, and nothing behind it waits |
//!
//! Invariant: no error is tried again for ever but that of a full disk.

use std::io;
use std::time::{Duration, Instant};

use watchkeeper_store::StoreError;

use crate::journal::JournalError;

/// How long an error that may pass may last.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Make room for this many bytes, and try again.
    MakeRoom(u64),
    /// Try again in a while.
    Wait,
    /// Have the process started again.
    Restart,
    /// Give this event up and say so.
    GiveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    NoRoom(u64),
    MayPass,
    Broken,
    Hopeless,
}

fn class(error: &JournalError) -> Class {
    match error {
        JournalError::Store(error) => match error {
            StoreError::Full { needed, .. } => Class::NoRoom(*needed),
            StoreError::Poisoned { .. } | StoreError::Damaged { .. } | StoreError::Newer(_) => {
                Class::Broken
            }
            StoreError::TooLarge { .. } | StoreError::BadKey { .. } => Class::Hopeless,
            StoreError::InUse { .. }
            | StoreError::NotWritable { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Io { .. }
            | StoreError::Injected(_) => Class::MayPass,
        },
        JournalError::Reservation { source, .. } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Class::NoRoom(1),
            _ => Class::MayPass,
        },
        JournalError::Unreadable { .. } => Class::Hopeless,
    }
}

/// The refusals of one group of events.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    since: Option<Instant>,
}

impl Refusals {
    /// Judges the refusal that came at `now`.
    pub(super) fn next(&mut self, error: &JournalError, now: Instant) -> Remedy {
        match class(error) {
            Class::NoRoom(needed) => {
                self.since = None;
                Remedy::MakeRoom(needed)
            }
            Class::MayPass => {
                let since = *self.since.get_or_insert(now);
                if now.saturating_duration_since(since) < PATIENCE {
                    Remedy::Wait
                } else {
                    Remedy::Restart
                }
            }
            Class::Broken => Remedy::Restart,
            Class::Hopeless => Remedy::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_full_disk_is_waited_for_as_long_as_it_takes() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for hours in 0..100 {
            let now = start + Duration::from_secs(hours * 3600);
            assert_eq!(refusals.next(&full(), now), Remedy::MakeRoom(7));
        }
    }

    #[test]
    fn what_may_pass_is_tried_for_a_while_and_then_the_process_is_started_again() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.next(&io_error(), start), Remedy::Wait);
        let later = start + PATIENCE - Duration::from_secs(1);
        assert_eq!(refusals.next(&io_error(), later), Remedy::Wait);
        assert_eq!(
            refusals.next(&io_error(), start + PATIENCE),
            Remedy::Restart
        );
    }

    #[test]
    fn a_broken_store_is_not_tried_again_and_an_event_that_is_too_large_holds_nobody_up() {
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
