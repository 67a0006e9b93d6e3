//! What becomes of the events, told to the program that started the agent: one JSON object a line on standard output.
//!
//! Invariant: a report is about the past. `delivered` is said only after the broker acknowledged everything up to that number,
//! `left` is the last line.

use std::io::Write;

use serde::{Deserialize, Serialize};
use watchkeeper_contract::id::EventSeq;

use crate::outbox::Outbox;

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

    /// Says how far everything is delivered, where that is further than before.
    pub(super) fn progress(&mut self, outbox: &Outbox) {
        let through = outbox.cursor().unwrap_or_default();
        if self.wanted && through > self.delivered && outbox.is_idle() {
            self.delivered = through;
            self.say(&Report::Delivered { through });
        }
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
