//! What differs between two plans, for a person.

use serde_json::Value;

use super::{Plan, Step};

/// Returns one line for each input and step that was added, dropped or changed, with whole values.
pub fn difference(old: &Plan, new: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in &new.inputs {
        match old.inputs.get(key) {
            Some(before) if before == value => {}
            Some(before) => lines.push(change(&format!("input {key}"), before, value)),
            None => lines.push(format!("+ input {key}: {value}")),
        }
    }
    let gone = old
        .inputs
        .keys()
        .filter(|key| !new.inputs.contains_key(*key));
    lines.extend(gone.map(|key| format!("- input {key}")));
    for step in &new.steps {
        match find(old, &step.name) {
            Some(before) => changed_step(before, step, &mut lines),
            None => lines.push(format!("+ step {}: {}", step.name, step.call)),
        }
    }
    let gone = old
        .steps
        .iter()
        .filter(|step| find(new, &step.name).is_none());
    lines.extend(gone.map(|step| format!("- step {}", step.name)));
    lines
}

fn find<'p>(plan: &'p Plan, name: &str) -> Option<&'p Step> {
    plan.steps.iter().find(|step| step.name == name)
}

fn change(what: &str, old: &Value, new: &Value) -> String {
    format!("{what}: {old} → {new}")
}

fn changed_step(old: &Step, new: &Step, lines: &mut Vec<String>) {
    let name = &new.name;
    if old.call.tool != new.call.tool {
        let (was, is) = (&old.call.tool, &new.call);
        lines.push(format!("step {name}: {was} → {is}"));
        return;
    }
    for (key, value) in &new.call.params {
        match old.call.params.get(key) {
            Some(before) if before == value => {}
            Some(before) => lines.push(change(&format!("step {name}: {key}"), before, value)),
            None => lines.push(format!("step {name}: + {key}: {value}")),
        }
    }
    let gone = (old.call.params.keys()).filter(|key| !new.call.params.contains_key(*key));
    lines.extend(gone.map(|key| format!("step {name}: - {key}")));
    let others = |step: &Step| {
        let (waits, calls) = (step.depends_on.clone(), step.alternatives.clone());
        (waits, calls, step.retry.clone(), step.timeout_s)
    };
    if others(old) != others(new) {
        lines.push(format!("step {name}: its order, tries or alternatives"));
    }
}
