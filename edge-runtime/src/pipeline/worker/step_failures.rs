//! Steps that fail again and again, as events: one `new` when a step does little else but fail, one `end` when it works again.
//!
//! A step that fails now and then is counted in the pipeline's status and is no event. Every run in which a step fails takes it one up, every run in which it
//! does not takes it one down, and where it runs on many elements (the crops of a picture) it fails if it does so on more than half of them; at [`ENOUGH`], when that has gone on for [`LASTING`], it is told, and it is over when it has not failed for [`WELL`]. So one that fails every other
//! time is never told, one that fails in all of its runs soon is, and runs in which a decision kept it from running count for neither.
//!
//! Owns which steps fail. Sans-IO: what happened to a frame goes in, records come out. Invariants: each step has at most one open event, and each that began
//! ends; at most [`MOST_TOLD`] are open at once, as the first ones lead to the cause and the status counts them all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use watchkeeper_contract::event::{EventBody, Phase};
use watchkeeper_contract::id::EventId;

use crate::pipeline::box_event::BoxRecord;

/// Runs with a failure, more than without, after which a step is told of.
const ENOUGH: u32 = 10;
/// How high the count goes: as many good runs end it as began it.
const MOST: u32 = ENOUGH;
/// Time for which it has to go on: a burst within a second is over before anybody could look.
const LASTING: Duration = Duration::from_secs(5);
/// Time without a failure after which it is over: what comes and goes is one event, and not one every few seconds.
const WELL: Duration = Duration::from_secs(30);
/// Steps of a pipeline that are told of at once.
const MOST_TOLD: usize = 8;
/// Characters of a step's own message that are told.
const MOST_WORDS: usize = 300;

/// A step that failed on a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed<'f> {
    /// Its name.
    pub step: &'f str,
    /// One sentence.
    pub message: &'f str,
    /// On how many elements it ran on this frame.
    pub calls: usize,
}

/// Whether a step has failed on a frame: on more of its elements than it worked on.
fn has_failed(step: &str, failed: &[Failed<'_>]) -> bool {
    let mut failures = failed.iter().filter(|f| f.step == step);
    let calls = failures.clone().next().map_or(0, |f| f.calls);
    failures.nth(calls / 2).is_some()
}

/// The steps of a pipeline that fail.
#[derive(Debug, Default)]
pub(crate) struct StepFailures {
    steps: BTreeMap<String, Step>,
}

#[derive(Debug)]
struct Step {
    /// Where the count stands.
    count: u32,
    /// Failures since it stood at nought.
    failures: u64,
    /// When it last stood at nought.
    since: Duration,
    /// When it failed last.
    last: Duration,
    message: String,
    told: Option<EventId>,
}

impl StepFailures {
    /// Takes what came of one frame at source time `at`: the steps that failed, and those that did not run.
    pub(crate) fn observe(
        &mut self,
        at: Duration,
        failed: &[Failed<'_>],
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
            let is_well = step.told.is_none() || at.saturating_sub(step.last) >= WELL;
            if step.count > 0 || !is_well {
                return true;
            }
            records.extend(step.end(name, Some(at)));
            false
        });
        for (number, one) in failed.iter().enumerate() {
            // A step fails on each element of a batch by itself, and ran once.
            let is_known = failed.iter().take(number).any(|f| f.step == one.step);
            if is_known || !has_failed(one.step, failed) {
                continue;
            }
            let told = self.steps.values().filter(|s| s.told.is_some()).count();
            let step = self.steps.entry(one.step.to_owned()).or_insert(Step {
                count: 0,
                failures: 0,
                since: at,
                last: at,
                message: String::new(),
                told: None,
            });
            step.count = (step.count + 1).min(MOST);
            step.failures += 1;
            step.last = at;
            step.message = one.message.chars().take(MOST_WORDS).collect();
            let lasted = at.saturating_sub(step.since);
            if step.told.is_none() && step.count >= ENOUGH && lasted >= LASTING && told < MOST_TOLD
            {
                let id = new_id();
                step.told = Some(id);
                records.push(BoxRecord {
                    id,
                    phase: Phase::New,
                    body: step.body(one.step, None),
                });
            }
        }
        records
    }

    /// The pipeline takes no more frames: what is open ends, though nobody saw it work.
    pub(crate) fn rest(&mut self) -> Vec<BoxRecord> {
        let steps = std::mem::take(&mut self.steps);
        let ended = steps.into_iter();
        ended
            .filter_map(|(name, step)| step.end(&name, None))
            .collect()
    }
}

impl Step {
    /// The end of what was told, if it was; `at` where it works again.
    fn end(&self, name: &str, at: Option<Duration>) -> Option<BoxRecord> {
        let id = self.told?;
        let lasted = at.map(|at| at.saturating_sub(self.since));
        Some(BoxRecord {
            id,
            phase: Phase::End,
            body: self.body(name, lasted),
        })
    }

    fn body(&self, name: &str, lasted: Option<Duration>) -> EventBody {
        EventBody::StepFailing {
            step: name.to_owned(),
            failures: self.failures,
            message: format!("step {name} fails again and again: {}", self.message),
            lasted_s: lasted.map(|d| (d.as_secs_f64() * 1e3).round() / 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: Duration = Duration::from_millis(200);

    /// What becomes of a run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Ran {
        Well,
        Badly,
        Not,
    }
    use Ran::{Badly, Not, Well};

    struct Bench {
        failing: StepFailures,
        at: Duration,
        ids: u128,
        /// Phase and failures of what was told.
        told: Vec<(Phase, u64)>,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                failing: StepFailures::default(),
                at: Duration::ZERO,
                ids: 0,
                told: Vec::new(),
            }
        }

        fn frames(&mut self, number: usize, ran: Ran) -> &mut Self {
            for _ in 0..number {
                self.at += FRAME;
                let failed = Failed {
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
                let records = self.failing.observe(self.at, failed, skipped, &mut new_id);
                self.note(records);
            }
            self
        }

        fn note(&mut self, records: Vec<BoxRecord>) {
            for record in records {
                let EventBody::StepFailing { failures, .. } = record.body else {
                    panic!("{record:?}");
                };
                self.told.push((record.phase, failures));
            }
        }
    }

    #[test]
    fn a_step_that_fails_on_every_frame_is_told_once_and_over_when_it_works_again() {
        let mut bench = Bench::new();
        bench.frames(200, Badly).frames(140, Well);
        assert_eq!(bench.told, [(Phase::New, 26)]);
        bench.frames(20, Well);
        assert_eq!(bench.told, [(Phase::New, 26), (Phase::End, 200)]);
    }

    #[test]
    fn a_burst_of_failures_and_a_step_that_fails_every_other_time_are_not_told() {
        let mut bench = Bench::new();
        bench.frames(20, Badly).frames(20, Well);
        for _ in 0..500 {
            bench.frames(1, Badly).frames(1, Well);
        }
        assert_eq!(bench.told, []);
    }

    #[test]
    fn a_step_that_runs_seldom_and_then_fails_is_told_as_well() {
        let mut bench = Bench::new();
        for _ in 0..10 {
            bench.frames(1, Badly).frames(300, Not);
        }
        assert_eq!(bench.told, [(Phase::New, 10)]);
    }

    #[test]
    fn what_comes_and_goes_is_one_event() {
        let mut bench = Bench::new();
        for _ in 0..20 {
            bench.frames(100, Badly).frames(20, Well);
        }
        assert_eq!(bench.told, [(Phase::New, 26)]);
    }

    #[test]
    fn a_step_that_fails_on_some_crops_of_each_picture_is_told_where_they_are_most() {
        for (failures, is_told) in [(1, false), (5, false), (6, true), (10, true)] {
            let mut failing = StepFailures::default();
            let one = Failed {
                step: "read",
                message: "no text",
                calls: 10,
            };
            let failed = vec![one; failures];
            let mut told = Vec::new();
            for frame in 0..200 {
                told.extend(
                    failing.observe(FRAME * frame, &failed, &[], &mut || EventId(ulid::Ulid(1))),
                );
            }
            assert_eq!(told.len(), usize::from(is_told), "{failures} of 10");
        }
    }

    #[test]
    fn what_is_open_ends_when_the_pipeline_rests() {
        let mut bench = Bench::new();
        bench.frames(100, Badly);
        let ended = bench.failing.rest();
        bench.note(ended);
        assert_eq!(bench.told, [(Phase::New, 26), (Phase::End, 100)]);
        assert_eq!(bench.failing.rest(), []);
    }

    #[test]
    fn of_a_hundred_failing_steps_eight_are_told_and_the_next_when_one_of_them_works_again() {
        let names: Vec<String> = (0..100).map(|n| format!("step-{n:02}")).collect();
        let mut failing = StepFailures::default();
        let (mut ids, mut told) = (0, 0);
        let mut new_id = || {
            ids += 1;
            EventId(ulid::Ulid(ids))
        };
        let mut at = Duration::ZERO;
        for frame in 0..400 {
            at += FRAME;
            let left_out = usize::from(frame >= 100);
            let failed = names.iter().skip(left_out).map(|name| Failed {
                step: name,
                message: "no memory",
                calls: 1,
            });
            let failed: Vec<_> = failed.collect();
            let records = failing.observe(at, &failed, &[], &mut new_id);
            told += records.iter().filter(|r| r.phase == Phase::New).count();
        }
        assert_eq!(told, MOST_TOLD + 1);
    }

    proptest! {
        #[test]
        fn whatever_happens_what_begins_ends(runs in prop::collection::vec((prop_oneof![Just(Well), Just(Badly), Just(Not)], 1_usize..60), 0..40)) {
            let mut bench = Bench::new();
            for (ran, frames) in runs {
                bench.frames(frames, ran);
            }
            let ended = bench.failing.rest();
            bench.note(ended);
            for pair in bench.told.chunks(2) {
                prop_assert_eq!(pair.iter().map(|p| p.0).collect::<Vec<_>>(), [Phase::New, Phase::End]);
            }
        }
    }
}
