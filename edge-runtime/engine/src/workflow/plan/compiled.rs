//! The compiled plan: numbered slots, steps in topological order, no names left.
//!
//! Invariant: every slot a step reads is an input or was written by an earlier step; a plan is immutable and shared by
//! every [`crate::workflow::run::execution::Execution`] made of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_vision::geometry::Point;

use crate::workflow::block_api::block::{Instance, Setup};
use crate::workflow::block_api::manifest::{Depth, Manifest, Role, StepOutput};
use crate::workflow::language::definition::{InputType, OutputDef};
use crate::workflow::language::error::{ErrorClass, Problem};
use crate::workflow::language::kinds::KindSet;
use crate::workflow::language::selector::Selector;
use crate::workflow::plan::check::Checked;
use crate::workflow::plan::lineage::{Flow, Origin, of_input};
use crate::workflow::plan::step::{Arg, CheckedStep};
use crate::workflow::values::value::Value;

/// Number of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<PlanInput>,
    pub(crate) steps: Vec<PlanStep>,
    pub(crate) outputs: Vec<PlanOutput>,
    pub(crate) slots: Vec<SlotInfo>,
    pub(crate) branches: usize,
}

#[derive(Debug)]
pub(crate) struct SlotInfo {
    pub(crate) depth: usize,
    pub(crate) kinds: KindSet,
    /// Whether its first level is the batch of the run, one element for each row of the result.
    pub(crate) by_row: bool,
}

/// One input; its number is that of its slot.
#[derive(Debug)]
pub(crate) struct PlanInput {
    pub(crate) name: Arc<str>,
    pub(crate) what: InputType,
    pub(crate) kinds: KindSet,
    /// Value of a parameter: as given, else the default.
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) struct PlanStep {
    pub(crate) name: Arc<str>,
    pub(crate) manifest: &'static Manifest,
    pub(crate) literals: Map<String, Json>,
    /// Its outputs, the first of which has the slot `first_slot`.
    pub(crate) outputs: Vec<StepOutput>,
    pub(crate) args: Vec<Source>,
    /// How many of these, and of what is in them, are lists and dictionaries that are made for each element.
    pub(crate) bundles: usize,
    /// Depth at which it runs.
    pub(crate) exec: usize,
    /// What tells how many elements there are at each level; absent for a scalar step.
    pub(crate) shape: Option<ShapeOf>,
    pub(crate) first_slot: usize,
    pub(crate) first_branch: usize,
    pub(crate) branch_count: usize,
    /// Keys of the branches of a dictionary property.
    pub(crate) cases: Vec<Arc<str>>,
    /// Branches that gate it, with the depth of their masks.
    pub(crate) gates: Vec<(usize, usize)>,
}

/// Where the shape of a batch is read from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ShapeOf {
    Slot(usize),
    Branch(usize),
}

/// Where the value of a property comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Const(Value),
    Slot(usize),
    /// Items, and which of the step's bundles they are put into.
    List(Vec<Source>, usize),
    /// Entries, and which of the step's bundles they are put into.
    Dict(Vec<(Arc<str>, Source)>, usize),
}

#[derive(Debug)]
pub(crate) struct PlanOutput {
    pub(crate) name: String,
    pub(crate) what: OutputOf,
    /// Whether detections are handed out in the coordinates of the first picture.
    pub(crate) in_root: bool,
}

#[derive(Debug)]
pub(crate) enum OutputOf {
    One(usize),
    All(Vec<(Arc<str>, usize)>),
}

/// A compiled workflow: immutable, cheap to clone.
#[derive(Debug, Clone)]
pub struct Compiled {
    pub(crate) plan: Arc<Plan>,
}

/// Geometry that a workflow declares, in pixels of its image.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    /// A line of a line counter.
    Line {
        /// Name of the step.
        name: String,
        /// Where it begins.
        start: Point,
        /// Where it ends.
        end: Point,
    },
    /// A zone of a time-in-zone step.
    Zone {
        /// Name of the step.
        name: String,
        /// Its corners.
        polygon: Vec<Point>,
    },
}

/// Makes the plan of a checked definition.
pub(crate) fn plan(
    checked: Checked,
    parameters: &BTreeMap<String, Json>,
) -> Result<Compiled, Vec<WorkflowError>> {
    check_parameters(&checked, parameters)?;
    let mut slots: Vec<SlotInfo> = Vec::new();
    let mut inputs = Vec::new();
    let mut of_input_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, input) in checked.inputs.iter().enumerate() {
        of_input_name.insert(&input.name, index);
        let depth = of_input(index, input).len();
        slots.push(SlotInfo {
            depth,
            kinds: input.kinds,
            by_row: depth > 0,
        });
        let value = match &input.what {
            InputType::Parameter { default } => {
                parameters.get(&input.name).unwrap_or(default).clone()
            }
            _ => Json::Null,
        };
        inputs.push(PlanInput {
            name: Arc::from(input.name.as_str()),
            what: input.what.clone(),
            kinds: input.kinds,
            value: Value::from(value),
        });
    }
    let mut of_step: BTreeMap<&str, (usize, &CheckedStep)> = BTreeMap::new();
    for (step, flow) in checked.steps.iter().zip(&checked.flow) {
        of_step.insert(&step.name, (slots.len(), step));
        slots.extend(step.outputs.iter().map(|o| SlotInfo {
            depth: flow.out.len(),
            kinds: o.kinds,
            by_row: flow.out.first() == Some(&Origin::Run),
        }));
    }
    let mut first_branches = Vec::with_capacity(checked.steps.len());
    let mut branches = 0;
    for step in &checked.steps {
        first_branches.push(branches);
        branches += step.branches().len();
    }
    let numbers = Numbers {
        slots: &slots,
        flows: &checked.flow,
        of_input: of_input_name,
        of_step,
        first_branches,
    };
    let steps = checked.steps.iter().zip(&checked.flow).enumerate();
    let steps = steps
        .map(|(i, (step, flow))| numbers.step(i, step, flow))
        .collect();
    let outputs = checked.outputs.iter().map(|o| numbers.output(o)).collect();
    let compiled = Compiled {
        plan: Arc::new(Plan {
            inputs,
            steps,
            outputs,
            slots,
            branches,
        }),
    };
    compiled.check_blocks()?;
    Ok(compiled)
}

fn check_parameters(
    checked: &Checked,
    parameters: &BTreeMap<String, Json>,
) -> Result<(), Vec<WorkflowError>> {
    let known: Vec<&str> = checked
        .inputs
        .iter()
        .filter(|i| matches!(i.what, InputType::Parameter { .. }))
        .map(|i| i.name.as_str())
        .collect();
    let errors: Vec<WorkflowError> = parameters
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| {
            Problem::new(
                ErrorClass::RuntimeInputError,
                format!("the workflow has no parameter {name}"),
            )
            .allowed(name, known.iter().copied())
            .step("$inputs")
            .property(name)
            .done()
        })
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

/// The numbers that names stand for while a plan is made.
struct Numbers<'a> {
    slots: &'a [SlotInfo],
    flows: &'a [Flow],
    of_input: BTreeMap<&'a str, usize>,
    /// Each step with the slot of its first output.
    of_step: BTreeMap<&'a str, (usize, &'a CheckedStep)>,
    /// Of each step, in their order.
    first_branches: Vec<usize>,
}

impl Numbers<'_> {
    /// The slot that a selector of data means.
    fn slot(&self, selector: &Selector) -> Option<usize> {
        match selector {
            Selector::Input(name) => self.of_input.get(name.as_str()).copied(),
            Selector::Output { step, output } => {
                let (first, step) = self.of_step.get(step.as_str())?;
                Some(first + place(&step.outputs, output)?)
            }
            Selector::Step(_) => None,
        }
    }

    /// A branch of a step, with the depth at which it is decided.
    fn gate(&self, step: usize, branch: usize) -> (usize, usize) {
        let first = self.first_branches.get(step);
        let depth = self.flows.get(step).map_or(0, |flow| flow.exec.len());
        (first.map_or(0, |first| first + branch), depth)
    }

    /// What tells how many elements a step runs on at each level: the data that is deep enough, that of the property which says so before the
    /// rest, else a decision that gates it.
    fn shape(&self, step: &CheckedStep, exec: usize, gates: &[(usize, usize)]) -> Option<ShapeOf> {
        if exec == 0 {
            return None;
        }
        let mut candidates = Vec::new();
        for (property, arg) in step.manifest.properties.iter().zip(&step.args) {
            let first =
                matches!(step.manifest.depth, Depth::Reference(name) if name == property.name);
            arg.each_ref(&mut |selector| {
                if let Some(slot) = self.slot(selector)
                    && self.slots.get(slot).is_some_and(|s| s.depth >= exec)
                {
                    candidates.push((!first, slot));
                }
            });
        }
        candidates.sort_by_key(|(later, _)| *later);
        let data = candidates.first().map(|(_, slot)| ShapeOf::Slot(*slot));
        data.or_else(|| {
            let mut deep_enough = gates.iter().filter(|(_, depth)| *depth >= exec);
            deep_enough
                .next()
                .map(|(branch, _)| ShapeOf::Branch(*branch))
        })
    }

    fn step(&self, index: usize, step: &CheckedStep, flow: &Flow) -> PlanStep {
        let exec = flow.exec.len();
        let mut bundles = 0;
        let slot_of = |selector: &Selector| self.slot(selector);
        let args = step.args.iter();
        let args: Vec<Source> = args.map(|a| source(a, &slot_of, &mut bundles)).collect();
        let gates = flow.gates.iter();
        let gates: Vec<(usize, usize)> = gates.map(|(s, b)| self.gate(*s, *b)).collect();
        let cases = step.args.iter().flat_map(|arg| match arg {
            Arg::Cases(cases) => cases.iter().map(|(key, _)| Arc::clone(key)).collect(),
            _ => Vec::new(),
        });
        PlanStep {
            name: Arc::from(step.name.as_str()),
            manifest: step.manifest,
            literals: step.literals.clone(),
            outputs: step.outputs.clone(),
            args,
            bundles,
            exec,
            shape: self.shape(step, exec, &gates),
            first_slot: self
                .of_step
                .get(step.name.as_str())
                .map_or(0, |(first, _)| *first),
            first_branch: self.first_branches.get(index).copied().unwrap_or(0),
            branch_count: step.branches().len(),
            cases: cases.collect(),
            gates,
        }
    }

    fn output(&self, output: &OutputDef) -> PlanOutput {
        PlanOutput {
            name: output.name.clone(),
            in_root: output.in_root,
            what: match &output.selector {
                Selector::Output { step, output } if output == "*" => {
                    let all = self.of_step.get(step.as_str()).into_iter();
                    let all = all.flat_map(|(first, step)| (*first..).zip(&step.outputs));
                    OutputOf::All(all.map(|(slot, o)| (Arc::clone(&o.name), slot)).collect())
                }
                one => self
                    .slot(one)
                    .map_or_else(|| OutputOf::All(Vec::new()), OutputOf::One),
            },
        }
    }
}

/// Whatever is in a bundle has a higher number than the bundle.
fn source(arg: &Arg, slot_of: &dyn Fn(&Selector) -> Option<usize>, bundles: &mut usize) -> Source {
    let mut bundle = || {
        *bundles += 1;
        *bundles - 1
    };
    match arg {
        Arg::Literal(value) => Source::Const(value.clone()),
        Arg::Ref(selector) => slot_of(selector).map_or(Source::Const(Value::Null), Source::Slot),
        Arg::List(items) => {
            let number = bundle();
            let items = items.iter().map(|a| source(a, slot_of, bundles));
            Source::List(items.collect(), number)
        }
        Arg::Dict(items) => {
            let number = bundle();
            let items = items.iter();
            let items = items.map(|(key, a)| (Arc::clone(key), source(a, slot_of, bundles)));
            Source::Dict(items.collect(), number)
        }
        Arg::Steps(_) | Arg::Cases(_) => Source::Const(Value::Null),
    }
}

/// Position of an output.
fn place(outputs: &[StepOutput], name: &str) -> Option<usize> {
    outputs.iter().position(|o| *o.name == *name)
}

impl PlanStep {
    /// The slot of an output.
    pub(crate) fn slot(&self, output: &str) -> Option<SlotId> {
        place(&self.outputs, output).map(|i| SlotId(self.first_slot + i))
    }

    /// Makes the block of this step.
    pub(crate) fn build(&self) -> Result<Box<dyn Instance>, String> {
        (self.manifest.build)(&Setup {
            literals: &self.literals,
        })
    }
}

impl Compiled {
    fn check_blocks(&self) -> Result<(), Vec<WorkflowError>> {
        let errors: Vec<WorkflowError> = self
            .plan
            .steps
            .iter()
            .filter_map(|step| step.build().err().map(|e| (step, e)))
            .map(|(step, e)| Problem::syntax(e).step(&*step.name).done())
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// The slot that `$steps.name.output` or `$inputs.name` stands for.
    ///
    /// # Errors
    /// What is wrong with the selector, with the nearest right one.
    pub fn slot(&self, selector: &str) -> Result<SlotId, WorkflowError> {
        let refuse =
            |message: String| Problem::new(ErrorClass::InvalidReferenceTargetError, message);
        let steps = &self.plan.steps;
        match Selector::parse(selector) {
            Some(Selector::Input(name)) => self
                .plan
                .inputs
                .iter()
                .position(|i| *i.name == *name)
                .map(SlotId)
                .ok_or_else(|| {
                    refuse(format!("{selector} refers to an input that isn't there"))
                        .allowed(
                            selector,
                            self.plan
                                .inputs
                                .iter()
                                .map(|i| format!("$inputs.{}", i.name)),
                        )
                        .done()
                }),
            Some(Selector::Output { step, output }) => {
                let Some(found) = steps.iter().find(|s| *s.name == *step) else {
                    return Err(
                        refuse(format!("{selector} refers to a step that isn't there"))
                            .allowed(
                                &format!("$steps.{step}"),
                                steps.iter().map(|s| format!("$steps.{}", s.name)),
                            )
                            .done(),
                    );
                };
                found.slot(&output).ok_or_else(|| {
                    refuse(format!(
                        "{selector} refers to an output that step {step} doesn't have"
                    ))
                    .allowed(
                        selector,
                        found
                            .outputs
                            .iter()
                            .map(|o| format!("$steps.{step}.{}", o.name)),
                    )
                    .done()
                })
            }
            _ => Err(refuse(format!(
                "{selector:?} is no selector; write $steps.name.output or $inputs.name"
            ))
            .allowed(
                selector,
                steps.iter().flat_map(|s| {
                    let name = Arc::clone(&s.name);
                    let outputs = s.outputs.iter();
                    outputs.map(move |o| format!("$steps.{name}.{}", o.name))
                }),
            )
            .done()),
        }
    }

    /// Value of a property that doesn't change from frame to frame.
    pub(crate) fn fixed<'a>(&'a self, step: &'a PlanStep, property: &str) -> Option<&'a Value> {
        match step.args.get(step.manifest.property(property)?)? {
            Source::Const(value) => Some(value),
            Source::Slot(slot) => self
                .plan
                .inputs
                .get(*slot)
                .filter(|i| matches!(i.what, InputType::Parameter { .. }))
                .map(|i| &i.value),
            Source::List(..) | Source::Dict(..) => None,
        }
    }

    pub(crate) fn steps_of(&self, role: Role) -> impl Iterator<Item = &PlanStep> {
        self.steps_where(move |other| other == role)
    }

    fn steps_where(&self, is_it: impl Fn(Role) -> bool) -> impl Iterator<Item = &PlanStep> {
        let steps = self.plan.steps.iter();
        steps.filter(move |s| is_it(s.manifest.role))
    }

    /// The model that a step asks, where that is known before it runs.
    pub(crate) fn model_of(&self, step: &PlanStep) -> Option<String> {
        let text = |property: &str| self.fixed(step, property)?.as_str().map(str::to_owned);
        (step.manifest.model)(&text)
    }

    /// The models that its detection steps name, each once, in the order of the steps.
    #[must_use]
    pub fn model_ids(&self) -> Vec<String> {
        self.models_of(is_detector)
    }

    /// The models that its steps ask something else than for objects, each once, in the order of the steps.
    #[must_use]
    pub fn asked_ids(&self) -> Vec<String> {
        self.models_of(|role| matches!(role, Role::Asker(_)))
    }

    fn models_of(&self, is_it: fn(Role) -> bool) -> Vec<String> {
        let mut ids: Vec<String> = Vec::new();
        for id in self.steps_where(is_it).filter_map(|s| self.model_of(s)) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    /// The rules that its event sinks declare.
    #[must_use]
    pub fn sink_rules(&self) -> Vec<RuleSpec> {
        self.steps_of(Role::Sink)
            .filter_map(|step| step.literals.get("rules").cloned())
            .filter_map(|rules| serde_json::from_value::<Vec<RuleSpec>>(rules).ok())
            .flatten()
            .collect()
    }

    /// Whether any of its steps runs a model.
    #[must_use]
    pub fn needs_detector(&self) -> bool {
        self.steps_where(is_detector).next().is_some()
    }

    /// Names of its image inputs.
    pub fn image_inputs(&self) -> impl Iterator<Item = &str> {
        let images = self
            .plan
            .inputs
            .iter()
            .filter(|i| i.what == InputType::Image);
        images.map(|i| &*i.name)
    }

    /// Name of its first image input.
    #[must_use]
    pub fn image_input(&self) -> Option<&str> {
        self.plan
            .inputs
            .iter()
            .find(|i| i.what == InputType::Image)
            .map(|i| &*i.name)
    }

    fn names_of(&self, role: Role) -> Vec<String> {
        self.steps_of(role).map(|s| s.name.to_string()).collect()
    }

    /// Names of its detection steps.
    #[must_use]
    pub fn detector_steps(&self) -> Vec<String> {
        let steps = self.steps_where(is_detector);
        steps.map(|s| s.name.to_string()).collect()
    }

    /// Names of its trackers, whose output is `tracked_detections`.
    #[must_use]
    pub fn tracker_steps(&self) -> Vec<String> {
        self.names_of(Role::Tracker)
    }

    /// Names of its line counters.
    #[must_use]
    pub fn line_steps(&self) -> Vec<String> {
        self.names_of(Role::Line)
    }

    /// Names of its time-in-zone steps.
    #[must_use]
    pub fn zone_steps(&self) -> Vec<String> {
        self.names_of(Role::Zone)
    }

    /// Lines and zones whose geometry is fixed, in the order of the steps.
    #[must_use]
    pub fn overlays(&self) -> Vec<Overlay> {
        let mut overlays = Vec::new();
        for step in self.steps_of(Role::Line) {
            let points = self.fixed(step, "line_segment").and_then(Value::as_points);
            if let Some([start, end]) = points.as_deref() {
                overlays.push(Overlay::Line {
                    name: step.name.to_string(),
                    start: *start,
                    end: *end,
                });
            }
        }
        for step in self.steps_of(Role::Zone) {
            let zone = self.fixed(step, "zone");
            for polygon in zone
                .and_then(|z| z.as_polygons().ok())
                .into_iter()
                .flatten()
            {
                overlays.push(Overlay::Zone {
                    name: step.name.to_string(),
                    polygon,
                });
            }
        }
        overlays
    }
}

fn is_detector(role: Role) -> bool {
    matches!(role, Role::Detector(_))
}
