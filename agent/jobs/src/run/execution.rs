//! The state of a run: which step may start, is tried again, or is given up.
//!
//! - A step starts when all that it waits for are done, in the order of the plan.
//! - A step that was done never starts again.
//! - A step that waits for a failed one is skipped; all others continue.
//! - Every run ends: each step is started at most tries × calls times.

use std::time::Duration;

use crate::plan::CheckedPlan;
use crate::tool::ToolError;

/// State of one step. Times are measured from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepState {
    Waiting,
    /// Waits for its next try.
    Paused {
        until: Duration,
    },
    Running,
    Done,
    Failed {
        why: String,
    },
    /// Not started, because of a failed or skipped step.
    Skipped {
        because: String,
    },
    Cancelled,
}

impl StepState {
    const fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Done | Self::Failed { .. } | Self::Skipped { .. } | Self::Cancelled
        )
    }
}

/// One start of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) step: usize,
    /// 0 for the step's own call, else the number of the alternative.
    pub(crate) call: usize,
    /// Number of the try of this call, from 1.
    pub(crate) attempt: u64,
}

/// Consequence of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    Again { in_: Duration },
    Alternative,
    GivenUp,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All steps are done.
    Done,
    /// A step failed; those that do not need it are done.
    Failed,
    Cancelled,
}

#[derive(Debug, Clone)]
struct Progress {
    state: StepState,
    call: usize,
    attempts: u64,
}

/// A run of a plan.
#[derive(Debug)]
pub(crate) struct Execution<'p> {
    plan: &'p CheckedPlan,
    steps: Vec<Progress>,
    dependants: Vec<Vec<usize>>,
    is_cancelled: bool,
}

impl<'p> Execution<'p> {
    pub(crate) fn new(plan: &'p CheckedPlan) -> Self {
        let fresh = Progress {
            state: StepState::Waiting,
            call: 0,
            attempts: 0,
        };
        Self {
            steps: vec![fresh; plan.plan().steps.len()],
            dependants: plan.graph().dependants(),
            plan,
            is_cancelled: false,
        }
    }

    /// Marks a step as done by an earlier process.
    pub(crate) fn restore_done(&mut self, step: usize) {
        self.set(step, StepState::Done);
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = &StepState> {
        self.steps.iter().map(|step| &step.state)
    }

    /// Starts at most `free` steps.
    pub(crate) fn start(&mut self, now: Duration, free: usize) -> Vec<Start> {
        let mut started = Vec::new();
        for step in 0..self.steps.len() {
            if started.len() >= free || self.is_cancelled {
                break;
            }
            if !self.may_start(step, now) {
                continue;
            }
            if let Some(progress) = self.steps.get_mut(step) {
                progress.state = StepState::Running;
                progress.attempts += 1;
                started.push(Start {
                    step,
                    call: progress.call,
                    attempt: progress.attempts,
                });
            }
        }
        started
    }

    fn may_start(&self, step: usize, now: Duration) -> bool {
        match self.steps.get(step).map(|progress| &progress.state) {
            Some(StepState::Waiting) => self.plan.waits_for(step).all(|needed| {
                let needed = self.steps.get(needed);
                needed.is_some_and(|needed| needed.state == StepState::Done)
            }),
            Some(StepState::Paused { until }) => *until <= now,
            _ => false,
        }
    }

    /// Takes the success of a running step.
    pub(crate) fn succeeded(&mut self, step: usize) {
        self.set(step, StepState::Done);
    }

    /// Takes the failure of a running step.
    pub(crate) fn failed(&mut self, step: usize, error: &ToolError, now: Duration) -> AfterFailure {
        let plan = self.plan.plan();
        let (Some(progress), Some(spec)) = (self.steps.get_mut(step), plan.steps.get(step)) else {
            return AfterFailure::GivenUp;
        };
        if self.is_cancelled {
            progress.state = StepState::Cancelled;
            return AfterFailure::GivenUp;
        }
        if matches!(error, ToolError::Transient(_)) && progress.attempts < spec.retry.tries {
            let pause = spec.retry.pause(progress.attempts);
            progress.state = StepState::Paused { until: now + pause };
            return AfterFailure::Again { in_: pause };
        }
        if progress.call < spec.alternatives.len() {
            progress.call += 1;
            progress.attempts = 0;
            progress.state = StepState::Paused { until: now };
            return AfterFailure::Alternative;
        }
        let why = error.to_string();
        self.set(step, StepState::Failed { why });
        self.skip_dependants(step);
        AfterFailure::GivenUp
    }

    fn skip_dependants(&mut self, failed: usize) {
        let because = self.name(failed);
        let mut open = self.dependants.get(failed).cloned().unwrap_or_default();
        while let Some(step) = open.pop() {
            let waits = self
                .steps
                .get(step)
                .is_some_and(|s| s.state == StepState::Waiting);
            if waits {
                let because = because.clone();
                self.set(step, StepState::Skipped { because });
                open.extend(self.dependants.get(step).into_iter().flatten());
            }
        }
    }

    /// Cancels all steps that do not run; running steps are notified by their context.
    pub(crate) fn cancel(&mut self) {
        self.is_cancelled = true;
        for progress in &mut self.steps {
            if matches!(
                progress.state,
                StepState::Waiting | StepState::Paused { .. }
            ) {
                progress.state = StepState::Cancelled;
            }
        }
    }

    /// When a paused step may be tried again; `None` while no thread is free.
    pub(crate) fn wakes_at(&self, free: usize) -> Option<Duration> {
        if free == 0 {
            return None;
        }
        let paused = self.steps.iter().filter_map(|step| match step.state {
            StepState::Paused { until } => Some(until),
            _ => None,
        });
        paused.min()
    }

    /// How the run ended; `None` while a step is open.
    pub(crate) fn ended(&self) -> Option<Ended> {
        if !self.states().all(StepState::is_final) {
            return None;
        }
        Some(
            if self.states().any(|state| *state == StepState::Cancelled) {
                Ended::Cancelled
            } else if self.states().all(|state| *state == StepState::Done) {
                Ended::Done
            } else {
                Ended::Failed
            },
        )
    }

    fn set(&mut self, step: usize, state: StepState) {
        if let Some(progress) = self.steps.get_mut(step) {
            progress.state = state;
        }
    }

    fn name(&self, step: usize) -> String {
        let step = self.plan.plan().steps.get(step);
        step.map(|step| step.name.clone()).unwrap_or_default()
    }
}
