//! The compiled plan: numbered slots, steps in topological order, no names left.
//!
//! - Every slot that a step reads is an input or was written by an earlier step.
//! - A plan is immutable and shared by all its
//!   [executions](crate::workflow::run::execution::Execution).

use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::{Map, Value as Json};
use watchkeeper_contract::rule::RuleSpec;
use watchkeeper_contract::workflow::WorkflowError;
use watchkeeper_vision::geometry::Point;

use crate::workflow::block_api::block::{Instance, Setup};
use crate::workflow::block_api::manifest::{Manifest, Role, StepOutput};
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::{ErrorClass, Problem};
use crate::workflow::language::kinds::KindSet;
use crate::workflow::language::selector::Selector;
use crate::workflow::values::value::Value;

/// Comparator of a statement that a detection is in a zone.
const IN_ZONE: &str = "(Detection) in zone";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct WorkflowPlan {
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
    /// Whether the first level is the batch of the run, one element per result row.
    pub(crate) by_row: bool,
}

/// An input; its index is its slot.
#[derive(Debug)]
pub(crate) struct PlanInput {
    pub(crate) name: Arc<str>,
    pub(crate) what: InputType,
    pub(crate) kinds: KindSet,
    /// Value of a parameter: the given one or the default.
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) struct PlanStep {
    pub(crate) name: Arc<str>,
    pub(crate) manifest: &'static Manifest,
    pub(crate) literals: Map<String, Json>,
    /// Outputs, starting at slot `first_slot`.
    pub(crate) outputs: Vec<StepOutput>,
    /// By output: whether a step or an output of the workflow reads it.
    pub(crate) read: Vec<bool>,
    pub(crate) args: Vec<Source>,
    /// Number of lists and dictionaries in the arguments that are assembled per element.
    pub(crate) bundles: usize,
    /// Depth at which it runs.
    pub(crate) exec: usize,
    /// Source of the number of elements at each level; absent for a scalar step.
    pub(crate) shape: Option<ShapeOf>,
    pub(crate) first_slot: usize,
    pub(crate) first_branch: usize,
    pub(crate) branch_count: usize,
    /// Keys of the branches of a dictionary property.
    pub(crate) cases: Vec<Arc<str>>,
    /// Branches that must be taken for it to run, with the depth of their masks.
    pub(crate) conditions: Vec<(usize, usize)>,
}

/// Source from which the shape of a batch is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ShapeOf {
    Slot(usize),
    Branch(usize),
}

#[derive(Debug)]
pub(crate) enum Source {
    Const(Value),
    Slot(usize),
    /// Items, and the number of the step's bundle that holds them.
    List(Vec<Source>, usize),
    /// Entries, and the number of the step's bundle that holds them.
    Dict(Vec<(Arc<str>, Source)>, usize),
}

impl Source {
    /// Marks the slots from which it is read.
    pub(super) fn mark_read(&self, slots: &mut [bool]) {
        match self {
            Self::Const(_) => {}
            Self::Slot(slot) => slots.iter_mut().skip(*slot).take(1).for_each(|s| *s = true),
            Self::List(items, _) => items.iter().for_each(|item| item.mark_read(slots)),
            Self::Dict(items, _) => items.iter().for_each(|(_, item)| item.mark_read(slots)),
        }
    }
}

#[derive(Debug)]
pub(crate) struct PlanOutput {
    pub(crate) name: String,
    pub(crate) what: OutputOf,
    /// Whether detections are returned in the coordinates of the uncropped picture.
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
    pub(crate) plan: Arc<WorkflowPlan>,
}

/// Geometry that a workflow declares, in pixels of its image.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    Line {
        name: String,
        start: Point,
        end: Point,
    },
    Zone {
        name: String,
        polygon: Vec<Point>,
    },
}

/// Position of an output.
pub(super) fn place(outputs: &[StepOutput], name: &str) -> Option<usize> {
    outputs.iter().position(|o| *o.name == *name)
}

fn bad_target(message: String) -> Problem {
    ErrorClass::InvalidReferenceTargetError.problem(message)
}

impl PlanStep {
    pub(crate) fn slot(&self, output: &str) -> Option<SlotId> {
        place(&self.outputs, output).map(|i| SlotId(self.first_slot + i))
    }

    fn no_such_output(&self, selector: &str) -> WorkflowError {
        let outputs = self.outputs.iter();
        bad_target(format!(
            "{selector} refers to an output that step {} does not have",
            self.name
        ))
        .allowed(
            selector,
            outputs.map(|o| format!("$steps.{}.{}", self.name, o.name)),
        )
        .done()
    }

    /// The error that a decision skips a step whose rules are applied to every frame.
    fn rules_in_branch(&self) -> Option<String> {
        let has_rules = self.manifest.role == Role::Sink && self.literals.contains_key("rules");
        (has_rules && !self.conditions.is_empty()).then(|| {
            "rules are applied to every frame, so their step can't be a branch of a decision; let \
             the rules read detections or values that the decision makes"
                .to_owned()
        })
    }

    pub(crate) fn build(&self) -> Result<Box<dyn Instance>, String> {
        (self.manifest.build)(&Setup {
            literals: &self.literals,
        })
    }
}

impl Compiled {
    /// Builds each block once, for the errors of its literals. Refuses rules in a branch.
    pub(super) fn check_blocks(&self) -> Result<(), Vec<WorkflowError>> {
        let errors: Vec<WorkflowError> = self
            .plan
            .steps
            .iter()
            .filter_map(|step| Some((step, step.build().err().or_else(|| step.rules_in_branch())?)))
            .map(|(step, e)| Problem::syntax(e).step(&*step.name).done())
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// Returns the slot of `$steps.name.output` or `$inputs.name`.
    ///
    /// # Errors
    /// If the selector is invalid, with the nearest valid one.
    pub fn slot(&self, selector: &str) -> Result<SlotId, WorkflowError> {
        match Selector::parse(selector) {
            Some(Selector::Input(name)) => {
                let mut inputs = self.plan.inputs.iter();
                let slot = inputs.position(|i| *i.name == *name).map(SlotId);
                slot.ok_or_else(|| self.no_such_input(selector))
            }
            Some(Selector::Output { step, output }) => {
                let mut steps = self.plan.steps.iter();
                let found = steps.find(|s| *s.name == *step);
                let found = found.ok_or_else(|| self.no_such_step(selector, &step))?;
                let slot = found.slot(&output);
                slot.ok_or_else(|| found.no_such_output(selector))
            }
            _ => Err(self.not_a_selector(selector)),
        }
    }

    fn no_such_input(&self, selector: &str) -> WorkflowError {
        let inputs = self.plan.inputs.iter();
        bad_target(format!("{selector} refers to an input that does not exist"))
            .allowed(selector, inputs.map(|i| format!("$inputs.{}", i.name)))
            .done()
    }

    fn no_such_step(&self, selector: &str, step: &str) -> WorkflowError {
        let steps = self.plan.steps.iter();
        bad_target(format!("{selector} refers to a step that does not exist"))
            .allowed(
                &format!("$steps.{step}"),
                steps.map(|s| format!("$steps.{}", s.name)),
            )
            .done()
    }

    fn not_a_selector(&self, text: &str) -> WorkflowError {
        let steps = self.plan.steps.iter();
        let selectors = steps.flat_map(|s| {
            let name = Arc::clone(&s.name);
            let outputs = s.outputs.iter();
            outputs.map(move |o| format!("$steps.{name}.{}", o.name))
        });
        bad_target(format!(
            "{text:?} is not a selector; write $steps.name.output or $inputs.name"
        ))
        .allowed(text, selectors)
        .done()
    }

    /// Returns the value of a property that is the same in every frame.
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

    /// Returns the step's model, if known before it runs.
    pub(crate) fn model_of(&self, step: &PlanStep) -> Option<String> {
        let text = |property: &str| self.fixed(step, property)?.as_str().map(str::to_owned);
        (step.manifest.model)(&text)
    }

    /// Models of the detection steps, each once, in the order of the steps.
    pub fn model_ids(&self) -> Vec<String> {
        self.models_of(is_detector)
    }

    /// Models of other steps, each once, in the order of the steps.
    pub fn asked_ids(&self) -> Vec<String> {
        self.models_of(|role| matches!(role, Role::OtherModel(_)))
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

    pub fn sink_rules(&self) -> Vec<RuleSpec> {
        self.steps_of(Role::Sink)
            .filter_map(|step| step.literals.get("rules").cloned())
            .filter_map(|rules| serde_json::from_value::<Vec<RuleSpec>>(rules).ok())
            .flatten()
            .collect()
    }

    /// Returns whether any step detects objects with a model.
    pub fn needs_detector(&self) -> bool {
        self.steps_where(is_detector).next().is_some()
    }

    pub fn image_inputs(&self) -> impl Iterator<Item = &str> {
        let images = self
            .plan
            .inputs
            .iter()
            .filter(|i| i.what == InputType::Image);
        images.map(|i| &*i.name)
    }

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

    pub fn detector_steps(&self) -> Vec<String> {
        let steps = self.steps_where(is_detector);
        steps.map(|s| s.name.to_string()).collect()
    }

    /// Names of the trackers, whose output is `tracked_detections`.
    pub fn tracker_steps(&self) -> Vec<String> {
        self.names_of(Role::Tracker)
    }

    pub fn line_steps(&self) -> Vec<String> {
        self.names_of(Role::Line)
    }

    pub fn zone_steps(&self) -> Vec<String> {
        self.names_of(Role::Zone)
    }

    /// Lines and zones with fixed geometry, in the order of the steps.
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

    /// Fixed zones in which filters look for detections, named after their steps.
    pub fn filter_zones(&self) -> Vec<Overlay> {
        let mut zones = Vec::new();
        for step in &self.plan.steps {
            for json in step.literals.values() {
                collect_zones(json, &step.name, &mut zones);
            }
        }
        zones
    }
}

/// Adds the polygons of all statements that a detection is in a zone.
fn collect_zones(json: &Json, step: &str, zones: &mut Vec<Overlay>) {
    match json {
        Json::Object(map) => {
            let comparator = map.get("comparator").and_then(|c| c.get("type"));
            let corners = map.get("right_operand").and_then(|o| o.get("value"));
            let corners = corners.map(Vec::<[f64; 2]>::deserialize);
            if comparator.is_some_and(|c| c == IN_ZONE)
                && let Some(Ok(corners)) = corners
            {
                zones.push(Overlay::Zone {
                    name: step.to_owned(),
                    polygon: corners.iter().map(|[x, y]| Point::new(*x, *y)).collect(),
                });
            }
            map.values().for_each(|v| collect_zones(v, step, zones));
        }
        Json::Array(items) => items.iter().for_each(|v| collect_zones(v, step, zones)),
        _ => {}
    }
}

fn is_detector(role: Role) -> bool {
    matches!(role, Role::Detector(_))
}
