//! Runs one step on all its elements.
//!
//! - A block that fails or panics fails for one element; other elements and steps run.
//! - An element on which the block did not run has no outputs, never those of an earlier frame.
//! - Arguments are dropped after each call, so that their producers can reuse the memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::workflow::block_api::block::Instance;
use crate::workflow::block_api::call::{Call, Declarations};
use crate::workflow::block_api::host::Host;
use crate::workflow::block_api::manifest::Depth;
use crate::workflow::block_api::property::{BOXES, Property};
use crate::workflow::block_api::shape::Shape;
use crate::workflow::plan::compiled::{PlanInput, PlanStep, ShapeOf, Source, WorkflowPlan};
use crate::workflow::values::tree::Tree;
use crate::workflow::values::value::Value;

use super::bundles::Bundles;
use super::memory::Memory;
use super::panics::Panics;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFailure {
    pub step: String,
    pub message: String,
    /// Number of elements on which the step ran in this run.
    pub calls: usize,
}

/// Builds the block of a step; one that can't be built, which compilation excludes, always fails.
pub(super) fn instance(step: &PlanStep) -> Box<dyn Instance> {
    step.build().unwrap_or_else(|error| {
        Box::new(move |_: &mut Call<'_>| -> Result<(), String> { Err(error.clone()) })
    })
}

/// Declarations of the properties of a step.
struct StepDeclarations<'a> {
    step: &'a PlanStep,
    inputs: &'a [PlanInput],
}

impl Declarations for StepDeclarations<'_> {
    fn property(&self, index: usize) -> Option<&'static Property> {
        self.step.manifest.properties.get(index)
    }

    fn input(&self, index: usize) -> Option<&str> {
        match self.step.args.get(index)? {
            Source::Slot(slot) => Some(&self.inputs.get(*slot)?.name),
            Source::Const(_) | Source::List(..) | Source::Dict(..) => None,
        }
    }
}

/// A step that is being run on all its elements.
pub(super) struct StepRun<'a> {
    pub(super) plan: &'a WorkflowPlan,
    pub(super) step: &'a PlanStep,
    pub(super) block: &'a mut Box<dyn Instance>,
    pub(super) memory: &'a mut Memory,
    pub(super) bundles: &'a mut Bundles,
    pub(super) panics: &'a mut Panics,
    pub(super) now: Duration,
    pub(super) host: &'a mut dyn Host,
    pub(super) failures: &'a mut Vec<StepFailure>,
    pub(super) calls: usize,
    /// Number of elements to come.
    pub(super) left: usize,
    /// Whether elements are only being counted.
    pub(super) counting: bool,
}

impl StepRun<'_> {
    /// Runs the step on all elements and returns their number. A block that needs the whole batch
    /// gets the number of remaining elements.
    pub(super) fn run(mut self) -> usize {
        if self.step.manifest.whole_batch {
            self.counting = true;
            self.level(0);
            self.counting = false;
        }
        self.level(0);
        self.calls
    }

    /// Runs the step on the elements below the current index.
    fn level(&mut self, depth: usize) {
        if depth == self.step.exec {
            self.element();
            return;
        }
        let index = &self.memory.index;
        let count = match self.step.shape {
            Some(ShapeOf::Slot(slot)) => self.memory.slots.get(slot).map(|t| t.len_at(index)),
            Some(ShapeOf::Branch(branch)) => {
                self.memory.branches.get(branch).map(|t| t.len_at(index))
            }
            None => None,
        }
        .unwrap_or(0);
        for output in 0..self.step.outputs.len() {
            if let Some(tree) = self.memory.slots.get_mut(self.step.first_slot + output) {
                tree.resize(index, count);
            }
        }
        for branch in 0..self.step.branch_count {
            if let Some(tree) = self
                .memory
                .branches
                .get_mut(self.step.first_branch + branch)
            {
                tree.resize(index, count);
            }
        }
        for i in 0..count {
            self.memory.index.push(i);
            self.level(depth + 1);
            self.memory.index.pop();
        }
    }

    /// Runs the block on the current element, or marks its outputs as missing.
    fn element(&mut self) {
        let ready = self.is_active() && self.gather();
        if self.counting {
            self.left += usize::from(ready);
            self.drop_args();
            return;
        }
        self.take_spares();
        if !ready {
            self.keep_dormant();
        }
        let done = ready && self.call();
        self.drop_args();
        let Memory {
            slots,
            branches,
            out,
            flags,
            index,
            ..
        } = &mut *self.memory;
        let deeper = self.step.manifest.depth == Depth::Deeper;
        for (i, value) in out.iter_mut().enumerate() {
            let Some(tree) = slots.get_mut(self.step.first_slot + i) else {
                continue;
            };
            let value = std::mem::take(value);
            match (done, deeper) {
                (true, false) => tree.put(index, value),
                (true, true) => tree.replace(index, Tree::nest(&value, 1)),
                (false, false) => tree.clear(index),
                (false, true) => tree.resize(index, 0),
            }
        }
        for (i, flag) in flags.iter().enumerate() {
            if let Some(tree) = branches.get_mut(self.step.first_branch + i) {
                tree.put(index, done && *flag);
            }
        }
    }

    /// Takes the last outputs, or the dormant ones, as spare memory.
    fn take_spares(&mut self) {
        let Memory {
            slots,
            spare,
            dormant,
            index,
            ..
        } = &mut *self.memory;
        spare.clear();
        let first = self.step.first_slot;
        let outputs = slots.iter_mut().zip(dormant).skip(first);
        let outputs = outputs.take(self.step.outputs.len());
        spare.extend(outputs.map(|(tree, dormant)| match tree.take(index) {
            Some(value) => value,
            None => dormant.take().map_or(Value::Null, Value::Detections),
        }));
    }

    /// Keeps the emptied memory of detections until the step runs again. Masks and pictures are
    /// dropped: they may be large, or belong to the decoder.
    fn keep_dormant(&mut self) {
        let Memory { spare, dormant, .. } = &mut *self.memory;
        let dormant = dormant.iter_mut().skip(self.step.first_slot);
        for (value, place) in spare.drain(..).zip(dormant) {
            if let Value::Detections(mut all) = value
                && let Some(own) = Arc::get_mut(&mut all)
            {
                own.boxes.clear();
                *place = Some(all);
            }
        }
    }

    /// Returns whether every condition of the step holds for this element.
    fn is_active(&mut self) -> bool {
        let memory = &mut *self.memory;
        memory.out.clear();
        memory.out.resize(self.step.outputs.len(), Value::Null);
        memory.flags.clear();
        memory.flags.resize(self.step.branch_count, false);
        self.step.conditions.iter().all(|(branch, depth)| {
            let index = memory.index.get(..*depth).unwrap_or(&memory.index);
            memory
                .branches
                .get(*branch)
                .and_then(|t| t.at(index))
                .is_some_and(|t| t.any(&|b| *b))
        })
    }

    /// Collects the values of the properties; false if a required one is missing.
    fn gather(&mut self) -> bool {
        let mut args = std::mem::take(&mut self.memory.args);
        let mut bundles = std::mem::take(&mut *self.bundles);
        args.clear();
        let mut sources = self.step.args.iter().zip(self.step.manifest.properties);
        let complete = sources.all(|(source, property)| {
            let value = self.read(source, &mut bundles);
            match value.or_else(|| self.value_at_end(property)) {
                Some(value) => {
                    args.push(value);
                    true
                }
                None => false,
            }
        });
        self.memory.args = args;
        *self.bundles = bundles;
        complete
    }

    /// Replacement for a missing value once the source has ended: a line decides its open
    /// crossings, also if the last frame gave it no detections.
    fn value_at_end(&self, property: &Property) -> Option<Value> {
        let takes_boxes = BOXES.iter().any(|kind| property.kinds.has(*kind));
        let is_data = matches!(property.shape, Shape::Selector);
        (self.memory.is_end && takes_boxes && is_data).then(|| Value::Detections(Arc::default()))
    }

    /// Drops the collected values, so that their producers can reuse the memory.
    fn drop_args(&mut self) {
        self.memory.args.clear();
        self.bundles.empty();
    }

    fn read(&self, source: &Source, bundles: &mut Bundles) -> Option<Value> {
        match source {
            Source::Const(value) => Some(value.clone()),
            Source::Slot(slot) => self.read_slot(*slot),
            Source::List(items, number) => {
                let mut list = bundles.list(*number);
                let place = Arc::get_mut(&mut list)?;
                let complete = items.iter().all(|source| {
                    let value = self.read(source, bundles);
                    value.map(|value| place.push(value)).is_some()
                });
                bundles.keep(*number, Value::List(Arc::clone(&list)));
                complete.then_some(Value::List(list))
            }
            Source::Dict(items, number) => {
                let mut dict = bundles.dict(*number);
                let place = Arc::get_mut(&mut dict)?;
                let complete = items.iter().all(|(key, source)| {
                    let Some(value) = self.read(source, bundles) else {
                        return false;
                    };
                    match place.get_mut(key) {
                        Some(before) => *before = value,
                        None => drop(place.insert(Arc::clone(key), value)),
                    }
                    true
                });
                bundles.keep(*number, Value::Dict(Arc::clone(&dict)));
                complete.then_some(Value::Dict(dict))
            }
        }
    }

    fn read_slot(&self, slot: usize) -> Option<Value> {
        let lenient = self.step.manifest.accepts_empty;
        let depth = self.plan.slots.get(slot)?.depth;
        let tree = self.memory.slots.get(slot)?;
        let index = &self.memory.index;
        let found = match index.get(..depth) {
            // A null scalar is valid; a null element of a batch is missing.
            Some(index) => tree
                .at(index)
                .and_then(Tree::leaf)
                .filter(|v| depth == 0 || !v.is_null())
                .cloned(),
            // Without any element there is nothing to collapse; if all are missing, the list is
            // empty.
            None => tree
                .at(index)
                .filter(|part| part.len_at(&[]) > 0)
                .map(|part| part.group(lenient)),
        };
        // A single value is collapsed as a batch of one.
        let is_single = depth == 0 && self.step.manifest.depth == Depth::Shallower;
        match found {
            Some(one) if is_single => Some(Value::list(vec![one])),
            None if lenient => Some(Value::Null),
            found => found,
        }
    }

    fn call(&mut self) -> bool {
        self.calls += 1;
        self.left = self.left.saturating_sub(1);
        let memory = &mut *self.memory;
        let mut call = Call {
            step: &self.step.name,
            declared: &StepDeclarations {
                step: self.step,
                inputs: &self.plan.inputs,
            },
            now: self.now,
            args: &memory.args,
            out: &mut memory.out,
            spare: &mut memory.spare,
            read: &self.step.read,
            branches: &mut memory.flags,
            cases: &self.step.cases,
            host: self.host,
            ids: &memory.ids,
            shared: &mut memory.shared,
            left: self.left,
            is_end: memory.is_end,
        };
        // A panic must not end other steps. Unwinding is safe because nothing half done is reused.
        // The block is rebuilt; its outputs, flags and spares are dropped. Values in slots are
        // immutable; shared values are set whole; identities only count up. Each frame is announced
        // to the host, and its cached answers belong to their picture.
        let block = &mut *self.block;
        let result = if self.now < self.panics.suspended_until {
            Err(self.panics.message.clone())
        } else {
            match catch_unwind(AssertUnwindSafe(|| block.run(&mut call))) {
                Ok(result) => {
                    self.panics.in_a_row = 0;
                    result
                }
                Err(panic) => {
                    *block = instance(self.step);
                    Err(self.panics.note(self.now, &*panic))
                }
            }
        };
        memory.spare.clear();
        match result {
            Ok(()) => true,
            Err(message) => {
                self.failures.push(StepFailure {
                    step: self.step.name.to_string(),
                    message,
                    calls: 0,
                });
                false
            }
        }
    }
}
