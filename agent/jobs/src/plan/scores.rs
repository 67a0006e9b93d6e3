//! Finds steps that order or filter by scores which their pictures can't have.
//!
//! - Pictures have scores from the step that measures them on, through all steps that pass them on.
//! - Pictures of another job may have scores.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::fault::{Fault, FaultKind};
use super::reference::{INPUTS, Text, each, parse};
use super::{Call, Plan, Step};
use crate::tool::{Kind, ToolSpec, Toolbox};

/// Returns a fault for each call without its scores. Steps are best visited in an `order` in which
/// each stands after those that it waits for. A call whose source has another fault (an unknown
/// step, a cycle, none at all) is given the benefit of the doubt.
pub(super) fn unscored(plan: &Plan, order: Option<&[usize]>, tools: &Toolbox) -> Vec<Fault> {
    let scored = Scored::of(plan, order, tools);
    let mut faults = Vec::new();
    for step in &plan.steps {
        for (n, call) in step.calls().enumerate() {
            let Some(tool) = tools.get(&call.tool) else {
                continue;
            };
            let needs = tool.needs_scores(&known_params(call, plan));
            if needs && !scored.gets(&Sources::of(call, tool.spec())) {
                let at = match n {
                    0 => format!("steps.{}", step.name),
                    n => format!("steps.{}.alternatives.{}", step.name, n - 1),
                };
                faults.push(Fault::new(at, FaultKind::Unscored));
            }
        }
    }
    faults
}

/// Where the pictures of a call come from.
struct Sources {
    /// Steps whose results it uses.
    steps: Vec<String>,
    /// Whether it uses another job, or its source is missing.
    is_unknown: bool,
}

impl Sources {
    fn of(call: &Call, spec: &ToolSpec) -> Self {
        let mut steps = Vec::new();
        for value in call.params.values() {
            each(value, &mut |reference| {
                if reference.owner != INPUTS {
                    steps.push(reference.owner.clone());
                }
            });
        }
        let mut texts = call.params.values().filter_map(Value::as_str);
        let lists = [Kind::Pictures, Kind::Groups, Kind::Collection];
        let takes_pictures = spec.params.iter().any(|param| lists.contains(&param.kind));
        let is_unknown = texts.any(is_address) || (steps.is_empty() && takes_pictures);
        Self { steps, is_unknown }
    }
}

/// For each step, whether its pictures may have scores.
struct Scored<'p> {
    by_place: Vec<bool>,
    places: HashMap<&'p str, Vec<usize>>,
}

impl<'p> Scored<'p> {
    fn of(plan: &'p Plan, order: Option<&[usize]>, tools: &Toolbox) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, step) in plan.steps.iter().enumerate() {
            places.entry(&step.name).or_default().push(place);
        }
        let by_place = vec![true; plan.steps.len()];
        let mut scored = Self { by_place, places };
        let passing = |step: &Step| -> Vec<Sources> {
            let sources = |call: &Call| {
                let tool = tools.get(&call.tool).filter(|tool| !tool.adds_scores())?;
                Some(Sources::of(call, tool.spec()))
            };
            step.calls().filter_map(sources).collect()
        };
        let passing: Vec<Vec<Sources>> = plan.steps.iter().map(passing).collect();
        let written: Vec<usize> = (0..plan.steps.len()).collect();
        // Ends: each pass but the last one finds a further step without scores.
        loop {
            let mut is_changed = false;
            for &place in order.unwrap_or(&written) {
                let mut calls = passing.get(place).into_iter().flatten();
                let adds = calls.all(|sources| scored.gets(sources));
                if !adds && let Some(mark @ true) = scored.by_place.get_mut(place) {
                    *mark = false;
                    is_changed = true;
                }
            }
            if !is_changed {
                return scored;
            }
        }
    }

    /// Whether pictures of these sources may have scores.
    fn gets(&self, sources: &Sources) -> bool {
        let is_scored = |name: &String| {
            let mut places = self.places.get(name.as_str())?.iter();
            Some(places.any(|place| self.by_place.get(*place) == Some(&true)))
        };
        let mut steps = sources.steps.iter();
        sources.is_unknown || steps.any(|name| is_scored(name).unwrap_or(true))
    }
}

fn is_address(text: &str) -> bool {
    matches!(parse(text), Text::Address(_))
}

/// The parameters whose values are known before the run; `null` stands for all others.
pub(super) fn known_params(call: &Call, plan: &Plan) -> Map<String, Value> {
    let known = call.params.iter().map(|(name, value)| {
        let value = match value.as_str().map(parse) {
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
