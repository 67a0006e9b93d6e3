//! Checks a definition: names, references, kinds and cycles.
//!
//! - The order of the checks is that of the peer's compiler, so that the first problem has the
//!   class that the peer would report.
//! - A [`Checked`] graph has unique names, no dangling selector and a topological order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::workflow::blocks;
use crate::workflow::catalogue::entries::nearest_block;
use crate::workflow::language::definition;
use crate::workflow::language::definition::{Definition, Input, OutputDef, StepDef};
use crate::workflow::language::error::{ErrorClass, Problem, Problems};
use crate::workflow::language::kinds::KindSet;
use crate::workflow::language::selector::Selector;
use crate::workflow::language::subworkflow;
use crate::workflow::language::types;
use crate::workflow::plan::lineage;
use crate::workflow::plan::lineage::Flow;
use crate::workflow::plan::step;
use crate::workflow::plan::step::{ArgValue, CheckedStep};

use watchkeeper_contract::workflow::WorkflowError;

/// A definition without errors.
#[derive(Debug, Clone)]
pub(crate) struct Checked {
    pub(crate) inputs: Vec<Input>,
    pub(crate) steps: Vec<CheckedStep>,
    pub(crate) outputs: Vec<OutputDef>,
    /// Depth and lineage of every step, in the same order.
    pub(crate) flow: Vec<Flow>,
}

pub(crate) fn check(document: &Json) -> Result<Checked, Vec<WorkflowError>> {
    let mut problems = Problems::default();
    let inlined = match subworkflow::inline(document, &mut problems) {
        Ok(inlined) => inlined,
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    if !problems.is_empty() {
        return Err(problems.into_vec());
    }
    let document = inlined.as_ref().unwrap_or(document);
    let definition = definition::read(document, &mut problems);
    let steps = check_steps(&definition, &mut problems);
    check_names(&definition, &mut problems);
    let names = Names::new(&definition, &steps);
    for step in &steps {
        if problems.is_full() {
            break;
        }
        check_references(step, &names, &mut problems);
    }
    check_outputs(&definition, &names, &mut problems);
    if !problems.is_empty() {
        return Err(problems.into_vec());
    }
    let steps = sort(steps).map_err(|problem| vec![problem.done()])?;
    let flow = lineage::analyse(&definition.inputs, &steps).map_err(Problems::into_vec)?;
    Ok(Checked {
        inputs: definition.inputs,
        steps,
        outputs: definition.outputs,
        flow,
    })
}

fn check_steps(definition: &Definition, problems: &mut Problems) -> Vec<CheckedStep> {
    let mut checked = Vec::with_capacity(definition.steps.len());
    for def in &definition.steps {
        if problems.is_full() {
            break;
        }
        match blocks::find(&def.r#type) {
            Some(manifest) => checked.extend(step::check(def, manifest, problems)),
            None => problems.push(no_block(def, &definition.own_blocks)),
        }
    }
    checked
}

/// The error that a step's type has no block, with the reason if known.
fn no_block(step: &StepDef, own_blocks: &[String]) -> Problem {
    let (name, r#type) = (&step.name, &step.r#type);
    let problem = if own_blocks.contains(r#type) {
        ErrorClass::DynamicBlockError.problem(format!(
            "step {name} is a Python block, which is not supported; use property_definition, \
             expression or the query language"
        ))
    } else if let Some(known) = types::find(r#type) {
        match types::elsewhere(known) {
            Some(elsewhere) => {
                let mut problem = Problem::syntax(format!(
                    "step {name} is of type {type:?}, which is not supported because it {}",
                    elsewhere.reason
                ));
                if let Some(nearest) = elsewhere.nearest.and_then(blocks::latest) {
                    problem = problem.nearest_is(nearest);
                }
                problem
            }
            None => Problem::syntax(format!(
                "step {name} is of type {type:?}, which is not supported yet; `watchkeeper blocks` \
                 lists those that are"
            ))
            .nearest_of(r#type, blocks::all().map(|m| m.name)),
        }
    } else {
        let problem = Problem::syntax(format!(
            "step {name} is of type {type:?}, which does not exist; `watchkeeper blocks` lists the \
             types"
        ));
        match nearest_block(r#type) {
            Some(nearest) => problem.nearest_is(nearest),
            // Types of one namespace all look similar.
            None if r#type.contains('/') => problem,
            None => {
                let known = types::all().iter().flat_map(|k| k.aliases.iter().copied());
                problem.nearest_of(r#type, known)
            }
        }
    };
    problem.step(&**name).property("type")
}

fn check_names(definition: &Definition, problems: &mut Problems) {
    let mut unique = |what: &str, place: Option<&str>, names: Vec<&str>| {
        let mut seen = BTreeSet::new();
        let mut told = BTreeSet::new();
        for name in names {
            if !seen.insert(name) && told.insert(name) {
                let problem = ErrorClass::DuplicatedNameError.problem(format!(
                    "two {what} are called {name}; names must be unique"
                ));
                problems.push(match place {
                    Some(place) => problem.step(place).property(name),
                    None => problem.step(name),
                });
            }
        }
    };
    let inputs = definition.inputs.iter().map(|i| i.name.as_str());
    unique("inputs", Some("$inputs"), inputs.collect());
    let steps = definition.steps.iter().map(|s| s.name.as_str());
    unique("steps", None, steps.collect());
    let outputs = definition.outputs.iter().map(|o| o.name.as_str());
    unique("outputs", Some("$outputs"), outputs.collect());
}

/// Names that selectors may refer to.
struct Names<'a> {
    inputs: BTreeMap<&'a str, &'a Input>,
    /// Steps by name; `None` for an invalid one, so that references to it are not reported too.
    steps: BTreeMap<&'a str, Option<&'a CheckedStep>>,
}

impl<'a> Names<'a> {
    fn new(definition: &'a Definition, checked: &'a [CheckedStep]) -> Self {
        let mut steps: BTreeMap<&str, Option<&CheckedStep>> = definition
            .steps
            .iter()
            .map(|s| (s.name.as_str(), None))
            .collect();
        for step in checked {
            steps.insert(&step.name, Some(step));
        }
        Self {
            inputs: definition
                .inputs
                .iter()
                .map(|i| (i.name.as_str(), i))
                .collect(),
            steps,
        }
    }

    /// Returns the kinds of what a data selector refers to; `Ok(None)` if that is invalid itself.
    /// `star`: the selector is that of a workflow output, which may name all outputs of a step.
    fn kinds(&self, selector: &Selector, star: bool) -> Result<Option<KindSet>, Problem> {
        let missing = |message: String, found: &str, known: Vec<&str>| {
            ErrorClass::InvalidReferenceTargetError
                .problem(message)
                .allowed(found, known)
        };
        // In the peer's classes, a step that refers to a missing output is an error of the graph; a
        // workflow output is not.
        let missing_output = |message: String, found: &str, known: Vec<&str>| {
            let class = if star {
                ErrorClass::InvalidReferenceTargetError
            } else {
                ErrorClass::ExecutionGraphStructureError
            };
            class.problem(message).allowed(found, known)
        };
        match selector {
            Selector::Input(name) => match self.inputs.get(name.as_str()) {
                Some(input) => Ok(Some(input.kinds)),
                None => Err(missing(
                    format!("{selector} refers to an input that does not exist"),
                    name,
                    self.inputs.keys().copied().collect(),
                )),
            },
            Selector::Step(step) | Selector::Output { step, .. } => {
                let Some(known) = self.steps.get(step.as_str()) else {
                    return Err(missing(
                        format!("{selector} refers to a step that does not exist"),
                        step,
                        self.steps.keys().copied().collect(),
                    ));
                };
                let (Some(known), Selector::Output { output, .. }) = (known, selector) else {
                    return Ok(None);
                };
                let outputs = &known.outputs;
                if star && output == "*" {
                    return Ok(Some(
                        outputs
                            .iter()
                            .fold(KindSet::default(), |all, o| all.union(o.kinds)),
                    ));
                }
                match outputs.iter().find(|o| *o.name == **output) {
                    Some(found) => Ok(Some(found.kinds)),
                    None => Err(missing_output(
                        format!("{selector} refers to an output that step {step} does not have"),
                        output,
                        outputs.iter().map(|o| &*o.name).collect(),
                    )),
                }
            }
        }
    }
}

fn check_references(step: &CheckedStep, names: &Names<'_>, problems: &mut Problems) {
    for (property, arg) in step.manifest.properties.iter().zip(&step.args) {
        arg.each_ref(&mut |selector| {
            // A list may hold very many references.
            if problems.is_full() {
                return;
            }
            match names.kinds(selector, false) {
                Ok(Some(kinds)) if !kinds.fits(property.kinds) => problems.push(
                    ErrorClass::ReferenceTypeError
                        .problem(format!(
                            "{selector} has kind {}, which {} of step {} does not accept",
                            kinds.names().join(" or "),
                            property.name,
                            step.name
                        ))
                        .allowed("", property.kinds.names())
                        .step(&*step.name)
                        .property(property.name),
                ),
                Ok(_) => {}
                Err(problem) => problems.push(problem.step(&*step.name).property(property.name)),
            }
        });
    }
    let mut targets = BTreeSet::new();
    for (property, arg) in step.manifest.properties.iter().zip(&step.args) {
        let branch_targets: Vec<&str> = match arg {
            ArgValue::Steps(list) => list.iter().map(String::as_str).collect(),
            ArgValue::Cases(cases) => cases.iter().map(|(_, name)| name.as_str()).collect(),
            _ => continue,
        };
        for target in branch_targets {
            if problems.is_full() {
                return;
            }
            let problem = if !names.steps.contains_key(target) {
                ErrorClass::InvalidReferenceTargetError
                    .problem(format!(
                        "$steps.{target} refers to a step that does not exist"
                    ))
                    .allowed(target, names.steps.keys().copied())
            } else if !targets.insert(target) {
                ErrorClass::ExecutionGraphStructureError.problem(format!(
                    "step {} names step {target} in more than one branch",
                    step.name
                ))
            } else {
                continue;
            };
            problems.push(problem.step(&*step.name).property(property.name));
        }
    }
}

fn check_outputs(definition: &Definition, names: &Names<'_>, problems: &mut Problems) {
    for (name, written) in &definition.unselected {
        if problems.is_full() {
            return;
        }
        let problem = ErrorClass::InvalidReferenceTargetError.problem(format!(
            "{written:?} does not select an output; write $steps.name.output, $steps.name.* or \
             $inputs.name"
        ));
        problems.push(problem.step("$outputs").property(&**name));
    }
    for output in &definition.outputs {
        if problems.is_full() {
            return;
        }
        if let Err(problem) = names.kinds(&output.selector, true) {
            problems.push(problem.step("$outputs").property(&*output.name));
        }
    }
}

/// Sorts steps topologically, level by level: a step follows all steps with a shorter longest path
/// from an input. This order decides what a step sees of the shared state of others. Within a level
/// the document's order is kept.
fn sort(steps: Vec<CheckedStep>) -> Result<Vec<CheckedStep>, Problem> {
    let after = successors(&steps);
    let mut waits = vec![0_usize; steps.len()];
    for target in after.iter().flatten() {
        waits[*target] += 1;
    }
    let mut level: BTreeSet<usize> = (0..steps.len()).filter(|i| waits[*i] == 0).collect();
    let mut order = Vec::with_capacity(steps.len());
    while !level.is_empty() {
        let mut next = BTreeSet::new();
        for target in level.iter().flat_map(|step| &after[*step]) {
            waits[*target] -= 1;
            if waits[*target] == 0 {
                next.insert(*target);
            }
        }
        order.extend(std::mem::replace(&mut level, next));
    }
    if order.len() < steps.len() {
        let stuck: Vec<&str> = steps
            .iter()
            .zip(&waits)
            .filter(|(_, w)| **w > 0)
            .map(|(s, _)| s.name.as_str())
            .collect();
        let first = stuck.first().copied().unwrap_or_default().to_owned();
        return Err(ErrorClass::ExecutionGraphStructureError
            .problem(format!(
                "steps {} depend on each other in a circle; remove one of the references",
                stuck.join(", ")
            ))
            .step(first));
    }
    let mut steps: Vec<Option<CheckedStep>> = steps.into_iter().map(Some).collect();
    Ok(order
        .into_iter()
        .filter_map(|i| steps.get_mut(i).and_then(Option::take))
        .collect())
}

/// Returns the steps that depend directly on each step, by data or by a decision.
fn successors(steps: &[CheckedStep]) -> Vec<BTreeSet<usize>> {
    let index: BTreeMap<&str, usize> = steps
        .iter()
        .enumerate()
        .map(|(i, s)| (s.name.as_str(), i))
        .collect();
    let mut after: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); steps.len()];
    for (i, step) in steps.iter().enumerate() {
        for arg in &step.args {
            arg.each_ref(&mut |selector| {
                if let Selector::Output { step, .. } = selector
                    && let Some(source) = index.get(step.as_str())
                {
                    after[*source].insert(i);
                }
            });
        }
        for target in step.branches().into_iter().flatten() {
            if let Some(target) = index.get(target) {
                after[i].insert(*target);
            }
        }
    }
    after
}
