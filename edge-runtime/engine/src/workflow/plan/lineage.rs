//! Batch dimensionality and lineage: how deep each step's data is nested, and in what.
//!
//! A value's lineage lists the origins of its batch levels. All images of one run share the first;
//! a step that makes many elements of one (crops) adds its own.
//!
//! - Data of one step has one lineage; elements are never paired just because their number is
//!   equal.

use std::collections::BTreeMap;

use crate::workflow::block_api::manifest::Depth;
use crate::workflow::language::definition::Input;
use crate::workflow::language::error::{ErrorClass, Problem, Problems};
use crate::workflow::language::selector::Selector;
use crate::workflow::plan::step::CheckedStep;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// The batch of images and other inputs of one run.
    Run,
    /// A deeper level of an input, by the input's position.
    Input(usize, usize),
    /// A step that makes many elements of one, by position.
    Step(usize),
}

/// Lineage of a value; its length is the depth.
pub(crate) type Lineage = Vec<Origin>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    /// Lineage of the elements on which the step runs.
    pub(crate) exec: Lineage,
    pub(crate) out: Lineage,
    /// Depth as the peer reports it: a property that takes a whole batch counts one level even for
    /// single values.
    pub(crate) peer_depth: usize,
    /// Branches that must be taken for it to run: step and number of the branch.
    pub(crate) conditions: Vec<(usize, usize)>,
}

pub(crate) fn of_input(index: usize, input: &Input) -> Lineage {
    (0..input.depth())
        .map(|level| match level {
            0 => Origin::Run,
            _ => Origin::Input(index, level),
        })
        .collect()
}

/// Follows the data through the steps, given in topological order. Fails with all steps whose
/// inputs don't fit together, except those that depend on such a step.
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
    let mut conditions: Vec<Vec<(usize, usize)>> = vec![Vec::new(); steps.len()];
    for (i, step) in steps.iter().enumerate() {
        for (branch, targets) in step.branches().iter().enumerate() {
            for target in targets {
                if let Some(target) = index.get(target) {
                    conditions[*target].push((i, branch));
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
        let required: Vec<&Lineage> = conditions[i]
            .iter()
            .filter_map(|(s, _)| flows.get(*s))
            .map(|f| &f.exec)
            .collect();
        match of_step(i, step, &lineage_of, &required) {
            Ok((exec, out)) => flows.push(Flow {
                peer_depth: peer_depth(step, &exec, &lineage_of),
                exec,
                out,
                conditions: conditions[i].clone(),
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

/// A property with batch data: name, levels that it is deeper than the step, lineage.
type BatchData = (&'static str, u8, Lineage);

/// Returns the lineage at which a step runs and that of its outputs.
fn of_step(
    index: usize,
    step: &CheckedStep,
    lineage_of: &dyn Fn(&Selector) -> Lineage,
    conditions: &[&Lineage],
) -> Result<(Lineage, Lineage), Problem> {
    let data = batch_data(step, lineage_of)?;
    let Some((_, _, longest)) = data.iter().max_by_key(|(_, _, l)| l.len()) else {
        return scalar(index, step, conditions);
    };
    check_common_lineage(step, &data, longest)?;
    let depth = common_depth(step, &data)?;
    let mut exec = longest.clone();
    exec.truncate(depth);
    if conditions
        .iter()
        .any(|condition| !longest.starts_with(condition))
    {
        return Err(conflict(step));
    }
    Ok(match step.manifest.depth {
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

/// Collects the properties with batch data; each must accept it.
fn batch_data(
    step: &CheckedStep,
    lineage_of: &dyn Fn(&Selector) -> Lineage,
) -> Result<Vec<BatchData>, Problem> {
    let manifest = step.manifest;
    let mut data: Vec<BatchData> = Vec::new();
    for (property, arg) in manifest.properties.iter().zip(&step.args) {
        arg.each_ref(&mut |selector| {
            let lineage = lineage_of(selector);
            if !lineage.is_empty() {
                data.push((property.name, property.deeper, lineage));
            }
        });
    }
    match data.iter().find(|(p, ..)| !manifest.takes_batch(p)) {
        Some((property, ..)) => Err(ErrorClass::ExecutionGraphStructureError
            .problem(format!(
                "{property} of step {} takes one value for all pictures, but gets one per picture",
                step.name
            ))
            .property(*property)),
        None => Ok(data),
    }
}

/// Checks that all data comes from one batch.
fn check_common_lineage(
    step: &CheckedStep,
    data: &[BatchData],
    longest: &Lineage,
) -> Result<(), Problem> {
    match data.iter().find(|(_, _, l)| !longest.starts_with(l)) {
        Some((property, ..)) => Err(ErrorClass::StepInputLineageError
            .problem(format!(
                "{property} of step {} comes from another batch than its other inputs, so their \
                 elements can't be paired; connect all inputs to one batch",
                step.name
            ))
            .property(*property)),
        None => Ok(()),
    }
}

/// Returns the depth at which the step runs; all data must agree on it.
fn common_depth(step: &CheckedStep, data: &[BatchData]) -> Result<usize, Problem> {
    let base = |(_, deeper, lineage): &BatchData| lineage.len().checked_sub(usize::from(*deeper));
    let depths: Vec<Option<usize>> = data.iter().map(base).collect();
    if let Some(odd) = depths.iter().position(|d| *d != depths[0]) {
        let (property, deeper, lineage) = &data[odd];
        return Err(ErrorClass::StepInputDimensionalityError
            .problem(format!(
                "{property} of step {} has depth {}, but {} is needed beside {} of depth {}",
                step.name,
                lineage.len(),
                depths[0].unwrap_or(0) + usize::from(*deeper),
                data[0].0,
                data[0].2.len()
            ))
            .property(*property));
    }
    Ok(depths[0].unwrap_or(0))
}

/// A step without batch data has the lineage of its conditions.
fn scalar(
    index: usize,
    step: &CheckedStep,
    conditions: &[&Lineage],
) -> Result<(Lineage, Lineage), Problem> {
    let exec = conditions
        .iter()
        .max_by_key(|g| g.len())
        .map(|g| (*g).clone())
        .unwrap_or_default();
    if conditions.iter().any(|g| !exec.starts_with(g)) {
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
        Depth::Shallower => Err(ErrorClass::StepInputDimensionalityError.problem(format!(
            "step {} collapses a batch, but none of its inputs is a batch; connect it to one, or \
             remove the step",
            step.name
        ))),
    }
}

fn conflict(step: &CheckedStep) -> Problem {
    ErrorClass::ControlFlowDefinitionError.problem(format!(
        "step {} depends on a decision about other data than its own, so it could never run; base \
         the decision on the data of the step",
        step.name
    ))
}
