//! Running a plan: slots are filled step by step, element by element.
//!
//! Owns the state of one instance of a workflow. Invariant: a step that fails, or whose inputs are missing, leaves its
//! outputs missing and nothing else changes; the next frame starts from the same plan with the blocks' own state. A block that panics is a step
//! that fails, and is made anew from the definition; one that always does is run seldom.
//!
//! Memory is used again. Outputs of the last frame stay in their slots until their step runs again. [`Execution::release`]
//! first drops, from the last step backwards, those that another slot or a caller also holds; a step then finds its own
//! former output in [`Call::spare`], and [`Call::blank`] empties it for the new one if nobody else holds it. A step that a
//! decision holds back keeps the memory of its detections, emptied, until it goes on. Lists and dictionaries that are made of
//! values for a call are filled anew ([`Bundles`]). So a steady workflow allocates nothing, whichever way its decisions fall.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json};
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_vision::detections::Detections;

use crate::workflow::block_api::block::{ArgNames, Block, Call, Ids, Instance, Shared};
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
    /// Name of the step.
    pub step: String,
    /// One sentence.
    pub message: String,
    /// On how many elements the step ran in this run.
    pub calls: usize,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    /// Steps that failed, each element by itself.
    pub errors: Vec<StepFailure>,
    /// Steps that ran on no element, because a decision or a missing input kept them from it. The list is used again for the
    /// next run by whoever has let go of the report by then.
    pub skipped: Arc<Vec<Arc<str>>>,
}

/// What a batch run gives to one input.
#[derive(Debug, Clone)]
pub enum RuntimeInput {
    /// The same for all elements of the batch.
    One(Value),
    /// One for each element.
    Many(Vec<Value>),
}

/// One running instance of a workflow.
pub struct Execution {
    pub(crate) plan: Arc<Plan>,
    pub(crate) blocks: Vec<Box<dyn Instance>>,
    pub(crate) memory: Memory,
    /// Those of each step.
    bundles: Vec<Bundles>,
    /// Those of each step.
    panics: Vec<Panics>,
    /// What the last report says was skipped.
    skipped: Arc<Vec<Arc<str>>>,
}

/// Everything that a run writes.
pub(crate) struct Memory {
    slots: Vec<Tree<Value>>,
    branches: Vec<Tree<bool>>,
    args: Vec<Value>,
    out: Vec<Value>,
    spare: Vec<Value>,
    /// Of each slot, the memory of detections whose step is held back.
    dormant: Vec<Option<Arc<Detections>>>,
    flags: Vec<bool>,
    index: Vec<usize>,
    batch: usize,
    pub(crate) ids: Ids,
    pub(crate) shared: Shared,
    /// The time of the latest run.
    pub(crate) now: Duration,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution")
            .field("steps", &self.plan.steps.len())
            .finish_non_exhaustive()
    }
}

/// Set in the stream of identities that blocks give, so that they differ from those that models give.
const OWN_STREAM: u64 = 1 << 63;

/// Stands for a block that couldn't be made, which compilation excludes.
struct Broken(String);

impl Block for Broken {
    fn run(&self, _: &mut Call<'_>) -> Result<(), String> {
        Err(self.0.clone())
    }
}

/// The block of a step as it begins.
fn instance(step: &PlanStep) -> Box<dyn Instance> {
    let made = step.build();
    made.unwrap_or_else(|error| Box::new(Broken(error)))
}

/// Characters of what a panic said that a step's message repeats: some repeat whatever they were about.
const MOST_SAID: usize = 200;

/// Panics of a block in a row after which it rests: one that always panics must not fill the log thirty times a second.
const MOST_IN_A_ROW: u32 = 3;
/// Longest of its rests is two to the power of this, in seconds.
const LONGEST_REST: u32 = 6;

/// The panics of a step's block.
#[derive(Debug, Default)]
struct Panics {
    /// Since it last came to an end.
    in_a_row: u32,
    /// Until then it is not run, and fails with the message of the last one.
    rests_until: Duration,
    message: String,
}

impl Panics {
    /// Notes one more: the message of the step that fails by it.
    fn note(&mut self, now: Duration, panic: &(dyn Any + Send)) -> String {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.message = fault(panic);
        if let Some(over @ 1..) = self.in_a_row.checked_sub(MOST_IN_A_ROW) {
            let rest = Duration::from_secs(1 << over.min(LONGEST_REST));
            self.rests_until = now.saturating_add(rest);
            self.message.push_str(&format!(
                "; it broke {} times in a row, so it rests for {} s",
                self.in_a_row,
                rest.as_secs()
            ));
        }
        self.message.clone()
    }
}

/// The message of a step whose block panicked.
fn fault(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said: String = said
        .unwrap_or("it said nothing")
        .chars()
        .take(MOST_SAID)
        .collect();
    format!("a fault of ours, please report it; what the step remembered begins anew: {said}")
}

/// The names behind the properties of a step.
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
    /// An instance with state of its own.
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
            ids: Ids {
                stream: OWN_STREAM,
                ..Ids::default()
            },
            shared: Shared::default(),
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

    /// Says which stream this is, so that the identities its blocks give differ from those of other streams.
    #[must_use]
    pub fn of_stream(mut self, stream: u64) -> Self {
        self.memory.ids.stream = stream | OWN_STREAM;
        self
    }

    /// Runs one frame: `image` goes to every image input, and each of `batches` to the batch input that has its slot. A batch
    /// input for which there is nothing is an element that is missing. `now` is monotonic time for delays and cooldowns.
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

    /// Lets go of what the outputs of the last run hold together with others. What is left is memory for the same outputs
    /// of this run: those that pass something on stand behind those that made it.
    fn release(&mut self) {
        let outputs = self.memory.slots.iter_mut().skip(self.plan.inputs.len());
        outputs.rev().for_each(Tree::forget_shared);
    }

    /// Runs a batch with inputs of any type. Parameters that are not given keep their value.
    ///
    /// # Errors
    /// `RuntimeInputError` where an input is unknown, missing or of another length than the batch.
    pub fn run_batch(
        &mut self,
        inputs: BTreeMap<String, RuntimeInput>,
        now: Duration,
        host: &mut dyn Host,
    ) -> Result<RunReport, WorkflowError> {
        let refuse = |name: &str, message: String| {
            Problem::new(ErrorClass::RuntimeInputError, message)
                .step("$inputs")
                .property(name)
        };
        self.release();
        for name in inputs.keys() {
            if !self.plan.inputs.iter().any(|i| *i.name == **name) {
                return Err(refuse(name, format!("the workflow has no input {name}"))
                    .allowed(name, self.plan.inputs.iter().map(|i| i.name.to_string()))
                    .done());
            }
        }
        let batch_inputs = || {
            self.plan
                .inputs
                .iter()
                .filter(|i| !matches!(i.what, InputType::Parameter { .. }))
        };
        let size = batch_inputs()
            .filter_map(|i| match inputs.get(&*i.name) {
                Some(RuntimeInput::Many(list)) if list.len() > 1 => Some(list.len()),
                _ => None,
            })
            .next()
            .unwrap_or(1);
        let metas: Vec<Value> = batch_inputs()
            .filter(|i| i.what == InputType::Image)
            .find_map(|i| inputs.get(&*i.name))
            .map(|images| spread(images, size))
            .unwrap_or_default()
            .into_iter()
            .map(|v| match v {
                Value::Image(image) => Value::Meta(Arc::clone(&image.meta)),
                _ => Value::Null,
            })
            .collect();
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
                Some(RuntimeInput::Many(list)) if list.len() != 1 && list.len() != size => {
                    return Err(refuse(
                        &input.name,
                        format!(
                            "input {} has {} elements, where the batch has {size}",
                            input.name,
                            list.len()
                        ),
                    )
                    .done());
                }
                Some(RuntimeInput::Many(list)) if list.is_empty() => {
                    return Err(refuse(
                        &input.name,
                        format!(
                            "input {} is a list of none; a run needs one element",
                            input.name
                        ),
                    )
                    .done());
                }
                Some(given) => spread(given, size),
                None if input.what == InputType::VideoMetadata && !metas.is_empty() => {
                    metas.clone()
                }
                None => {
                    return Err(
                        refuse(&input.name, format!("input {} is missing", input.name)).done(),
                    );
                }
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

    fn steps(&mut self, now: Duration, host: &mut dyn Host) -> RunReport {
        let mut errors = Vec::new();
        // Somebody may keep an earlier report, and then its list is theirs.
        if Arc::get_mut(&mut self.skipped).is_none() {
            self.skipped = Arc::default();
        }
        let held_back = Arc::make_mut(&mut self.skipped);
        held_back.clear();
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
                held_back.push(Arc::clone(&step.name));
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

    /// What is in a slot after the last run; of a batch, its first element.
    #[must_use]
    pub fn value(&self, slot: SlotId) -> Option<&Value> {
        self.memory.slots.get(slot.0)?.first()
    }

    /// What an output of a step is after the last run, of a batch its first element.
    #[must_use]
    pub fn output_of(&self, step: &str, output: &str) -> Option<&Value> {
        let step = self.plan.steps.iter().find(|s| *s.name == *step)?;
        self.value(step.slot(output)?)
    }

    /// The detections in a slot.
    #[must_use]
    pub fn detections(&self, slot: SlotId) -> Option<&Detections> {
        match self.value(slot)? {
            Value::Detections(all) => Some(all),
            _ => None,
        }
    }

    /// The number in a slot.
    #[must_use]
    pub fn number(&self, slot: SlotId) -> Option<f64> {
        match self.value(slot)? {
            v @ (Value::Int(_) | Value::Float(_)) => v.as_f64(),
            _ => None,
        }
    }

    /// The boolean in a slot.
    #[must_use]
    pub fn boolean(&self, slot: SlotId) -> Option<bool> {
        match self.value(slot)? {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The outputs of the first element, serialised; pictures by their size.
    #[must_use]
    pub fn outputs_json(&self) -> Json {
        self.row(0, Pictures::Size)
    }

    /// The outputs of every element of the batch, serialised.
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
                    together(all.collect(), depth)
                }
            };
            row.insert(output.name.clone(), value);
        }
        Json::Object(row)
    }

    /// How many lists a value of this slot lies in within a row.
    fn depth_in_row(&self, slot: usize) -> usize {
        let info = self.plan.slots.get(slot);
        info.map_or(0, |info| info.depth - usize::from(info.by_row))
    }

    /// What is in a slot for one element of the batch; what has no element of its own is the same for all.
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

    /// The picture of the last visualization that ran in the last run, not rendered yet.
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

/// Puts a picture in the place of the one before, in its memory unless someone keeps that.
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

/// One value for each element of a batch.
fn spread(input: &RuntimeInput, size: usize) -> Vec<Value> {
    match input {
        RuntimeInput::One(value) => vec![value.clone(); size],
        RuntimeInput::Many(list) => match list.as_slice() {
            [one] => vec![one.clone(); size],
            _ => list.clone(),
        },
    }
}

/// The lists and dictionaries that one step is handed, made of values for each element anew.
///
/// Between two calls they hold no value that somebody else gave, so that whoever made it finds that it is free again; the keys
/// of a dictionary, which are always the same, stay.
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

    /// An empty list that nobody else holds.
    fn list(&mut self, number: usize) -> Arc<Vec<Value>> {
        // Nobody else holds what was emptied: `empty` drops what somebody does.
        match self.take(number) {
            Value::List(list) => list,
            _ => Arc::default(),
        }
    }

    /// A dictionary that nobody else holds, with the keys that it had, if any, and no values.
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

    /// Empties all of them, those that hold others first. What a block keeps is the block's from now on.
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

/// One step being run on all its elements.
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
    /// Elements that are still to come.
    left: usize,
    /// Whether elements are only counted.
    counting: bool,
}

impl Visit<'_> {
    /// Goes through the elements below the current index.
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

    /// Runs the block on the element at the current index, or leaves its outputs missing.
    fn element(&mut self) {
        let ready = self.gated() && self.gather();
        if self.counting {
            self.left += usize::from(ready);
            self.put_away();
            return;
        }
        self.take_spares();
        if !ready {
            self.lay_down();
        }
        let done = ready && self.call();
        self.put_away();
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

    /// Takes what the outputs were in the last run, for their memory, or what was laid down since.
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

    /// Lays the memory of detections down until the step goes on. What was in it is gone: it may hold masks and more, for which
    /// nobody asks for as long as that takes. A picture is let go, as it may be the decoder's.
    fn lay_down(&mut self) {
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

    /// Whether every decision lets this element go on.
    fn gated(&mut self) -> bool {
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

    /// Collects the values of the properties; false when one is missing that must not be.
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

    /// Lets go of what was collected for a call. Whoever made these values may use their memory again in the next frame.
    fn put_away(&mut self) {
        self.memory.args.clear();
        self.bundles.empty();
    }

    fn read(&self, source: &Source, bundles: &mut Bundles) -> Option<Value> {
        let lenient = self.step.manifest.accepts_empty;
        match source {
            Source::Const(value) => Some(value.clone()),
            Source::Slot(slot) => {
                let depth = self.plan.slots.get(*slot)?.depth;
                let tree = self.memory.slots.get(*slot)?;
                let index = &self.memory.index;
                let found = match index.get(..depth) {
                    // A scalar may be null; an element of a batch that is null is missing.
                    Some(index) => tree
                        .at(index)
                        .and_then(Tree::leaf)
                        .filter(|v| depth == 0 || !v.is_null())
                        .cloned(),
                    // Where there never was an element there is nothing to bring together; where all are missing there is an empty list.
                    None => tree
                        .at(index)
                        .filter(|part| part.len_at(&[]) > 0)
                        .map(|part| part.group(lenient)),
                };
                // A single value that is collapsed is a batch of one.
                let is_single = depth == 0 && self.step.manifest.depth == Depth::Shallower;
                let found = match found {
                    Some(one) if is_single => Some(Value::list(vec![one])),
                    found => found,
                };
                match found {
                    None if lenient => Some(Value::Null),
                    found => found,
                }
            }
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
        // One step's fault must not end the watch of all others. Unwinding through a call is safe, as nothing that it left half done is used
        // again: the block is made anew, its outputs, flags and spares are dropped as those of any step that fails, values are immutable once
        // they are in a slot, the shared ones are put in whole, and identities only count on. A host is told at the begin of each frame
        // what it is about, and what it keeps of models' answers holds for the picture that they were given for.
        let block = &mut *self.block;
        let result = if self.now < self.panics.rests_until {
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

/// The outputs of a step as one value: a dictionary of them by name, or where they lie in lists a list of such dictionaries. An
/// element that was never made is nothing in each.
fn together(outputs: Vec<(&str, Json)>, depth: usize) -> Json {
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
            together(element.collect(), depth - 1)
        })
        .collect()
}
