//! Batch dimensionality and lineage: how deep each step's data is nested, and in what.
//!
//! A value's lineage is the list of places where its batches came from: all images of one run share the first id, a
//! step that makes many of one (crops) adds its own. Invariant: data of one step comes from one lineage; steps never
//! pair up elements that merely happen to have the same number.

use std::collections::BTreeMap;

use crate::workflow::block_api::manifest::Depth;
use crate::workflow::language::definition::Input;
use crate::workflow::language::error::{ErrorClass, Problem, Problems};
use crate::workflow::language::selector::Selector;
use crate::workflow::plan::step::CheckedStep;

/// Where one level of a batch came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// The batch of images (and whatever comes with them) of one run.
    Run,
    /// Deeper level of an input, by position of the input.
    Input(usize, usize),
    /// A step that makes many of one, by position of the step.
    Step(usize),
}

/// Lineage of a value; its length is the dimensionality.
pub(crate) type Lineage = Vec<Origin>;

/// What the data-flow pass found out about one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    /// Lineage of the elements the step is run on.
    pub(crate) exec: Lineage,
    /// Lineage of its outputs.
    pub(crate) out: Lineage,
    /// Depth at which the peer says it runs: a property that is taken as a whole batch counts as one where single values
    /// are given.
    pub(crate) peer_depth: usize,
    /// Branches that gate it: step and number of its branch.
    pub(crate) gates: Vec<(usize, usize)>,
}

/// Lineage of an input.
pub(crate) fn of_input(index: usize, input: &Input) -> Lineage {
    (0..input.depth())
        .map(|level| match level {
            0 => Origin::Run,
            _ => Origin::Input(index, level),
        })
        .collect()
}

/// Follows the data through the steps, which are in topological order.
///
/// # Errors
/// Every step whose inputs don't belong together, apart from those that follow from an earlier one.
pub(crate) fn analyse(inputs: &[Input], steps: &[CheckedStep]) -> Result<Vec<Flow>, Problems> {
    let mut problems = Problems::default();
    let of_inputs: BTreeMap<&str, Lineage> = inputs
        .iter()
        .enumerate()
        .map(|(i, input)| (input.name.as_str(), of_input(i, input)))
        .collect();
    let index: BTreeMap<&str, usize> = steps
        .iter()
        .enumerate()
        .map(|(i, s)| (s.name.as_str(), i))
        .collect();
    let mut gates: Vec<Vec<(usize, usize)>> = vec![Vec::new(); steps.len()];
    for (i, step) in steps.iter().enumerate() {
        for (branch, targets) in step.branches().iter().enumerate() {
            for target in targets {
                if let Some(target) = index.get(target) {
                    gates[*target].push((i, branch));
                }
            }
        }
    }
    let mut flows: Vec<Flow> = Vec::with_capacity(steps.len());
    for (i, step) in steps.iter().enumerate() {
        let lineage_of = |selector: &Selector| -> Lineage {
            match selector {
                Selector::Input(name) => of_inputs.get(name.as_str()).cloned(),
                Selector::Output { step, .. } | Selector::Step(step) => index
                    .get(step.as_str())
                    .and_then(|s| flows.get(*s))
                    .map(|f| f.out.clone()),
            }
            .unwrap_or_default()
        };
        let gating: Vec<&Lineage> = gates[i]
            .iter()
            .filter_map(|(s, _)| flows.get(*s))
            .map(|f| &f.exec)
            .collect();
        match one(i, step, &lineage_of, &gating) {
            Ok((exec, out)) => flows.push(Flow {
                peer_depth: peer_depth(step, &exec, &lineage_of),
                exec,
                out,
                gates: gates[i].clone(),
            }),
            Err(problem) => {
                problems.push(problem.step(&*step.name));
                return Err(problems);
            }
        }
    }
    Ok(flows)
}

fn peer_depth(
    step: &CheckedStep,
    exec: &Lineage,
    lineage_of: &dyn Fn(&Selector) -> Lineage,
) -> usize {
    let manifest = step.manifest;
    let is_cast = !manifest.batch.is_empty() && manifest.depth != Depth::Shallower;
    let mut has_data = false;
    for arg in &step.args {
        arg.each_ref(&mut |selector| has_data |= !lineage_of(selector).is_empty());
    }
    if is_cast && !has_data { 1 } else { exec.len() }
}

/// Lineage at which one step runs and that of its outputs.
fn one(
    index: usize,
    step: &CheckedStep,
    lineage_of: &dyn Fn(&Selector) -> Lineage,
    gates: &[&Lineage],
) -> Result<(Lineage, Lineage), Problem> {
    let manifest = step.manifest;
    let mut data: Vec<(&'static str, u8, Lineage)> = Vec::new();
    for (property, arg) in manifest.properties.iter().zip(&step.args) {
        arg.each_ref(&mut |selector| {
            let lineage = lineage_of(selector);
            if !lineage.is_empty() {
                data.push((property.name, property.deeper, lineage));
            }
        });
    }
    if let Some((property, ..)) = data.iter().find(|(p, ..)| !manifest.takes_batch(p)) {
        return Err(Problem::new(
            ErrorClass::ExecutionGraphStructureError,
            format!(
                "{property} of step {} takes one value for all pictures, and what it is given differs from picture to picture",
                step.name
            ),
        )
        .property(*property));
    }
    let Some((_, _, longest)) = data.iter().max_by_key(|(_, _, l)| l.len()) else {
        return scalar(index, step, gates);
    };
    for (property, _, lineage) in &data {
        if !longest.starts_with(lineage) {
            return Err(Problem::new(
                ErrorClass::StepInputLineageError,
                format!(
                    "{property} of step {} comes from another batch than its other inputs, so that elements can't be paired",
                    step.name
                ),
            )
            .property(*property));
        }
    }
    let base = |(_, deeper, lineage): &(&str, u8, Lineage)| {
        lineage.len().checked_sub(usize::from(*deeper))
    };
    let depths: Vec<Option<usize>> = data.iter().map(base).collect();
    if let Some(odd) = depths.iter().position(|d| *d != depths[0]) {
        let (property, deeper, lineage) = &data[odd];
        return Err(Problem::new(
            ErrorClass::StepInputDimensionalityError,
            format!(
                "{property} of step {} is {} deep, where {} is expected beside {} of depth {}",
                step.name,
                lineage.len(),
                depths[0].unwrap_or(0) + usize::from(*deeper),
                data[0].0,
                data[0].2.len()
            ),
        )
        .property(*property));
    }
    let mut exec = longest.clone();
    exec.truncate(depths[0].unwrap_or(0));
    for gate in gates {
        if !longest.starts_with(gate) {
            return Err(conflict(step));
        }
    }
    Ok(match manifest.depth {
        Depth::Same | Depth::Reference(_) => (exec.clone(), exec),
        Depth::Deeper => {
            let mut out = exec.clone();
            out.push(Origin::Step(index));
            (exec, out)
        }
        Depth::Shallower => {
            exec.pop();
            (exec.clone(), exec)
        }
    })
}

/// A step without batch data takes the lineage of what gates it.
fn scalar(
    index: usize,
    step: &CheckedStep,
    gates: &[&Lineage],
) -> Result<(Lineage, Lineage), Problem> {
    let exec = gates
        .iter()
        .max_by_key(|g| g.len())
        .map(|g| (*g).clone())
        .unwrap_or_default();
    if gates.iter().any(|g| !exec.starts_with(g)) {
        return Err(conflict(step));
    }
    match step.manifest.depth {
        Depth::Same | Depth::Reference(_) => Ok((exec.clone(), exec)),
        Depth::Deeper => {
            let mut out = exec.clone();
            out.push(Origin::Step(index));
            Ok((exec, out))
        }
        // A single value counts as a batch of one.
        Depth::Shallower if !step.manifest.batch.is_empty() => Ok((exec.clone(), exec)),
        Depth::Shallower => Err(Problem::new(
            ErrorClass::StepInputDimensionalityError,
            format!(
                "step {} collapses a batch, and none of its inputs is one",
                step.name
            ),
        )),
    }
}

fn conflict(step: &CheckedStep) -> Problem {
    Problem::new(
        ErrorClass::ControlFlowDefinitionError,
        format!(
            "step {} is gated by a decision about other data than its own, so that it could never run",
            step.name
        ),
    )
}
