//! Bounds and counts of the outbox.
//!
//! Invariant: only data. [`Outbox`](super::Outbox) decides what happens at a bound.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassLimits {
    pub entries: usize,
    /// Maximum of bytes in payloads and topics.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub assured: ClassLimits,
    pub events: ClassLimits,
    /// Maximum of published messages without an acknowledgement.
    pub window: usize,
    /// Maximum of entries that wait to be stored; beyond it
    /// [`Outbox::wants_more`](super::Outbox::wants_more) is false.
    pub staged: usize,
    /// Time without an acknowledgement after which the link is stuck.
    pub ack_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            assured: ClassLimits {
                entries: 10_000,
                bytes: 16 << 20,
            },
            events: ClassLimits {
                entries: 100_000,
                bytes: 256 << 20,
            },
            window: 32,
            staged: 256,
            ack_timeout: Duration::from_secs(30),
        }
    }
}

/// Counts of one class, for telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ClassStats {
    /// Entries that wait or are in flight.
    pub entries: usize,
    pub bytes: u64,
    /// Entries dropped since the start, each counted in a loss record.
    pub dropped: u64,
}

/// Counts of the outbox, for telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Stats {
    /// Counts of [`Class::Assured`](super::Class::Assured), loss records included.
    pub assured: ClassStats,
    pub events: ClassStats,
    /// Messages published and not acknowledged.
    pub in_flight: usize,
    /// Messages acknowledged since the start.
    pub acked: u64,
}
