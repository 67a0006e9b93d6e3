//! What becomes of the events, told to the program that started the agent: one JSON object a line on standard output.
//!
//! Invariant: a report is about the past. `delivered` is said only after the broker acknowledged everything up to that number,
//! `left` is the last line.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::EventSeq;

use crate::fleet::outbox::Outbox;

/// Least time between two words about a backlog that gets shorter.
const ACKED_EVERY: Duration = Duration::from_secs(1);

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The broker accepted a session.
    Connected,
    /// There is no session; it is tried again. Said once in a row.
    Unreachable {
        /// One sentence, free of credentials.
        reason: String,
    },
    /// Every record of the journal up to this number has been acknowledged by the broker.
    Delivered {
        /// Number of the last one.
        through: EventSeq,
    },
    /// The broker acknowledges, and others still wait. Said at most once in [`ACKED_EVERY`].
    Acked {
        /// Messages that it acknowledged since the agent started.
        messages: u64,
    },
    /// The agent stops.
    Left {
        /// Messages that the broker did not acknowledge.
        messages: usize,
        /// Number of the last record that became a message.
        through: EventSeq,
    },
}

/// Whether and what was reported.
#[derive(Debug, Default)]
pub(super) struct Reports {
    wanted: bool,
    delivered: EventSeq,
    acked: u64,
    acked_said: Option<Instant>,
}

impl Reports {
    pub(super) fn wanted() -> Self {
        Self {
            wanted: true,
            ..Self::default()
        }
    }

    /// Says one thing.
    pub(super) fn say(&self, report: &Report) {
        if !self.wanted {
            return;
        }
        // A listener that is gone does not want to know any more.
        if let Ok(text) = serde_json::to_string(report) {
            writeln!(std::io::stdout(), "{text}").ok();
        }
    }

    /// Says how far everything is delivered, where that is further than before, and that it goes on where something waits.
    pub(super) fn progress(&mut self, outbox: &Outbox, now: Instant) {
        let through = outbox.cursor().unwrap_or_default();
        let (is_idle, acked) = (outbox.is_idle(), outbox.stats().acked);
        if let Some(report) = self.due(through, is_idle, acked, now) {
            self.say(&report);
        }
    }

    /// What is to be said of an outbox that has read up to `through`, holds nothing any more or does, and had so many messages acknowledged.
    fn due(
        &mut self,
        through: EventSeq,
        is_idle: bool,
        acked: u64,
        now: Instant,
    ) -> Option<Report> {
        if !self.wanted {
            return None;
        }
        if is_idle {
            if through <= self.delivered {
                return None;
            }
            self.delivered = through;
            return Some(Report::Delivered { through });
        }
        let is_soon = |said: Instant| now.saturating_duration_since(said) < ACKED_EVERY;
        if acked <= self.acked || self.acked_said.is_some_and(is_soon) {
            return None;
        }
        (self.acked, self.acked_said) = (acked, Some(now));
        Some(Report::Acked { messages: acked })
    }

    /// The last word.
    pub(super) fn left(&self, outbox: &Outbox) {
        let stats = outbox.stats();
        self.say(&Report::Left {
            messages: stats.events.entries + stats.assured.entries,
            through: outbox.cursor().unwrap_or_default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_gets_shorter_is_told_now_and_then_and_its_end_at_once() {
        let (mut reports, start) = (Reports::wanted(), Instant::now());
        let mut due = |is_idle: bool, acked: u64, after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            reports.due(EventSeq(9), is_idle, acked, now)
        };
        assert_eq!(due(false, 0, 0), None, "nothing was acknowledged");
        assert_eq!(due(false, 1, 10), Some(Report::Acked { messages: 1 }));
        assert_eq!(due(false, 2, 500), None, "so soon");
        assert_eq!(due(false, 3, 1500), Some(Report::Acked { messages: 3 }));
        assert_eq!(due(false, 3, 9000), None, "nothing new");
        let through = EventSeq(9);
        assert_eq!(due(true, 4, 9001), Some(Report::Delivered { through }));
        assert_eq!(due(true, 4, 20_000), None, "said already");
    }
}
