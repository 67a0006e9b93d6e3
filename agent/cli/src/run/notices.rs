//! Notes of a run about its detector, window, source, warnings and failing steps, each printed
//! once.

use std::collections::BTreeSet;
use std::time::Duration;

use watchkeeper_contract::pipeline::{PipelineStatus, WindowState};
use watchkeeper_contract::source::SourceState;

use crate::output::Output;

/// Seconds after which an unreachable source is reported again; each report doubles them.
const REMIND_S: f64 = 10.0;

/// Notices that a run has already reported.
#[derive(Debug, Default)]
pub(super) struct Notices {
    has_detector: bool,
    has_window: bool,
    /// Why the source is away; `None` while it is live.
    pub(super) lost: Option<String>,
    reminder: Reminder,
    warnings: BTreeSet<String>,
    step_errors: BTreeSet<String>,
}

impl Notices {
    /// Prints what is new in the status. `continues` is whether the source is retried.
    pub(super) fn update(
        &mut self,
        pipeline: &PipelineStatus,
        source: &SourceState,
        continues: bool,
        elapsed: Duration,
        out: &Output,
    ) {
        if let (false, Some(detector)) = (self.has_detector, &pipeline.detector) {
            self.has_detector = true;
            out.note(format!("detecting with {detector}"));
        }
        if let (false, Some(WindowState::Failed { message })) = (self.has_window, &pipeline.window)
        {
            self.has_window = true;
            out.note(format!("the run continues without a window: {message}"));
        }
        match source {
            SourceState::Lost { message, .. } => {
                // After the first frame, the outage is an event, which a run as JSON prints.
                let is_told = pipeline.results.frames > 0 && out.is_json();
                if !is_told
                    && continues
                    && let Some(text) = self.reminder.lost(message, elapsed.as_secs_f64())
                {
                    out.note(text);
                }
                self.lost = Some(message.clone());
            }
            SourceState::Live { .. } => {
                self.lost = None;
                self.reminder = Reminder::default();
            }
            SourceState::Connecting { .. }
            | SourceState::Ended
            | SourceState::Failed { .. }
            | SourceState::Idle => {}
        }
        if continues {
            for warning in &pipeline.warnings {
                if self.warnings.insert(warning.message.clone()) {
                    out.note(&warning.message);
                }
            }
        }
        for (step, error) in &pipeline.results.step_errors {
            if self.step_errors.insert(step.clone()) {
                out.note(format!("step {step} failed: {}", error.message));
            }
        }
    }
}

/// Schedules the reports about one loss of the source. Pure: seconds since the start of the run go
/// in.
#[derive(Debug, Default)]
struct Reminder {
    message: Option<String>,
    /// When the source was lost.
    since_s: Option<f64>,
    /// How often [`REMIND_S`] was doubled.
    doublings: i32,
}

impl Reminder {
    /// Returns the report that is due: a new reason at once, the same one at growing intervals.
    fn lost(&mut self, message: &str, elapsed_s: f64) -> Option<String> {
        let elapsed_s = elapsed_s - *self.since_s.get_or_insert(elapsed_s);
        if self.message.as_deref() != Some(message) {
            self.message = Some(message.to_owned());
            return Some(format!("{message}; retrying"));
        }
        if elapsed_s < self.due_s() {
            return None;
        }
        while elapsed_s >= self.due_s() {
            self.doublings += 1;
        }
        Some(format!(
            "still retrying after {elapsed_s:.0} s: {message}; Ctrl-C stops the run"
        ))
    }

    fn due_s(&self) -> f64 {
        REMIND_S * 2f64.powi(self.doublings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_source_is_reported_at_growing_intervals() {
        let mut reminder = Reminder::default();
        let reported: Vec<u32> = (0..500)
            .filter(|second| reminder.lost("refused", f64::from(*second)).is_some())
            .collect();
        assert_eq!(reported, [0, 10, 20, 40, 80, 160, 320]);
        assert!(reminder.lost("no route", 500.0).is_some());
    }

    #[test]
    fn late_loss_is_reported_at_the_same_intervals() {
        let mut reminder = Reminder::default();
        let reported: Vec<u32> = (300..335)
            .filter(|second| reminder.lost("refused", f64::from(*second)).is_some())
            .collect();
        assert_eq!(reported, [300, 310, 320]);
    }
}
