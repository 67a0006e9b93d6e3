//! Repairs what is wrong with a plan where the intention is clear.
//!
//! - Names are replaced by the nearest known one, only where that is near and unique.
//! - An unknown parameter or result is the one that is missing or that fits, if only one does.
//! - A wish for an order that no result needs may be dropped; a reference never is.
//! - Every change is reported.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use jiff::{Span, Unit, Zoned};
use serde_json::Value;

use super::check::{CheckedPlan, check};
use super::fault::Fault;
use super::graph::{Graph, referenced};
use super::reference::{self, INPUTS, Reference};
use super::{Call, Plan, Step};
use crate::spelling::nearest;
use crate::tool::{Kind, Toolbox};

/// Most cycles that are broken: a plan with more was not meant so, and is refused.
const MAX_CYCLES: usize = 100;

/// Words of tools for the name of their output.
const OUTPUT_NAMES: [&str; 2] = ["file", "name"];

/// Steps of a new order that are named.
const MAX_NAMED: usize = 20;

/// One change of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Step that was changed; empty for the plan.
    pub step: String,
    pub what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step.is_empty() {
            true => f.write_str(&self.what),
            false => write!(f, "step {}: {}", self.step, self.what),
        }
    }
}

/// A plan after its repair.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    pub plan: CheckedPlan,
    pub changes: Vec<Change>,
}

/// A plan that stays invalid.
#[derive(Debug, Clone, PartialEq)]
pub struct Unrepaired {
    /// The faults that are left.
    pub faults: Vec<Fault>,
    /// Repairs that were made.
    pub changes: Vec<Change>,
}

/// Checks a plan and repairs what can be repaired.
///
/// # Errors
/// If faults are left.
pub fn repair(mut plan: Plan, tools: &Toolbox) -> Result<Repaired, Unrepaired> {
    let mut changes = Vec::new();
    drop_copies(&mut plan, &mut changes);
    for step in &mut plan.steps {
        tools_and_params(step, tools, &mut changes);
    }
    references(&mut plan, tools, &mut changes);
    inputs(&mut plan, tools, &mut changes);
    dependencies(&mut plan, &mut changes);
    cycles(&mut plan, &mut changes);
    let listed: Vec<String> = plan.steps.iter().map(|step| step.name.clone()).collect();
    let plan = match check(plan, tools) {
        Ok(plan) => plan,
        Err(faults) => return Err(Unrepaired { faults, changes }),
    };
    let ordered = plan.plan().steps.iter().map(|step| step.name.as_str());
    if !ordered.clone().eq(listed.iter().map(String::as_str)) {
        let named = ordered.take(MAX_NAMED).collect::<Vec<_>>().join(", ");
        let more = match listed.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        report(&mut changes, "", format!("the order is {named}{more}"));
    }
    Ok(Repaired { plan, changes })
}

fn report(changes: &mut Vec<Change>, step: &str, what: String) {
    changes.push(Change {
        step: step.to_owned(),
        what,
    });
}

/// Removes steps that are listed twice with the same content.
fn drop_copies(plan: &mut Plan, changes: &mut Vec<Change>) {
    let mut kept: Vec<Step> = Vec::with_capacity(plan.steps.len());
    let mut names = HashSet::new();
    for step in std::mem::take(&mut plan.steps) {
        if !names.insert(step.name.clone()) && kept.contains(&step) {
            report(
                changes,
                &step.name,
                "listed twice; one is dropped".to_owned(),
            );
        } else {
            kept.push(step);
        }
    }
    plan.steps = kept;
}

fn tools_and_params(step: &mut Step, tools: &Toolbox, changes: &mut Vec<Change>) {
    let name = step.name.clone();
    for call in step.calls_mut() {
        if tools.spec(&call.tool).is_none()
            && let Some(near) = nearest(&call.tool, tools.specs().map(|spec| spec.name))
        {
            report(changes, &name, format!("tool {:?} is {near}", call.tool));
            near.clone_into(&mut call.tool);
        }
        params(&name, call, tools, changes);
    }
}

fn params(step: &str, call: &mut Call, tools: &Toolbox, changes: &mut Vec<Change>) {
    let Some(spec) = tools.spec(&call.tool) else {
        return;
    };
    let unknown: Vec<String> = call.params.keys().cloned().collect();
    let unknown: Vec<&String> = unknown
        .iter()
        .filter(|name| spec.param(name).is_none())
        .collect();
    for name in &unknown {
        let free = spec
            .params
            .iter()
            .filter(|param| !call.params.contains_key(param.name));
        let value = call.params.get(*name);
        let mut missing = free.clone().filter(|param| param.required);
        let near = nearest(name, free.map(|param| param.name));
        let one = || match (unknown.as_slice(), missing.next(), missing.next()) {
            ([_], Some(missing), None) => {
                let is_fit = value.is_some_and(|value| {
                    let refers = matches!(
                        missing.kind,
                        Kind::Pictures | Kind::Groups | Kind::Collection
                    );
                    let text = value.as_str().filter(|_| refers).map(reference::parse);
                    let is_reference = matches!(text, Some(reference::Text::Reference(_)));
                    is_reference || missing.kind.refuse(value).is_none()
                });
                // An output is meant by another tool's word for it, and by nothing else.
                let is_named = missing.kind != Kind::Name || OUTPUT_NAMES.contains(&name.as_str());
                (is_fit && is_named).then_some(missing.name)
            }
            _ => None,
        };
        if let Some(near) = near.or_else(one)
            && let Some(value) = call.params.remove(*name)
        {
            report(changes, step, format!("parameter {name:?} is {near}"));
            call.params.insert(near.to_owned(), value);
        }
    }
    for (name, value) in &mut call.params {
        let Some(param) = spec.param(name) else {
            continue;
        };
        if let Some(better) = converted(param.kind, value) {
            report(
                changes,
                step,
                format!("parameter {name}: {value} is {better}"),
            );
            *value = better;
        }
    }
}

/// The value that was meant by a text: a number, flag, choice, or a time by its span before now.
fn converted(kind: Kind, value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    if kind.refuse(value).is_none() || reference::parse(text) != reference::Text::Plain {
        return None;
    }
    let better = match kind {
        // Flags of YAML 1.1.
        Kind::Flag if ["yes", "on"].contains(&text.trim()) => Value::Bool(true),
        Kind::Flag if ["no", "off"].contains(&text.trim()) => Value::Bool(false),
        Kind::Integer { .. } | Kind::Number { .. } | Kind::Flag => {
            serde_json::from_str(text.trim()).ok()?
        }
        Kind::Choice(all) => Value::from(nearest(text, all.iter().copied())?),
        // Once for the whole job: a retry or a resumed job has the same time.
        Kind::Time => {
            let span: Span = text.trim().parse().ok()?;
            let now = Zoned::now().round(Unit::Second).ok()?;
            let before = now.checked_sub(span).ok().filter(|time| *time < now)?;
            Value::from(before.datetime().to_string())
        }
        _ => return None,
    };
    kind.refuse(&better).is_none().then_some(better)
}

/// Corrects the names of steps, results and inputs in references.
fn references(plan: &mut Plan, tools: &Toolbox, changes: &mut Vec<Change>) {
    let steps: Vec<(String, String)> = (plan.steps.iter())
        .map(|step| (step.name.clone(), step.call.tool.clone()))
        .collect();
    let inputs: Vec<String> = plan.inputs.keys().cloned().collect();
    for step in &mut plan.steps {
        let mut found: Vec<(Reference, Option<Kind>)> = Vec::new();
        for call in step.calls() {
            for (name, value) in &call.params {
                let param = tools.spec(&call.tool).and_then(|spec| spec.param(name));
                let kind = param.map(|param| param.kind);
                reference::each(value, &mut |r| found.push((r.clone(), kind)));
            }
        }
        for (reference, kind) in found {
            let all = (steps.as_slice(), inputs.as_slice());
            let Some(better) = corrected(&reference, kind, &step.name, all, tools) else {
                continue;
            };
            let values = step.calls_mut().flat_map(|call| call.params.values_mut());
            // One reference may occur several times; the first pass renames all.
            if values.fold(false, |any, v| {
                reference::rename(v, &reference, &better) | any
            }) {
                let show = |r: &Reference| format!("${{{}.{}}}", r.owner, r.key);
                let what = format!("{} is {}", show(&reference), show(&better));
                report(changes, &step.name, what);
            }
        }
    }
}

/// The nearest existing reference, or the only result of its step that fits a parameter of `kind`.
/// `None` if this one exists, or none is meant.
fn corrected(
    reference: &Reference,
    kind: Option<Kind>,
    own: &str,
    (steps, inputs): (&[(String, String)], &[String]),
    tools: &Toolbox,
) -> Option<Reference> {
    let mut better = reference.clone();
    if better.owner == INPUTS {
        if !inputs.contains(&better.key) {
            nearest(&reference.key, inputs.iter().map(String::as_str))?.clone_into(&mut better.key);
        }
    } else {
        let tool = |name: &str| {
            steps
                .iter()
                .find(|(step, _)| step == name)
                .map(|(_, tool)| tool)
        };
        if tool(&better.owner).is_none() {
            let others = steps.iter().map(|(step, _)| step.as_str());
            // The own step counts, so that a tie with it is noticed.
            nearest(&reference.owner, others)
                .filter(|name| *name != own)?
                .clone_into(&mut better.owner);
        }
        let spec = tools.spec(tool(&better.owner)?)?;
        if spec.output(&better.key).is_none() {
            let fits = |kind: Kind| {
                spec.outputs
                    .iter()
                    .filter(move |one| kind.accepts(one.kind))
            };
            let one = || {
                let mut fitting = fits(kind?);
                fitting.next().filter(|_| fitting.next().is_none())
            };
            let near = nearest(&reference.key, spec.outputs.iter().map(|output| output.key));
            near.or_else(|| Some(one()?.key))?
                .clone_into(&mut better.key);
        }
    }
    (better != *reference).then_some(better)
}

/// Converts inputs as [`converted`] does, if all parameters that take one take the new value.
fn inputs(plan: &mut Plan, tools: &Toolbox, changes: &mut Vec<Change>) {
    let Plan { inputs, steps, .. } = plan;
    for (key, value) in inputs {
        let takes = |given: &Value| {
            let reference = match given.as_str().map(reference::parse) {
                Some(reference::Text::Reference(reference)) => reference,
                _ => return false,
            };
            reference.owner == INPUTS && reference.key == *key
        };
        let calls = steps.iter().flat_map(Step::calls);
        let kinds: Vec<Kind> = calls
            .flat_map(|call| {
                let taking = call.params.iter().filter(|(_, given)| takes(given));
                taking.filter_map(|(name, _)| Some(tools.spec(&call.tool)?.param(name)?.kind))
            })
            .collect();
        let better = kinds.iter().find_map(|kind| converted(*kind, value));
        let fits = |better: &Value| kinds.iter().all(|kind| kind.refuse(better).is_none());
        if let Some(better) = better.filter(fits) {
            report(changes, "", format!("input {key}: {value} is {better}"));
            *value = better;
        }
    }
}

/// Corrects or drops names in `depends_on`.
fn dependencies(plan: &mut Plan, changes: &mut Vec<Change>) {
    let names: BTreeSet<String> = plan.steps.iter().map(|step| step.name.clone()).collect();
    for step in &mut plan.steps {
        let mut kept: Vec<String> = Vec::new();
        for needed in std::mem::take(&mut step.depends_on) {
            // Only for unknown names: all others are compared.
            let near = || nearest(&needed, names.iter().map(String::as_str));
            if needed == step.name {
                report(changes, &step.name, "no longer waits for itself".to_owned());
            } else if names.contains(&needed) {
                kept.push(needed);
            } else if let Some(near) = near().filter(|name| *name != step.name) {
                report(
                    changes,
                    &step.name,
                    format!("dependency {needed:?} is {near}"),
                );
                kept.push(near.to_owned());
            } else {
                let what = format!("dependency {needed:?} is dropped: there is no such step");
                report(changes, &step.name, what);
            }
        }
        kept.dedup();
        step.depends_on = kept;
    }
}

/// Breaks cycles at `depends_on`, never at a reference: first at one that points to a step that is
/// listed later. A cycle of references stays; the others are still broken, up to [`MAX_CYCLES`],
/// because each costs a search.
fn cycles(plan: &mut Plan, changes: &mut Vec<Change>) {
    let mut graph = Graph::of(plan);
    for _ in 0..MAX_CYCLES {
        let Some(cycle) = graph.cycle() else { return };
        let after = cycle.iter().cycle().skip(1);
        let edges: Vec<(usize, usize)> = cycle.iter().copied().zip(after.copied()).collect();
        let is_weak = |(from, to): &(usize, usize)| {
            let (Some(from), Some(to)) = (plan.steps.get(*from), plan.steps.get(*to)) else {
                return false;
            };
            from.depends_on.contains(&to.name) && !referenced(from).contains(&to.name)
        };
        let weak = edges.iter().filter(|edge| is_weak(edge));
        let Some((from, to)) = weak.copied().max_by_key(|(from, to)| (to > from, *from)) else {
            graph.release(&cycle);
            continue;
        };
        let needed = plan.steps.get(to).map(|step| step.name.clone());
        if let (Some(needed), Some(step)) = (needed, plan.steps.get_mut(from)) {
            step.depends_on.retain(|name| *name != needed);
            let what = format!("no longer waits for {needed}, which waits for it");
            report(changes, &step.name, what);
        }
        graph.remove(from, to);
    }
}
