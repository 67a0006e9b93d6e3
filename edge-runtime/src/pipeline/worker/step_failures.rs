//! Events about steps that keep failing: `new` when a step hardly works, `end` when it works again.
//!
//! A run in which a step fails adds one to its count, any other run subtracts one. Of many elements
//! (crops of one picture), more than half must fail. A step is reported when its count reaches
//! [`REPORT_COUNT`] and it has failed for [`MIN_DURATION`]; the event ends after [`RECOVERY_TIME`]
//! without a failure. Runs in which the step was skipped do not count.
//!
//! - Sans-IO: the result of a frame goes in, records come out.
//! - Each step has at most one open event, and every event ends.
//! - At most [`MAX_REPORTED`] events are open: the first ones lead to the cause, and the status
//!   counts all failures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::EventId;

use crate::pipeline::box_event::{BoxRecord, round_to_ms};

/// Surplus of failing over good runs at which a step is reported.
const REPORT_COUNT: u32 = 10;
/// Upper bound of the count: as many good runs end an event as failing runs began it.
const MAX_COUNT: u32 = REPORT_COUNT;
/// Minimum duration of failing, so that a burst within a second is not reported.
const MIN_DURATION: Duration = Duration::from_secs(5);
/// Time without a failure after which the event ends, so that a flapping step is one event.
const RECOVERY_TIME: Duration = Duration::from_secs(30);
/// Maximum number of steps of a pipeline that are reported at once.
const MAX_REPORTED: usize = 8;
/// Maximum length of a step's message in an event.
const MAX_MESSAGE_CHARS: usize = 300;

/// A step that failed on one element of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailedStepRun<'f> {
    pub step: &'f str,
    pub message: &'f str,
    /// Number of elements of the frame on which the step ran.
    pub calls: usize,
}

/// Whether a step failed on more than half of its elements.
fn has_failed(step: &str, failed: &[FailedStepRun<'_>]) -> bool {
    let mut failures = failed.iter().filter(|f| f.step == step);
    let calls = failures.clone().next().map_or(0, |f| f.calls);
    failures.nth(calls / 2).is_some()
}

/// The failing steps of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct StepFailures {
    steps: BTreeMap<String, Step>,
}

#[derive(Debug)]
struct Step {
    count: u32,
    /// Failures since the count was zero.
    failures: u64,
    /// When the count was last zero.
    since: Duration,
    /// When the step last failed.
    last: Duration,
    message: String,
    event: Option<EventId>,
}

impl StepFailures {
    /// Processes the result of one frame at source time `at`: failed steps and skipped steps.
    pub(crate) fn observe(
        &mut self,
        at: Duration,
        failed: &[FailedStepRun<'_>],
        skipped: &[Arc<str>],
        new_id: &mut dyn FnMut() -> EventId,
    ) -> Vec<BoxRecord> {
        let mut records = Vec::new();
        if self.steps.is_empty() && failed.is_empty() {
            return records;
        }
        self.steps.retain(|name, step| {
            let has_run = !skipped.iter().any(|s| **s == **name);
            if !has_run || has_failed(name, failed) {
                return true;
            }
            step.count = step.count.saturating_sub(1);
            let is_well = step.event.is_none() || at.saturating_sub(step.last) >= RECOVERY_TIME;
            if step.count > 0 || !is_well {
                return true;
            }
            records.extend(step.end(name, Some(at)));
            false
        });
        for (number, one) in failed.iter().enumerate() {
            // A step fails on each element of a batch separately, but ran once.
            let is_known = failed.iter().take(number).any(|f| f.step == one.step);
            if is_known || !has_failed(one.step, failed) {
                continue;
            }
            let reported = self.steps.values().filter(|s| s.event.is_some()).count();
            let step = self.steps.entry(one.step.to_owned()).or_insert(Step {
                count: 0,
                failures: 0,
                since: at,
                last: at,
                message: String::new(),
                event: None,
            });
            step.count = (step.count + 1).min(MAX_COUNT);
            step.failures += 1;
            step.last = at;
            step.message = one.message.chars().take(MAX_MESSAGE_CHARS).collect();
            let lasted = at.saturating_sub(step.since);
            if step.event.is_none()
                && step.count >= REPORT_COUNT
                && lasted >= MIN_DURATION
                && reported < MAX_REPORTED
            {
                let id = new_id();
                step.event = Some(id);
                records.push(BoxRecord::new(id, Phase::New, step.body(one.step, None)));
            }
        }
        records
    }

    /// Ends all open events, because the pipeline takes no more frames.
    pub(crate) fn end_all(&mut self) -> Vec<BoxRecord> {
        let steps = std::mem::take(&mut self.steps);
        let ended = steps.into_iter();
        ended
            .filter_map(|(name, step)| step.end(&name, None))
            .collect()
    }
}

impl Step {
    /// The end of the event, if one is open; `at` where the step works again.
    fn end(&self, name: &str, at: Option<Duration>) -> Option<BoxRecord> {
        let id = self.event?;
        let lasted = at.map(|at| at.saturating_sub(self.since));
        Some(BoxRecord::new(id, Phase::End, self.body(name, lasted)))
    }

    fn body(&self, name: &str, lasted: Option<Duration>) -> EventBody {
        EventBody::StepFailing {
            step: name.to_owned(),
            failures: self.failures,
            message: format!("step {name} keeps failing: {}", self.message),
            lasted_s: lasted.map(round_to_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: Duration = Duration::from_millis(200);

    /// How the step did in one run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Ran {
        Well,
        Badly,
        Not,
    }
    use Ran::{Badly, Not, Well};

    struct Bench {
        failures: StepFailures,
        at: Duration,
        ids: u128,
        /// Phases of the records, with their failures.
        records: Vec<(Phase, u64)>,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                failures: StepFailures::default(),
                at: Duration::ZERO,
                ids: 0,
                records: Vec::new(),
            }
        }

        fn frames(&mut self, number: usize, ran: Ran) -> &mut Self {
            for _ in 0..number {
                self.at += FRAME;
                let failed = FailedStepRun {
                    step: "detect",
                    message: "the network is broken",
                    calls: 2,
                };
                let skipped = [Arc::from("detect")];
                let failed: &[_] = if ran == Badly { &[failed, failed] } else { &[] };
                let skipped: &[_] = if ran == Not { &skipped } else { &[] };
                let ids = &mut self.ids;
                let mut new_id = || {
                    *ids += 1;
                    EventId(ulid::Ulid(*ids))
                };
                let records = self.failures.observe(self.at, failed, skipped, &mut new_id);
                self.note(records);
            }
            self
        }

        fn note(&mut self, records: Vec<BoxRecord>) {
            for record in records {
                let EventBody::StepFailing { failures, .. } = record.body else {
                    panic!("{record:?}");
                };
                self.records.push((record.phase, failures));
            }
        }
    }

    #[test]
    fn always_failing_step_is_one_event_until_it_works_again() {
        let mut bench = Bench::new();
        bench.frames(200, Badly).frames(140, Well);
        assert_eq!(bench.records, [(Phase::New, 26)]);
        bench.frames(20, Well);
        assert_eq!(bench.records, [(Phase::New, 26), (Phase::End, 200)]);
    }

    #[test]
    fn burst_and_every_other_failure_are_not_reported() {
        let mut bench = Bench::new();
        bench.frames(20, Badly).frames(20, Well);
        for _ in 0..500 {
            bench.frames(1, Badly).frames(1, Well);
        }
        assert_eq!(bench.records, []);
    }

    #[test]
    fn rarely_run_step_that_always_fails_is_reported() {
        let mut bench = Bench::new();
        for _ in 0..10 {
            bench.frames(1, Badly).frames(300, Not);
        }
        assert_eq!(bench.records, [(Phase::New, 10)]);
    }

    #[test]
    fn flapping_step_is_one_event() {
        let mut bench = Bench::new();
        for _ in 0..20 {
            bench.frames(100, Badly).frames(20, Well);
        }
        assert_eq!(bench.records, [(Phase::New, 26)]);
    }

    #[test]
    fn step_is_reported_if_it_fails_on_most_crops() {
        for (failures, is_reported) in [(1, false), (5, false), (6, true), (10, true)] {
            let mut tracker = StepFailures::default();
            let one = FailedStepRun {
                step: "read",
                message: "no text",
                calls: 10,
            };
            let failed = vec![one; failures];
            let mut records = Vec::new();
            for frame in 0..200 {
                records.extend(
                    tracker.observe(FRAME * frame, &failed, &[], &mut || EventId(ulid::Ulid(1))),
                );
            }
            assert_eq!(records.len(), usize::from(is_reported), "{failures} of 10");
        }
    }

    #[test]
    fn open_event_ends_when_the_pipeline_pauses() {
        let mut bench = Bench::new();
        bench.frames(100, Badly);
        let ended = bench.failures.end_all();
        bench.note(ended);
        assert_eq!(bench.records, [(Phase::New, 26), (Phase::End, 100)]);
        assert_eq!(bench.failures.end_all(), []);
    }

    #[test]
    fn at_most_eight_failing_steps_are_reported_at_once() {
        let names: Vec<String> = (0..100).map(|n| format!("step-{n:02}")).collect();
        let mut tracker = StepFailures::default();
        let (mut ids, mut reported) = (0, 0);
        let mut new_id = || {
            ids += 1;
            EventId(ulid::Ulid(ids))
        };
        let mut at = Duration::ZERO;
        for frame in 0..400 {
            at += FRAME;
            let left_out = usize::from(frame >= 100);
            let failed = names.iter().skip(left_out).map(|name| FailedStepRun {
                step: name,
                message: "no memory",
                calls: 1,
            });
            let failed: Vec<_> = failed.collect();
            let records = tracker.observe(at, &failed, &[], &mut new_id);
            reported += records.iter().filter(|r| r.phase == Phase::New).count();
        }
        assert_eq!(reported, MAX_REPORTED + 1);
    }

    proptest! {
        #[test]
        fn every_event_ends(runs in prop::collection::vec((prop_oneof![Just(Well), Just(Badly), Just(Not)], 1_usize..60), 0..40)) {
            let mut bench = Bench::new();
            for (ran, frames) in runs {
                bench.frames(frames, ran);
            }
            let ended = bench.failures.end_all();
            bench.note(ended);
            for pair in bench.records.chunks(2) {
                prop_assert_eq!(pair.iter().map(|p| p.0).collect::<Vec<_>>(), [Phase::New, Phase::End]);
            }
        }
    }
}
