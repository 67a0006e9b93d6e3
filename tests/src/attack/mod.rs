//! Attacks on a running box, counted: kills, damaged files, and floods of invalid input.
//!
//! - Each attack has its own box. It counts acknowledged events that are neither there nor named in
//!   a loss record. It also counts ends of a process that nobody asked for, and measures the
//!   longest silence.
//! - The choices come from a seed, so a run can be repeated. Its timing differs.
//!
//! Not here: the command line (`bin/attack.rs`).

mod arena;
mod commands;
mod damage;
mod flaps;
mod kills;
mod model_files;
mod requests;
mod silence;

use std::time::Duration;

use serde::Serialize;

pub use self::commands::commands;
pub use self::damage::damage;
pub use self::flaps::flaps;
pub use self::kills::kills;
pub use self::model_files::model_files;
pub use self::requests::requests;

/// Longest accepted silence of a daemon.
pub const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Figures of one attack.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    pub attack: &'static str,
    /// Attempts and their numbers, such as `kills of a process`.
    pub attempts: Vec<(&'static str, u64)>,
    /// Acknowledged events and requests that are neither there nor reported as lost.
    pub silent_losses: u64,
    /// Ends of a process that the attack did not order, and panics.
    pub aborts: u64,
    /// Longest time without an answer from a daemon that ran.
    pub longest_silence_s: f64,
    /// One line for each of these and for each other violation.
    pub violations: Vec<String>,
}

impl Report {
    fn new(attack: &'static str) -> Self {
        Self {
            attack,
            ..Self::default()
        }
    }

    fn attempted(&mut self, what: &'static str, count: u64) {
        self.attempts.push((what, count));
    }

    /// Counts `count` losses that nothing reports.
    fn silent(&mut self, count: usize, line: impl FnOnce() -> String) {
        if count > 0 {
            self.silent_losses += count as u64;
            self.violations.push(line());
        }
    }

    fn silence(&mut self, lasted: Duration) {
        self.longest_silence_s = self.longest_silence_s.max(lasted.as_secs_f64());
    }

    /// Whether nothing was lost silently, no process ended by itself, no daemon was silent for
    /// [`MAX_SILENCE`], and nothing else was violated.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.silent_losses == 0
            && self.aborts == 0
            && self.longest_silence_s < MAX_SILENCE.as_secs_f64()
            && self.violations.is_empty()
    }
}
