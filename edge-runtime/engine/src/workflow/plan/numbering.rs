//! From a checked definition to a plan: numbers for slots, branches and bundles.
//!
//! - Owns the order of slots: inputs first, then the outputs of the steps in topological order.
//! - Invariant: a step reads only slots of inputs and of earlier steps.
//! - Not here: the plan and its queries (`compiled`), checks of the definition (`check`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use watchkeeper_contract::workflow::WorkflowError;

use crate::workflow::block_api::manifest::Depth;
use crate::workflow::language::definition::{Input, InputType, OutputDef};
use crate::workflow::language::error::ErrorClass;
use crate::workflow::language::selector::Selector;
use crate::workflow::plan::check::Checked;
use crate::workflow::plan::compiled::{
    Compiled, OutputOf, PlanInput, PlanOutput, PlanStep, ShapeOf, SlotInfo, Source, WorkflowPlan,
    place,
};
use crate::workflow::plan::lineage::{Flow, Origin, of_input as input_lineage};
use crate::workflow::plan::step::{ArgValue, CheckedStep};
use crate::workflow::values::value::Value;

/// Makes the plan of a checked definition.
pub(crate) fn plan(
    checked: Checked,
    parameters: &BTreeMap<String, Json>,
) -> Result<Compiled, Vec<WorkflowError>> {
    check_parameters(&checked, parameters)?;
    let inputs = checked.inputs.iter();
    let inputs = inputs.map(|input| plan_input(input, parameters)).collect();
    let (numbers, branches) = Numbers::assign(&checked);
    let steps = checked.steps.iter().zip(&checked.flow).enumerate();
    let mut steps: Vec<PlanStep> = steps
        .map(|(i, (step, flow))| numbers.step(i, step, flow))
        .collect();
    let outputs = checked.outputs.iter().map(|o| numbers.output(o));
    let outputs: Vec<PlanOutput> = outputs.collect();
    mark_read(&mut steps, &outputs, numbers.slots.len());
    let compiled = Compiled {
        plan: Arc::new(WorkflowPlan {
            inputs,
            steps,
            outputs,
            slots: numbers.slots,
            branches,
        }),
    };
    compiled.check_blocks()?;
    Ok(compiled)
}

/// Notes for each step which of its outputs are read.
fn mark_read(steps: &mut [PlanStep], outputs: &[PlanOutput], slots: usize) {
    let mut is_read = vec![false; slots];
    for step in steps.iter() {
        step.args.iter().for_each(|arg| arg.mark_read(&mut is_read));
    }
    for output in outputs {
        match &output.what {
            OutputOf::One(slot) => is_read[*slot] = true,
            OutputOf::All(all) => all.iter().for_each(|(_, slot)| is_read[*slot] = true),
        }
    }
    for step in steps {
        let own = is_read.iter().skip(step.first_slot);
        step.read = own.take(step.outputs.len()).copied().collect();
    }
}

fn plan_input(input: &Input, parameters: &BTreeMap<String, Json>) -> PlanInput {
    let value = match &input.what {
        InputType::Parameter { default } => parameters.get(&input.name).unwrap_or(default).clone(),
        _ => Json::Null,
    };
    PlanInput {
        name: Arc::from(input.name.as_str()),
        what: input.what.clone(),
        kinds: input.kinds,
        value: Value::from(value),
    }
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
            ErrorClass::RuntimeInputError
                .problem(format!("the workflow has no parameter {name}"))
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

/// Numbers assigned to names while a plan is made.
struct Numbers<'a> {
    slots: Vec<SlotInfo>,
    flows: &'a [Flow],
    of_input: BTreeMap<&'a str, usize>,
    /// Steps with the slot of their first output.
    of_step: BTreeMap<&'a str, (usize, &'a CheckedStep)>,
    /// Number of each step's first branch.
    first_branches: Vec<usize>,
}

impl<'a> Numbers<'a> {
    /// Numbers inputs, outputs and branches; also returns the number of branches.
    fn assign(checked: &'a Checked) -> (Self, usize) {
        let mut slots: Vec<SlotInfo> = Vec::new();
        let mut of_input = BTreeMap::new();
        for (index, input) in checked.inputs.iter().enumerate() {
            of_input.insert(input.name.as_str(), index);
            let depth = input_lineage(index, input).len();
            slots.push(SlotInfo {
                depth,
                kinds: input.kinds,
                by_row: depth > 0,
            });
        }
        let mut of_step = BTreeMap::new();
        for (step, flow) in checked.steps.iter().zip(&checked.flow) {
            of_step.insert(step.name.as_str(), (slots.len(), step));
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
        let numbers = Self {
            slots,
            flows: &checked.flow,
            of_input,
            of_step,
            first_branches,
        };
        (numbers, branches)
    }

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

    /// Returns the number of a branch and the depth at which it is decided.
    fn condition(&self, step: usize, branch: usize) -> (usize, usize) {
        let first = self.first_branches.get(step);
        let depth = self.flows.get(step).map_or(0, |flow| flow.exec.len());
        (first.map_or(0, |first| first + branch), depth)
    }

    /// Returns what defines the number of elements at each level. It is data deep enough, first
    /// that of the reference property; otherwise a branch that the step depends on.
    fn shape(
        &self,
        step: &CheckedStep,
        exec: usize,
        conditions: &[(usize, usize)],
    ) -> Option<ShapeOf> {
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
            let mut deep_enough = conditions.iter().filter(|(_, depth)| *depth >= exec);
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
        let conditions = flow.conditions.iter();
        let conditions: Vec<(usize, usize)> =
            conditions.map(|(s, b)| self.condition(*s, *b)).collect();
        let cases = step.args.iter().flat_map(|arg| match arg {
            ArgValue::Cases(cases) => cases.iter().map(|(key, _)| Arc::clone(key)).collect(),
            _ => Vec::new(),
        });
        PlanStep {
            name: Arc::from(step.name.as_str()),
            manifest: step.manifest,
            literals: step.literals.clone(),
            outputs: step.outputs.clone(),
            // Known once all steps are numbered.
            read: Vec::new(),
            args,
            bundles,
            exec,
            shape: self.shape(step, exec, &conditions),
            first_slot: self
                .of_step
                .get(step.name.as_str())
                .map_or(0, |(first, _)| *first),
            first_branch: self.first_branches.get(index).copied().unwrap_or(0),
            branch_count: step.branches().len(),
            cases: cases.collect(),
            conditions,
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

/// Converts an argument. A bundle has a lower number than those nested in it.
fn source(
    arg: &ArgValue,
    slot_of: &dyn Fn(&Selector) -> Option<usize>,
    bundles: &mut usize,
) -> Source {
    let mut bundle = || {
        *bundles += 1;
        *bundles - 1
    };
    match arg {
        ArgValue::Literal(value) => Source::Const(value.clone()),
        ArgValue::Ref(selector) => {
            slot_of(selector).map_or(Source::Const(Value::Null), Source::Slot)
        }
        ArgValue::List(items) => {
            let number = bundle();
            let items = items.iter().map(|a| source(a, slot_of, bundles));
            Source::List(items.collect(), number)
        }
        ArgValue::Dict(items) => {
            let number = bundle();
            let items = items.iter();
            let items = items.map(|(key, a)| (Arc::clone(key), source(a, slot_of, bundles)));
            Source::Dict(items.collect(), number)
        }
        ArgValue::Steps(_) | ArgValue::Cases(_) => Source::Const(Value::Null),
    }
}
