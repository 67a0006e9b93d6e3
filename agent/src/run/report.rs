//! Reports the delivery of events to the program that started the agent, one JSON object a line on
//! standard output.
//!
//! Invariants:
//! - A report is about the past: `delivered` follows the broker's acknowledgement of every record
//!   up to its number.
//! - `left` is the last line.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::EventSeq;

use crate::fleet::outbox::Outbox;

/// Minimum interval between two `acked` reports.
const ACKED_INTERVAL: Duration = Duration::from_secs(1);

/// One line of standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The broker accepted a session.
    Connected,
    /// No session; the agent retries. Written once per row of failures with one reason.
    Unreachable {
        /// One sentence, free of credentials.
        reason: String,
    },
    /// The broker acknowledged every record of the journal up to this number.
    Delivered {
        /// Sequence number of the last record.
        through: EventSeq,
    },
    /// The broker acknowledges while others wait. Written at most once per [`ACKED_INTERVAL`].
    Acked {
        /// Messages acknowledged since the agent's start.
        messages: u64,
    },
    /// The agent stops.
    Left {
        /// Messages that the broker did not acknowledge.
        messages: usize,
        /// Sequence number of the last record that became a message.
        through: EventSeq,
    },
}

/// Writes reports where enabled, and remembers the last ones.
#[derive(Debug, Default)]
pub(super) struct Reports {
    is_enabled: bool,
    delivered: EventSeq,
    acked: u64,
    acked_at: Option<Instant>,
}

impl Reports {
    pub(super) fn enabled() -> Self {
        Self {
            is_enabled: true,
            ..Self::default()
        }
    }

    pub(super) fn write(&self, report: &Report) {
        if !self.is_enabled {
            return;
        }
        // A reader that closed the pipe needs no report.
        if let Ok(text) = serde_json::to_string(report) {
            writeln!(std::io::stdout(), "{text}").ok();
        }
    }

    /// Writes `delivered` or `acked`, where the outbox made progress.
    pub(super) fn write_progress(&mut self, outbox: &Outbox, now: Instant) {
        let through = outbox.cursor().unwrap_or_default();
        let (is_idle, acked) = (outbox.is_idle(), outbox.stats().acked);
        if let Some(report) = self.due_report(through, is_idle, acked, now) {
            self.write(&report);
        }
    }

    /// The report due for an outbox with cursor `through` and `acked` acknowledged messages.
    fn due_report(
        &mut self,
        through: EventSeq,
        is_idle: bool,
        acked: u64,
        now: Instant,
    ) -> Option<Report> {
        if !self.is_enabled {
            return None;
        }
        if is_idle {
            if through <= self.delivered {
                return None;
            }
            self.delivered = through;
            return Some(Report::Delivered { through });
        }
        let is_recent = |at: Instant| now.saturating_duration_since(at) < ACKED_INTERVAL;
        if acked <= self.acked || self.acked_at.is_some_and(is_recent) {
            return None;
        }
        (self.acked, self.acked_at) = (acked, Some(now));
        Some(Report::Acked { messages: acked })
    }

    /// Writes the last line.
    pub(super) fn write_left(&self, outbox: &Outbox) {
        let stats = outbox.stats();
        self.write(&Report::Left {
            messages: stats.events.entries + stats.assured.entries,
            through: outbox.cursor().unwrap_or_default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_backlog_is_reported_rarely_and_its_end_at_once() {
        let (mut reports, start) = (Reports::enabled(), Instant::now());
        let mut due = |is_idle: bool, acked: u64, after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            reports.due_report(EventSeq(9), is_idle, acked, now)
        };
        assert_eq!(due(false, 0, 0), None, "nothing was acknowledged");
        assert_eq!(due(false, 1, 10), Some(Report::Acked { messages: 1 }));
        assert_eq!(due(false, 2, 500), None, "too soon");
        assert_eq!(due(false, 3, 1500), Some(Report::Acked { messages: 3 }));
        assert_eq!(due(false, 3, 9000), None, "nothing new");
        let through = EventSeq(9);
        assert_eq!(due(true, 4, 9001), Some(Report::Delivered { through }));
        assert_eq!(due(true, 4, 20_000), None, "reported before");
    }
}
