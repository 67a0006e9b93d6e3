//! Finds steps that order or filter by scores which their pictures can't have.
//!
//! - Pictures have scores from the step that measures them on, through all steps that pass them on.
//! - Pictures of another job may have scores.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::fault::{Fault, FaultKind};
use super::reference::{INPUTS, Text, each, parse};
use super::{Call, Plan};
use crate::tool::Toolbox;

/// Returns a fault for each call without its scores. The plan has no other fault, and its steps
/// stand after those that they wait for.
pub(super) fn unscored(plan: &Plan, tools: &Toolbox) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut scored: HashMap<&str, bool> = HashMap::new();
    for step in &plan.steps {
        let mut adds = true;
        for (n, call) in step.calls().enumerate() {
            let Some(tool) = tools.get(&call.tool) else {
                continue;
            };
            let has_scores = gets_scores(call, &scored);
            if !has_scores && tool.needs_scores(&known_params(call, plan)) {
                let at = match n {
                    0 => format!("steps.{}", step.name),
                    n => format!("steps.{}.alternatives.{}", step.name, n - 1),
                };
                faults.push(Fault::new(at, FaultKind::Unscored));
            }
            adds &= tool.adds_scores() || has_scores;
        }
        scored.insert(&step.name, adds);
    }
    faults
}

/// Whether a step whose result the call uses has scores, or the call uses another job.
fn gets_scores(call: &Call, scored: &HashMap<&str, bool>) -> bool {
    call.params.values().any(|value| {
        let mut has = value.as_str().is_some_and(is_address);
        each(value, &mut |reference| {
            has |= scored.get(reference.owner.as_str()) == Some(&true);
        });
        has
    })
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
