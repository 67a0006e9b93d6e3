//! Runs a plan: fills slots step by step, element by element.
//!
//! - A step that fails, or lacks inputs, has missing outputs; nothing else changes.
//! - A block that panics fails its step and is rebuilt; one that keeps panicking is run rarely.
//! - A steady workflow allocates nothing: outputs stay in their slots until their step runs again.
//!   [`Execution::release`] drops those with other holders, from the last step backwards; a step
//!   reuses its former output from [`Call::spare`] through [`Call::blank`]. A gated step keeps the
//!   memory of its detections, emptied. Lists and dictionaries of arguments are refilled
//!   ([`Bundles`]).

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json};
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_vision::detections::Detections;

use crate::workflow::block_api::block::{ArgNames, Block, Call, IdCounter, Instance, SharedState};
use crate::workflow::block_api::host::Host;
use crate::workflow::block_api::manifest::{Depth, Role};
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::{ErrorClass, Problem};
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::plan::compiled::{
    Compiled, OutputOf, Plan, PlanInput, PlanStep, ShapeOf, SlotId, Source,
};
use crate::workflow::values::image::{ImageValue, Pixels};
use crate::workflow::values::json;
use crate::workflow::values::json::Pictures;
use crate::workflow::values::tree::Tree;
use crate::workflow::values::value::Value;

/// A step that failed on an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFailure {
    pub step: String,
    pub message: String,
    /// Number of elements on which the step ran in this run.
    pub calls: usize,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    /// Failures, one per element.
    pub errors: Vec<StepFailure>,
    /// Steps that ran on no element because of a decision or a missing input. The list is reused by
    /// the next run once the report is dropped.
    pub skipped: Arc<Vec<Arc<str>>>,
}

/// Input of a batch run.
#[derive(Debug, Clone)]
pub enum RuntimeInput {
    /// One value for all elements.
    One(Value),
    /// One value per element.
    Many(Vec<Value>),
}

pub struct Execution {
    pub(crate) plan: Arc<Plan>,
    pub(crate) blocks: Vec<Box<dyn Instance>>,
    pub(crate) memory: Memory,
    /// Bundles of each step.
    bundles: Vec<Bundles>,
    /// Panics of each step.
    panics: Vec<Panics>,
    /// The list in the last report.
    skipped: Arc<Vec<Arc<str>>>,
}

/// Everything that a run writes.
pub(crate) struct Memory {
    slots: Vec<Tree<Value>>,
    branches: Vec<Tree<bool>>,
    args: Vec<Value>,
    out: Vec<Value>,
    spare: Vec<Value>,
    /// By slot: memory of the detections of a gated step.
    dormant: Vec<Option<Arc<Detections>>>,
    flags: Vec<bool>,
    index: Vec<usize>,
    batch: usize,
    pub(crate) ids: IdCounter,
    pub(crate) shared: SharedState,
    pub(crate) now: Duration,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution")
            .field("steps", &self.plan.steps.len())
            .finish_non_exhaustive()
    }
}

/// Bit of the stream number in identities from blocks, which keeps them apart from those of models.
const OWN_STREAM: u64 = 1 << 63;

/// Replaces a block that can't be built, which compilation excludes.
struct Broken(String);

impl Block for Broken {
    fn run(&self, _: &mut Call<'_>) -> Result<(), String> {
        Err(self.0.clone())
    }
}

/// Builds the block of a step.
fn instance(step: &PlanStep) -> Box<dyn Instance> {
    let made = step.build();
    made.unwrap_or_else(|error| Box::new(Broken(error)))
}

/// Maximum characters of a panic message in an error.
const MAX_PANIC_MESSAGE: usize = 200;

/// Panics in a row after which a block is suspended, so that the log is not flooded every frame.
const MAX_PANICS_IN_A_ROW: u32 = 3;
/// The longest suspension is two to the power of this, in seconds.
const MAX_SUSPENSION_EXPONENT: u32 = 6;

/// Panics of a step's block.
#[derive(Debug, Default)]
struct Panics {
    /// Since the last call without panic.
    in_a_row: u32,
    /// Until then the block is not run, and fails with the last message.
    suspended_until: Duration,
    message: String,
}

impl Panics {
    /// Counts a panic and returns the step's error.
    fn note(&mut self, now: Duration, panic: &(dyn Any + Send)) -> String {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.message = panic_message(panic);
        if let Some(over @ 1..) = self.in_a_row.checked_sub(MAX_PANICS_IN_A_ROW) {
            let pause = Duration::from_secs(1 << over.min(MAX_SUSPENSION_EXPONENT));
            self.suspended_until = now.saturating_add(pause);
            self.message.push_str(&format!(
                "; it panicked {} times in a row, next try in {} s",
                self.in_a_row,
                pause.as_secs()
            ));
        }
        self.message.clone()
    }
}

/// The error of a step whose block panicked.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said: String = said
        .unwrap_or("no message")
        .chars()
        .take(MAX_PANIC_MESSAGE)
        .collect();
    format!("internal error, please report it; the step's state was reset: {said}")
}

/// Names behind the properties of a step.
struct StepArgNames<'a> {
    step: &'a PlanStep,
    inputs: &'a [PlanInput],
}

impl ArgNames for StepArgNames<'_> {
    fn property(&self, index: usize) -> Option<&str> {
        Some(self.step.manifest.properties.get(index)?.name)
    }

    fn input(&self, index: usize) -> Option<&str> {
        match self.step.args.get(index)? {
            Source::Slot(slot) => Some(&self.inputs.get(*slot)?.name),
            Source::Const(_) | Source::List(..) | Source::Dict(..) => None,
        }
    }
}

impl Compiled {
    /// Creates an instance with its own state.
    #[must_use]
    pub fn instantiate(&self) -> Execution {
        Execution::new(Arc::clone(&self.plan))
    }
}

impl Execution {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let blocks = plan.steps.iter().map(instance).collect();
        let memory = Memory {
            slots: vec![Tree::default(); plan.slots.len()],
            branches: vec![Tree::default(); plan.branches],
            args: Vec::new(),
            out: Vec::new(),
            spare: Vec::new(),
            dormant: vec![None; plan.slots.len()],
            flags: Vec::new(),
            index: Vec::new(),
            batch: 0,
            ids: IdCounter {
                stream: OWN_STREAM,
                ..IdCounter::default()
            },
            shared: SharedState::default(),
            now: Duration::ZERO,
        };
        let bundles = plan.steps.iter().map(|s| Bundles::of(s.bundles)).collect();
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

    /// Drops outputs of the last run that have other holders; the rest is memory for this run.
    /// Backwards, because steps that pass a value on follow the step that made it.
    fn release(&mut self) {
        let outputs = self.memory.slots.iter_mut().skip(self.plan.inputs.len());
        outputs.rev().for_each(Tree::forget_shared);
    }

    /// Runs a batch with inputs of any type. Omitted parameters keep their value.
    ///
    /// # Errors
    /// `RuntimeInputError` if an input is unknown, missing or of another length than the batch.
    pub fn run_batch(
        &mut self,
        inputs: BTreeMap<String, RuntimeInput>,
        now: Duration,
        host: &mut dyn Host,
    ) -> Result<RunReport, WorkflowError> {
        self.release();
        self.check_input_names(&inputs)?;
        let size = self.batch_size(&inputs);
        let metas = self.batch_metas(&inputs, size);
        for (slot, input) in self.memory.slots.iter_mut().zip(&self.plan.inputs) {
            let given = inputs.get(&*input.name);
            if let InputType::Parameter { .. } = input.what {
                let value = match given {
                    Some(RuntimeInput::One(value)) => value.clone(),
                    Some(RuntimeInput::Many(list)) => Value::list(list.clone()),
                    None => input.value.clone(),
                };
                slot.put(&[], value);
                continue;
            }
            let elements = match given {
                None if input.what == InputType::VideoMetadata && !metas.is_empty() => {
                    metas.clone()
                }
                given => batch_elements(input, given, size)?,
            };
            let depth = match input.what {
                InputType::Batch { depth } => depth,
                _ => 1,
            };
            *slot = Tree::nest(&Value::list(elements), depth);
        }
        self.memory.batch = size;
        Ok(self.steps(now, host))
    }

    fn check_input_names(
        &self,
        inputs: &BTreeMap<String, RuntimeInput>,
    ) -> Result<(), WorkflowError> {
        let known = || self.plan.inputs.iter().map(|i| i.name.to_string());
        match inputs.keys().find(|name| !known().any(|k| k == **name)) {
            Some(name) => Err(
                input_error(name, format!("the workflow has no input {name}"))
                    .allowed(name, known())
                    .done(),
            ),
            None => Ok(()),
        }
    }

    /// Inputs other than parameters.
    fn batch_inputs(&self) -> impl Iterator<Item = &PlanInput> {
        let inputs = self.plan.inputs.iter();
        inputs.filter(|i| !matches!(i.what, InputType::Parameter { .. }))
    }

    /// Returns the length of the first list with more than one element, else 1.
    fn batch_size(&self, inputs: &BTreeMap<String, RuntimeInput>) -> usize {
        let mut lengths = self
            .batch_inputs()
            .filter_map(|i| match inputs.get(&*i.name) {
                Some(RuntimeInput::Many(list)) if list.len() > 1 => Some(list.len()),
                _ => None,
            });
        lengths.next().unwrap_or(1)
    }

    /// Returns the video metadata of the first image input.
    fn batch_metas(&self, inputs: &BTreeMap<String, RuntimeInput>, size: usize) -> Vec<Value> {
        let mut images = self.batch_inputs().filter(|i| i.what == InputType::Image);
        let images = images.find_map(|i| inputs.get(&*i.name));
        let images = images
            .map(|images| spread(images, size))
            .unwrap_or_default();
        images
            .into_iter()
            .map(|v| match v {
                Value::Image(image) => Value::Meta(Arc::clone(&image.meta)),
                _ => Value::Null,
            })
            .collect()
    }

    fn steps(&mut self, now: Duration, host: &mut dyn Host) -> RunReport {
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
            let before = errors.len();
            let mut visit = Visit {
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
                counting: step.manifest.whole_batch,
            };
            if visit.counting {
                visit.level(0);
                visit.counting = false;
            }
            visit.level(0);
            let calls = visit.calls;
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

    /// Returns the value of a slot after the last run; of a batch the first element.
    #[must_use]
    pub fn value(&self, slot: SlotId) -> Option<&Value> {
        self.memory.slots.get(slot.0)?.first()
    }

    /// Returns the output of a step after the last run; of a batch the first element.
    #[must_use]
    pub fn output_of(&self, step: &str, output: &str) -> Option<&Value> {
        let step = self.plan.steps.iter().find(|s| *s.name == *step)?;
        self.value(step.slot(output)?)
    }

    #[must_use]
    pub fn detections(&self, slot: SlotId) -> Option<&Detections> {
        match self.value(slot)? {
            Value::Detections(all) => Some(all),
            _ => None,
        }
    }

    #[must_use]
    pub fn number(&self, slot: SlotId) -> Option<f64> {
        match self.value(slot)? {
            v @ (Value::Int(_) | Value::Float(_)) => v.as_f64(),
            _ => None,
        }
    }

    #[must_use]
    pub fn boolean(&self, slot: SlotId) -> Option<bool> {
        match self.value(slot)? {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Serialises the outputs of the first element, pictures by size.
    #[must_use]
    pub fn outputs_json(&self) -> Json {
        self.row(0, Pictures::Size)
    }

    /// Serialises the outputs of every element of the batch.
    #[must_use]
    pub fn rows_json(&self, pictures: Pictures) -> Vec<Json> {
        (0..self.memory.batch)
            .map(|i| self.row(i, pictures))
            .collect()
    }

    fn row(&self, element: usize, pictures: Pictures) -> Json {
        let mut row = Map::new();
        for output in &self.plan.outputs {
            let write = json::Writer {
                pictures,
                in_root: output.in_root,
            };
            let one = |slot: usize| self.cell(slot, element, &write);
            let value = match &output.what {
                OutputOf::One(slot) => one(*slot),
                OutputOf::All(slots) => {
                    let depth = slots
                        .first()
                        .map_or(0, |(_, slot)| self.depth_in_row(*slot));
                    let all = slots.iter().map(|(name, slot)| (&**name, one(*slot)));
                    combine_outputs(all.collect(), depth)
                }
            };
            row.insert(output.name.clone(), value);
        }
        Json::Object(row)
    }

    /// Number of list levels of a slot's value within a row.
    fn depth_in_row(&self, slot: usize) -> usize {
        let info = self.plan.slots.get(slot);
        info.map_or(0, |info| info.depth - usize::from(info.by_row))
    }

    /// Serialises a slot for one element of the batch; a value without batch is the same for all.
    fn cell(&self, slot: usize, element: usize, write: &json::Writer) -> Json {
        let (Some(info), Some(tree)) = (self.plan.slots.get(slot), self.memory.slots.get(slot))
        else {
            return Json::Null;
        };
        if info.kinds == KindSet::of(&[Kind::Secret])
            && !matches!(tree.first(), None | Some(Value::Null))
        {
            return Json::from(json::HIDDEN);
        }
        if info.by_row {
            let row = tree.at(&[element]).unwrap_or(&Tree::Leaf(None));
            row.to_json(info.depth - 1, write)
        } else {
            tree.rows_to_json(info.depth, write)
        }
    }

    /// The picture of the last visualization step that ran, not rendered yet.
    #[must_use]
    pub fn output_image(&self) -> Option<Arc<dyn Pixels>> {
        self.plan
            .steps
            .iter()
            .rev()
            .filter(|s| s.manifest.role == Role::Visualization)
            .find_map(|s| match self.value(SlotId(s.first_slot))? {
                Value::Image(image) => Some(Arc::clone(&image.pixels)),
                _ => None,
            })
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

fn input_error(name: &str, message: String) -> Problem {
    Problem::new(ErrorClass::RuntimeInputError, message)
        .step("$inputs")
        .property(name)
}

/// Returns the elements of one batch input.
fn batch_elements(
    input: &PlanInput,
    given: Option<&RuntimeInput>,
    size: usize,
) -> Result<Vec<Value>, WorkflowError> {
    let name = &input.name;
    let message = match given {
        Some(RuntimeInput::Many(list)) if list.is_empty() => {
            format!("input {name} is an empty list; a run needs at least one element")
        }
        Some(RuntimeInput::Many(list)) if list.len() != 1 && list.len() != size => {
            let len = list.len();
            format!("input {name} has {len} elements, but the batch has {size}")
        }
        Some(given) => return Ok(spread(given, size)),
        None => format!("input {name} is missing"),
    };
    Err(input_error(name, message).done())
}

/// Returns one value per element of a batch.
fn spread(input: &RuntimeInput, size: usize) -> Vec<Value> {
    match input {
        RuntimeInput::One(value) => vec![value.clone(); size],
        RuntimeInput::Many(list) => match list.as_slice() {
            [one] => vec![one.clone(); size],
            _ => list.clone(),
        },
    }
}

/// Lists and dictionaries assembled as arguments of one step, refilled for each element.
///
/// Between calls they hold no values, so that producers can reuse their memory; the constant keys
/// of a dictionary stay.
#[derive(Debug, Default)]
struct Bundles(Vec<Value>);

impl Bundles {
    fn of(count: usize) -> Self {
        Self(vec![Value::Null; count])
    }

    fn take(&mut self, number: usize) -> Value {
        self.0
            .get_mut(number)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Returns an empty list without other holders.
    fn list(&mut self, number: usize) -> Arc<Vec<Value>> {
        // `empty` dropped those with other holders.
        match self.take(number) {
            Value::List(list) => list,
            _ => Arc::default(),
        }
    }

    /// Returns a dictionary without other holders, with its former keys and null values.
    fn dict(&mut self, number: usize) -> Arc<BTreeMap<Arc<str>, Value>> {
        match self.take(number) {
            Value::Dict(dict) => dict,
            _ => Arc::default(),
        }
    }

    fn keep(&mut self, number: usize, bundle: Value) {
        if let Some(place) = self.0.get_mut(number) {
            *place = bundle;
        }
    }

    /// Empties all bundles, outer ones first. Values that a block keeps are no longer shared.
    fn empty(&mut self) {
        for bundle in &mut self.0 {
            let is_free = match bundle {
                Value::List(list) => Arc::get_mut(list).map(Vec::clear).is_some(),
                Value::Dict(dict) => Arc::get_mut(dict)
                    .map(|dict| dict.values_mut().for_each(|value| *value = Value::Null))
                    .is_some(),
                _ => true,
            };
            if !is_free {
                *bundle = Value::Null;
            }
        }
    }
}

/// A step that is being run on all its elements.
struct Visit<'a> {
    plan: &'a Plan,
    step: &'a PlanStep,
    block: &'a mut Box<dyn Instance>,
    memory: &'a mut Memory,
    bundles: &'a mut Bundles,
    panics: &'a mut Panics,
    now: Duration,
    host: &'a mut dyn Host,
    failures: &'a mut Vec<StepFailure>,
    calls: usize,
    /// Number of elements to come.
    left: usize,
    /// Whether elements are only being counted.
    counting: bool,
}

impl Visit<'_> {
    /// Visits the elements below the current index.
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
        let ready = self.is_let_run() && self.gather();
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

    /// Returns whether every decision lets this element run.
    fn is_let_run(&mut self) -> bool {
        let memory = &mut *self.memory;
        memory.out.clear();
        memory.out.resize(self.step.outputs.len(), Value::Null);
        memory.flags.clear();
        memory.flags.resize(self.step.branch_count, false);
        self.step.gates.iter().all(|(branch, depth)| {
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
        let mut sources = self.step.args.iter();
        let complete = sources.all(|source| match self.read(source, &mut bundles) {
            Some(value) => {
                args.push(value);
                true
            }
            None => false,
        });
        self.memory.args = args;
        *self.bundles = bundles;
        complete
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
            arg_names: &StepArgNames {
                step: self.step,
                inputs: &self.plan.inputs,
            },
            now: self.now,
            args: &memory.args,
            out: &mut memory.out,
            spare: &mut memory.spare,
            branches: &mut memory.flags,
            cases: &self.step.cases,
            host: self.host,
            ids: &memory.ids,
            shared: &mut memory.shared,
            left: self.left,
        };
        // A panic must not end other steps. Unwinding is safe because nothing half done is reused:
        // the block is rebuilt; its outputs, flags and spares are dropped; values in slots are
        // immutable; shared values are set whole; identities only count up. Each frame
        // is announced to the host, and its cached answers belong to their picture.
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

/// Combines the outputs of a step: a dictionary by name, or lists of such dictionaries. A missing
/// element is null in each.
fn combine_outputs(outputs: Vec<(&str, Json)>, depth: usize) -> Json {
    if depth == 0 {
        let members = outputs.into_iter();
        return Json::Object(members.map(|(name, v)| (name.to_owned(), v)).collect());
    }
    let mut lists: Vec<(&str, std::vec::IntoIter<Json>)> = outputs
        .into_iter()
        .map(|(name, v)| match v {
            Json::Array(items) => (name, items.into_iter()),
            _ => (name, Vec::new().into_iter()),
        })
        .collect();
    let count = lists.iter().map(|(_, items)| items.len()).max();
    (0..count.unwrap_or(0))
        .map(|_| {
            let each = lists.iter_mut();
            let element = each.map(|(name, items)| (*name, items.next().unwrap_or_default()));
            combine_outputs(element.collect(), depth - 1)
        })
        .collect()
}
