//! Runs a plan: fills slots step by step, element by element.
//!
//! - A step that fails, or lacks inputs, has missing outputs; nothing else changes.
//! - A block that panics fails its step and is rebuilt; one that keeps panicking is run rarely.
//! - A steady workflow allocates nothing: outputs stay in their slots until their step runs again.
//!   [`Execution::release`] drops those with other holders, from the last step backwards; a step
//!   reuses its former output from `Call::spare` through `Call::blank`. A step that does not run
//!   keeps the memory of its detections, emptied. Lists and dictionaries of arguments are refilled
//!   ([`Bundles`]).

use std::sync::Arc;
use std::time::Duration;

use super::bundles::Bundles;
use super::memory::{Memory, OWN_STREAM};
use super::panics::Panics;
use super::step_run::{StepFailure, StepRun, instance};
use crate::workflow::block_api::block::Instance;
use crate::workflow::block_api::host::Host;
use crate::workflow::block_api::manifest::Role;
use crate::workflow::language::definition::InputType;
use crate::workflow::plan::compiled::{Compiled, SlotId, WorkflowPlan};
use crate::workflow::values::image::ImageValue;
use crate::workflow::values::tree::Tree;
use crate::workflow::values::value::Value;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    pub errors: Vec<StepFailure>,
    /// Steps that ran on no element because of a decision or a missing input. The list is reused by
    /// the next run once the report is dropped.
    pub skipped: Arc<Vec<Arc<str>>>,
}

pub struct Execution {
    pub(crate) plan: Arc<WorkflowPlan>,
    pub(crate) blocks: Vec<Box<dyn Instance>>,
    pub(crate) memory: Memory,
    bundles: Vec<Bundles>,
    panics: Vec<Panics>,
    /// The list in the last report.
    skipped: Arc<Vec<Arc<str>>>,
}

impl Compiled {
    /// Creates an instance with its own state.
    pub fn instantiate(&self) -> Execution {
        Execution::new(Arc::clone(&self.plan))
    }
}

impl Execution {
    pub(crate) fn new(plan: Arc<WorkflowPlan>) -> Self {
        let blocks = plan.steps.iter().map(instance).collect();
        let memory = Memory::new(&plan);
        let bundles = plan.steps.iter().map(|s| Bundles::new(s.bundles)).collect();
        let panics = plan.steps.iter().map(|_| Panics::default()).collect();
        Self {
            plan,
            blocks,
            memory,
            bundles,
            panics,
            skipped: Arc::default(),
        }
    }

    /// Sets the stream number, so that identities differ from those of other streams.
    #[must_use]
    pub fn of_stream(mut self, stream: u64) -> Self {
        self.memory.ids.stream = stream | OWN_STREAM;
        self
    }

    /// Runs one frame. `image` goes to every image input, each of `batches` to the batch input with
    /// its slot; a batch input without value is a missing element. `now` is monotonic time for
    /// delays and cool-downs.
    pub fn run(
        &mut self,
        image: ImageValue,
        batches: &[(SlotId, Value)],
        now: Duration,
        host: &mut dyn Host,
    ) -> RunReport {
        self.release();
        let slots = self.memory.slots.iter_mut().zip(&self.plan.inputs);
        for (number, (slot, input)) in slots.enumerate() {
            match input.what {
                InputType::Image => {
                    // Detections name the input in which they were found.
                    let mut image = image.clone();
                    image.id = Arc::clone(&input.name);
                    renew(slot, image);
                }
                InputType::VideoMetadata => slot.put(&[0], Value::Meta(Arc::clone(&image.meta))),
                InputType::Batch { depth } => {
                    let given = batches.iter().find(|(s, _)| s.0 == number);
                    match given.map(|(_, value)| value).filter(|v| !v.is_null()) {
                        Some(value) if depth > 1 => {
                            *slot = Tree::nest(&Value::list(vec![value.clone()]), depth);
                        }
                        Some(value) => slot.put(&[0], value.clone()),
                        None => slot.clear(&[0]),
                    }
                }
                InputType::Parameter { .. } => {
                    slot.put(&[], input.value.clone());
                    continue;
                }
            }
            slot.resize(&[], 1);
        }
        self.memory.batch = 1;
        self.steps(now, host)
    }

    /// Runs the line counters on the elements of the last run once more: the source has ended, and
    /// they decide what they left undecided. Other steps keep their outputs.
    pub fn finish(&mut self, host: &mut dyn Host) -> RunReport {
        self.memory.is_end = true;
        let report = self.steps(self.memory.now, host);
        self.memory.is_end = false;
        report
    }

    /// Drops outputs of the last run that have other holders; the rest is memory for this run.
    /// Backwards, because steps that pass a value on follow the step that made it.
    pub(super) fn release(&mut self) {
        let outputs = self.memory.slots.iter_mut().skip(self.plan.inputs.len());
        outputs.rev().for_each(Tree::forget_shared);
    }

    pub(super) fn steps(&mut self, now: Duration, host: &mut dyn Host) -> RunReport {
        let mut errors = Vec::new();
        // If an earlier report is still held, its list stays untouched.
        if Arc::get_mut(&mut self.skipped).is_none() {
            self.skipped = Arc::default();
        }
        let skipped = Arc::make_mut(&mut self.skipped);
        skipped.clear();
        self.memory.now = now;
        let plan = Arc::clone(&self.plan);
        let blocks = self.blocks.iter_mut().zip(&mut self.bundles);
        let blocks = blocks.zip(&mut self.panics);
        for (step, ((block, bundles), panics)) in plan.steps.iter().zip(blocks) {
            if self.memory.is_end && step.manifest.role != Role::Line {
                continue;
            }
            let before = errors.len();
            host.begin_step(&step.name);
            let run = StepRun {
                plan: &plan,
                step,
                block,
                memory: &mut self.memory,
                bundles,
                panics,
                now,
                host,
                failures: &mut errors,
                calls: 0,
                left: 0,
                counting: false,
            };
            let calls = run.run();
            if calls == 0 {
                skipped.push(Arc::clone(&step.name));
            }
            for failure in errors.iter_mut().skip(before) {
                failure.calls = calls;
            }
        }
        RunReport {
            errors,
            skipped: Arc::clone(&self.skipped),
        }
    }
}

/// Replaces a picture, reusing its memory unless it has other holders.
fn renew(slot: &mut Tree<Value>, image: ImageValue) {
    let shared = match slot.take(&[0]) {
        Some(Value::Image(mut before)) => match Arc::get_mut(&mut before) {
            Some(place) => {
                *place = image;
                before
            }
            None => Arc::new(image),
        },
        _ => Arc::new(image),
    };
    slot.put(&[0], Value::Image(shared));
}
