//! How much the outbox keeps, and how much it holds.
//!
//! Invariant: figures only. What happens at a bound is decided by [`Outbox`](super::Outbox).

use std::time::Duration;

/// Bounds of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassLimits {
    pub entries: usize,
    /// Most bytes of payloads and topics.
    pub bytes: u64,
}

/// Bounds of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub assured: ClassLimits,
    pub events: ClassLimits,
    /// Most messages that were published and not acknowledged.
    pub window: usize,
    /// Most entries that wait to be stored; beyond that [`Outbox::wants_more`](super::Outbox::wants_more) is false.
    pub staged: usize,
    /// An acknowledgement that takes longer means that the link is stuck.
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

/// Numbers of one class, for telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ClassStats {
    /// Entries that wait or are in flight.
    pub entries: usize,
    pub bytes: u64,
    /// Entries dropped since the start, each counted in a loss record.
    pub dropped: u64,
}

/// Numbers of the outbox, for telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Stats {
    /// Of [`Class::Assured`](super::Class::Assured), loss records included.
    pub assured: ClassStats,
    pub events: ClassStats,
    /// Published and not acknowledged.
    pub in_flight: usize,
    /// Acknowledged since the start.
    pub acked: u64,
}
