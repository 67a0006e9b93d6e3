//! Counts of a run.
//!
//! - Zones are counted by the rules, whose stays they are. Events are counted by the worker.

use watchkeeper_contract::pipeline::{PipelineResults, StepError};
use watchkeeper_engine::workflow::RunReport;

use super::Run;
use super::values::whole;

impl Run {
    /// The counts so far; the worker fills in event counts and elapsed time.
    pub fn results(&self) -> PipelineResults {
        let mut results = self.results.clone();
        for (name, visits) in self.rules.zones() {
            results.zones.insert(name.to_owned(), visits);
        }
        results.stages_ms = self.stages.means_ms();
        results.processor_s = self.stages.processor_s();
        results.discarded = self.rules.discarded();
        results.too_weak = self.rules.too_weak();
        results.damaged = self.damage.counts;
        results.suppressed = self.rules.suppressed();
        results.unwatched = self.rules.unwatched();
        results.outputs = self.execution.outputs_json();
        results.left_s = self.stop_after_s.map(|stop| {
            let now = self.clock.now();
            let watched = now.saturating_sub(self.began.unwrap_or(now));
            (stop - watched.as_secs_f64()).max(0.0)
        });
        results
    }

    pub(super) fn count_errors(&mut self, report: &RunReport) {
        for error in &report.errors {
            let unseen = || StepError {
                count: 0,
                message: String::new(),
            };
            let errors = &mut self.results.step_errors;
            let entry = errors.entry(error.step.clone()).or_insert_with(unseen);
            entry.count += 1;
            entry.message.clone_from(&error.message);
        }
    }

    pub(super) fn update_counts(&mut self) {
        for (slot, seen) in &mut self.tracked {
            let Some(detections) = self.execution.detections(*slot) else {
                continue;
            };
            seen.next_round(u64::MAX);
            for track in detections.boxes.iter().filter_map(|d| d.track) {
                if seen.touch(track).is_none() {
                    seen.touch_or_insert(track, ());
                    self.results.tracks += 1;
                }
            }
        }
        for (name, count_in, count_out) in &self.lines {
            if let Some(line) = self.results.lines.get_mut(name) {
                line.r#in = whole(self.execution.number(*count_in)).unwrap_or(line.r#in);
                line.out = whole(self.execution.number(*count_out)).unwrap_or(line.out);
            }
        }
    }
}
