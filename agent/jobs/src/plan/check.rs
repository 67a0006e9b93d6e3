//! Checks a plan against the tools.
//!
//! - All faults are reported together, each once.
//! - A [`CheckedPlan`] has none: its references, kinds and files are valid, and each step follows
//!   those that it waits for.
//! - Not here: the form of a plan (`read`), repairs (`repair`), what other jobs and folders hold
//!   (`crate::addresses`).

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::fault::{Fault, FaultKind};
use super::graph::Graph;
use super::reference::{self, INPUTS, Reference, Text};
use super::{Call, MAX_STEPS, Plan, Step};
use crate::spelling::nearest;
use crate::tool::{Kind, ToolSpec, Toolbox, local_time};

/// A plan without faults, its steps after those they wait for.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedPlan {
    plan: Plan,
    graph: Graph,
}

impl CheckedPlan {
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the steps that a step waits for, as places in the plan.
    pub fn waits_for(&self, place: usize) -> impl Iterator<Item = usize> {
        self.graph
            .waits_for
            .get(place)
            .into_iter()
            .flatten()
            .copied()
    }

    pub(crate) const fn graph(&self) -> &Graph {
        &self.graph
    }
}

/// Checks a plan.
///
/// # Errors
/// All faults, in the order of the steps, then those of cycles.
pub fn check(plan: Plan, tools: &Toolbox) -> Result<CheckedPlan, Vec<Fault>> {
    check_parts(plan, tools, true)
}

/// Checks a plan as [`check`] does, but not what this box lacks. A step that needs it fails at the
/// run, and a done step needs it no more.
///
/// # Errors
/// Those of [`check`].
pub(crate) fn check_without_box(plan: Plan, tools: &Toolbox) -> Result<CheckedPlan, Vec<Fault>> {
    check_parts(plan, tools, false)
}

fn check_parts(plan: Plan, tools: &Toolbox, asks_box: bool) -> Result<CheckedPlan, Vec<Fault>> {
    let mut faults = Vec::new();
    match plan.steps.len() {
        0 => faults.push(Fault::new("steps", FaultKind::NoSteps)),
        n if n > MAX_STEPS => faults.push(Fault::new("steps", FaultKind::TooManySteps(n))),
        _ => {}
    }
    let checker = Checker::new(&plan, tools, asks_box);
    let mut written = HashMap::new();
    for (place, step) in plan.steps.iter().enumerate() {
        checker.step(place, step, &mut faults);
        checker.files(step, &mut written, &mut faults);
    }
    let graph = Graph::of(&plan);
    let order = graph.order();
    if order.is_none() {
        faults.extend(cycles(&plan, graph));
    }
    match order {
        Some(order) if faults.is_empty() => Ok(ordered(plan, &order)),
        _ => Err(faults),
    }
}

/// The parameters whose values are known before the run; `null` stands for all others.
fn known_params(call: &Call, plan: &Plan) -> Map<String, Value> {
    let known = call.params.iter().map(|(name, value)| {
        let value = match value.as_str().map(reference::parse) {
            None | Some(Text::Plain) => value.clone(),
            Some(Text::Reference(input)) if input.owner == INPUTS => {
                plan.inputs.get(&input.key).cloned().unwrap_or_default()
            }
            Some(_) => Value::Null,
        };
        (name.clone(), value)
    });
    known.collect()
}

/// Cycles without a common step. Those of references come first: no repair breaks them. A step that
/// waits for itself has its own fault.
fn cycles(plan: &Plan, mut graph: Graph) -> Vec<Fault> {
    let mut cycles = Graph::of_references(plan).separate_cycles();
    graph.release(&cycles.concat());
    cycles.extend(graph.separate_cycles());
    let names = |cycle: &Vec<usize>| cycle.iter().map(|at| name(plan, *at)).collect();
    let faults = cycles.iter().map(names);
    faults
        .map(|names| Fault::new("steps", FaultKind::Cycle(names)))
        .collect()
}

fn name(plan: &Plan, place: usize) -> String {
    plan.steps
        .get(place)
        .map(|step| step.name.clone())
        .unwrap_or_default()
}

fn ordered(mut plan: Plan, order: &[usize]) -> CheckedPlan {
    let mut steps: Vec<Option<Step>> = plan.steps.into_iter().map(Some).collect();
    let moved = order
        .iter()
        .filter_map(|place| steps.get_mut(*place)?.take());
    plan.steps = moved.collect();
    let graph = Graph::of(&plan);
    CheckedPlan { plan, graph }
}

/// Returns whether `name` may be the name of a step or input.
pub(super) fn is_step_name(name: &str) -> bool {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|c| c.is_ascii_lowercase());
    let goes_on = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    begins && letters.all(goes_on) && name.len() <= 64 && name != INPUTS
}

pub(super) const STEP_NAME: &str =
    "a name of 1 to 64 of a-z, 0-9, '-' and '_' that begins with a letter and is not inputs";

const IN_LIST: &str =
    "a text without references; write the list out, or one reference in place of the whole list";

struct Checker<'a> {
    plan: &'a Plan,
    tools: &'a Toolbox,
    /// Whether what this box lacks is a fault.
    asks_box: bool,
    /// The first step of each name.
    steps: HashMap<&'a str, &'a Step>,
    /// Results that are used, by the step that has them.
    used: HashMap<String, BTreeSet<String>>,
}

impl<'a> Checker<'a> {
    fn new(plan: &'a Plan, tools: &'a Toolbox, asks_box: bool) -> Self {
        let mut steps = HashMap::new();
        for step in &plan.steps {
            steps.entry(step.name.as_str()).or_insert(step);
        }
        let mut used: HashMap<String, BTreeSet<String>> = HashMap::new();
        let calls = plan.steps.iter().flat_map(Step::calls);
        for value in calls.flat_map(|call| call.params.values()) {
            reference::each(value, &mut |r| {
                used.entry(r.owner.clone())
                    .or_default()
                    .insert(r.key.clone());
            });
        }
        Self {
            plan,
            tools,
            asks_box,
            steps,
            used,
        }
    }

    /// Whether a name means this step, and not an earlier one of the same name.
    fn is_named(&self, name: &str, step: &Step) -> bool {
        let first = self.steps.get(name);
        first.is_some_and(|first| std::ptr::eq(*first, step))
    }

    fn step(&self, place: usize, step: &Step, faults: &mut Vec<Fault>) {
        let at = match step.name.is_empty() {
            true => format!("steps.{place}"),
            false => format!("steps.{}", step.name),
        };
        if !is_step_name(&step.name) {
            let found = Value::from(step.name.as_str());
            faults.push(Fault::value(format!("{at}.name"), &found, STEP_NAME));
        }
        if !self.is_named(&step.name, step) {
            faults.push(Fault::new(&at, FaultKind::DuplicateStep));
        }
        for needed in &step.depends_on {
            let at = format!("{at}.depends_on");
            if self.is_named(needed, step) {
                faults.push(Fault::new(at, FaultKind::SelfDependency));
            } else if !self.steps.contains_key(needed.as_str()) {
                faults.push(Fault::new(at, self.unknown_step(needed)));
            }
        }
        for (n, call) in step.calls().enumerate() {
            let at = match n {
                0 => at.clone(),
                n => format!("{at}.alternatives.{}", n - 1),
            };
            self.call(&at, step, call, faults);
        }
    }

    fn unknown_step(&self, name: &str) -> FaultKind {
        let names = || self.plan.steps.iter().map(|step| step.name.as_str());
        unknown("step", name, names())
    }

    fn call(&self, at: &str, step: &Step, call: &Call, faults: &mut Vec<Fault>) {
        let Some(spec) = self.tools.spec(&call.tool) else {
            let known = self.tools.specs().map(|spec| spec.name);
            faults.push(Fault::new(
                format!("{at}.tool"),
                unknown("tool", &call.tool, known),
            ));
            return;
        };
        if call.tool != step.call.tool {
            self.same_outputs(at, step, spec, faults);
        }
        for param in spec.params.iter().filter(|param| param.required) {
            if call.params.get(param.name).is_none_or(Value::is_null) {
                let at = format!("{at}.params.{}", param.name);
                faults.push(Fault::new(at, FaultKind::Missing));
            }
        }
        let known_params = known_params(call, self.plan);
        let time = |name: &str| local_time(known_params.get(name)?.as_str()?);
        if let (Some(since), Some(until)) = (time("since"), time("until"))
            && since > until
        {
            let at = format!("{at}.params.until");
            let found = Value::from(until.to_string());
            faults.push(Fault::value(at, &found, "a time behind since"));
        }
        let tool = self.tools.get(&call.tool).filter(|_| self.asks_box);
        let missing = tool.and_then(|tool| tool.missing(&known_params));
        faults.extend(missing.map(|why| Fault::new(at, FaultKind::Unequipped(why))));
        for (name, value) in &call.params {
            let at = format!("{at}.params.{name}");
            match spec.param(name) {
                // Missing, a fault already.
                Some(param) if param.required && value.is_null() => {}
                Some(param) => self.value(&at, step, param.kind, value, faults),
                None => {
                    let known = spec.params.iter().map(|param| param.name);
                    faults.push(Fault::new(at, unknown("parameter", name, known)));
                }
            }
        }
    }

    /// An alternative has the results that other steps use.
    fn same_outputs(&self, at: &str, step: &Step, spec: &ToolSpec, faults: &mut Vec<Fault>) {
        let Some(own) = self.tools.spec(&step.call.tool) else {
            return;
        };
        let used = self.used.get(step.name.as_str()).into_iter().flatten();
        let missing = used.filter(|key| own.output(key).is_some() && spec.output(key).is_none());
        let known = || spec.outputs.iter().map(|output| output.key);
        faults.extend(
            missing.map(|key| Fault::new(format!("{at}.tool"), unknown("result", key, known()))),
        );
    }

    fn value(&self, at: &str, step: &Step, kind: Kind, value: &Value, faults: &mut Vec<Fault>) {
        let Value::String(text) = value else {
            let refused = match reference::in_list(value) {
                Some(item) => Some(Fault::value(at, item, IN_LIST)),
                None => (kind.refuse(value)).map(|wanted| Fault::value(at, value, wanted)),
            };
            faults.extend(refused);
            return;
        };
        match reference::parse(text) {
            Text::Plain => {
                faults.extend(
                    kind.refuse(value)
                        .map(|wanted| Fault::value(at, value, wanted)),
                );
            }
            Text::Address(_) => {}
            Text::Malformed => {
                let wanted = "a reference such as ${step.key}, ${inputs.key} or job://id/step/key";
                faults.push(Fault::value(at, value, wanted));
            }
            Text::Reference(reference) => {
                let given = self.referenced(at, step, &reference, faults);
                if let Some(given) = given.filter(|given| !kind.accepts(*given)) {
                    let wanted = format!("{kind}; it is {given}");
                    faults.push(Fault::value(at, value, wanted));
                }
                if reference.owner == INPUTS
                    && let Some(input) = self.plan.inputs.get(&reference.key)
                    && let Some(wanted) = kind.refuse(input)
                {
                    faults.push(Fault::value(
                        format!("inputs.{}", reference.key),
                        input,
                        wanted,
                    ));
                }
            }
            Text::Mixed(all) => {
                let lists = [Kind::Pictures, Kind::Groups];
                let given = all.iter().map(|r| self.referenced(at, step, r, faults));
                let has_list = given
                    .flatten()
                    .fold(false, |any, kind| any | lists.contains(&kind));
                // A folder in parts can't be compared with the folders that a user names.
                if kind == Kind::Folder {
                    let wanted = format!("{kind}, or one reference such as ${{inputs.folder}}");
                    faults.push(Fault::value(at, value, wanted));
                } else if has_list || !matches!(kind, Kind::Text | Kind::Name | Kind::Time) {
                    faults.push(Fault::value(at, value, kind.to_string()));
                }
            }
        }
    }

    /// The kind of a step's result; `None` for inputs and for what does not exist.
    fn referenced(
        &self,
        at: &str,
        step: &Step,
        reference: &Reference,
        faults: &mut Vec<Fault>,
    ) -> Option<Kind> {
        let Reference { owner, key } = reference;
        if owner == INPUTS {
            if !self.plan.inputs.contains_key(key) {
                let known = self.plan.inputs.keys().map(String::as_str);
                faults.push(Fault::new(at, unknown("input", key, known)));
            }
            return None;
        }
        if self.is_named(owner, step) {
            faults.push(Fault::new(at, FaultKind::SelfDependency));
            return None;
        }
        let Some(other) = self.steps.get(owner.as_str()) else {
            faults.push(Fault::new(at, self.unknown_step(owner)));
            return None;
        };
        let spec = self.tools.spec(&other.call.tool)?;
        let output = spec.output(key);
        if output.is_none() {
            let known = spec.outputs.iter().map(|output| output.key);
            faults.push(Fault::new(at, unknown("result", key, known)));
        }
        output.map(|output| output.kind)
    }

    /// Two steps do not write one file.
    fn files(
        &self,
        step: &'a Step,
        written: &mut HashMap<&'a str, &'a str>,
        faults: &mut Vec<Fault>,
    ) {
        for call in step.calls() {
            let Some(spec) = self.tools.spec(&call.tool) else {
                continue;
            };
            let names = spec.params.iter().filter(|param| param.kind == Kind::Name);
            let names = names.filter_map(|param| call.params.get(param.name)?.as_str());
            for name in names.filter(|name| reference::parse(name) == Text::Plain) {
                let other = *written.entry(name).or_insert(&step.name);
                if other != step.name {
                    let (name, other) = (name.to_owned(), other.to_owned());
                    let kind = FaultKind::SameFile { name, other };
                    faults.push(Fault::new(format!("steps.{}", step.name), kind));
                }
            }
        }
    }
}

/// Maximum number of names that a fault lists.
const MAX_KNOWN: usize = 20;

pub(crate) fn unknown<'n>(
    what: &'static str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
) -> FaultKind {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    // Two steps of one name have their own error.
    known.dedup();
    unknown_among(what, name, &known, MAX_KNOWN)
}

/// As [`unknown`]; the fault names the first `max` of `known`.
pub(crate) fn unknown_among(
    what: &'static str,
    name: &str,
    known: &[&str],
    max: usize,
) -> FaultKind {
    FaultKind::Unknown {
        what,
        name: name.to_owned(),
        nearest: nearest(name, known.iter().copied()).map(str::to_owned),
        known: known
            .iter()
            .take(max)
            .map(|&name| name.to_owned())
            .collect(),
        others: known.len().saturating_sub(max),
    }
}
