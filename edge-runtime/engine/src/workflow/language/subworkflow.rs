//! Workflows in workflows: an `inner_workflow` step is replaced by the steps of the definition that it holds.
//!
//! Owns the rewriting of names and selectors. Invariant: what comes out has no inner workflow left, every step of a child
//! is called `step__child`, and what stood for an output of the child stands for the step that makes it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::workflow::language::definition;
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::{ErrorClass, Problem, Problems};
use crate::workflow::language::types;
use crate::workflow::values::value::Value;

/// Type of the step that holds a workflow: part of the language, and no block.
pub(crate) const INNER: &str = "roboflow_core/inner_workflow@v1";

/// Most workflows inside each other, the outermost not counted, as the peer has it by default.
const MAX_DEPTH: usize = 4;

/// Most inner workflows in one definition, as the peer has it by default.
const MAX_COUNT: usize = 32;

/// The document with every inner workflow in place of its step; `Ok(None)` when there is none.
pub(crate) fn inline(document: &Json, problems: &mut Problems) -> Result<Option<Json>, Problem> {
    if holders(document).next().is_none() {
        return Ok(None);
    }
    measure(document, 0, &mut 0)?;
    flatten(document, problems).map(Some)
}

fn is_inner(step: &Json) -> bool {
    step.get("type")
        .and_then(Json::as_str)
        .is_some_and(|t| types::canonical(t) == INNER)
}

/// The steps of a document that hold a workflow.
fn holders(document: &Json) -> impl Iterator<Item = &Json> {
    let steps = document.get("steps").and_then(Json::as_array);
    steps.into_iter().flatten().filter(|step| is_inner(step))
}

fn invalid(step: &str, message: String) -> Problem {
    Problem::new(ErrorClass::InnerWorkflowInvalidStepEntryError, message).step(step)
}

fn name_of(step: &Json) -> &str {
    step.get("name").and_then(Json::as_str).unwrap_or_default()
}

/// The definition that a step holds.
fn child_of(step: &Json) -> Result<&Json, Problem> {
    let name = name_of(step);
    if step.get("execution_mode").and_then(Json::as_str) == Some("remote_dispatch") {
        return Err(Problem::syntax(format!(
            "step {name} sends its workflow to another machine, which is not on this box; write execution_mode \"embedded\""
        ))
        .step(name)
        .property("execution_mode"));
    }
    match step.get("workflow_definition") {
        Some(child @ Json::Object(_)) => Ok(child),
        None | Some(Json::Null) if step.get("workflow_id").is_some_and(|id| !id.is_null()) => {
            Err(Problem::new(
                ErrorClass::WorkflowEnvironmentConfigurationError,
                format!(
                    "step {name} names a workflow that is kept on Roboflow's platform, which is not on this box; put its definition into workflow_definition"
                ),
            )
            .step(name)
            .property("workflow_id"))
        }
        _ => Err(invalid(
            name,
            format!("step {name} needs a workflow_definition, which has to be an object"),
        )
        .property("workflow_definition")),
    }
}

/// Counts inner workflows before any is touched.
fn measure(document: &Json, depth: usize, count: &mut usize) -> Result<(), Problem> {
    for step in holders(document) {
        let name = name_of(step);
        *count += 1;
        if depth >= MAX_DEPTH {
            return Err(Problem::new(
                ErrorClass::InnerWorkflowNestingDepthError,
                format!("step {name} is more than {MAX_DEPTH} workflows deep"),
            )
            .step(name));
        }
        if *count > MAX_COUNT {
            return Err(Problem::new(
                ErrorClass::InnerWorkflowTotalCountError,
                format!("step {name} is one more than the {MAX_COUNT} inner workflows that a definition may have"),
            )
            .step(name));
        }
        measure(child_of(step)?, depth + 1, count)?;
    }
    Ok(())
}

/// A document without inner workflows.
fn flatten(document: &Json, problems: &mut Problems) -> Result<Json, Problem> {
    let mut flat = document.clone();
    loop {
        let Some(step) = holders(&flat).next() else {
            return Ok(flat);
        };
        let child = flatten(child_of(step)?, problems)?;
        flat = put_in_place(&flat, step, &child, problems)?;
    }
}

/// The document with the steps of `child` in place of `step`.
fn put_in_place(
    document: &Json,
    step: &Json,
    child: &Json,
    problems: &mut Problems,
) -> Result<Json, Problem> {
    let inner = name_of(step);
    if inner.is_empty() {
        return Err(invalid(inner, "an inner workflow needs a name".to_owned()));
    }
    let empty = Map::new();
    let bindings = match step.get("parameter_bindings") {
        None | Some(Json::Null) => &empty,
        Some(Json::Object(map)) => map,
        Some(_) => {
            return Err(invalid(
                inner,
                format!("parameter_bindings of step {inner} has to be an object"),
            )
            .property("parameter_bindings"));
        }
    };
    let values = bind(inner, child, bindings, problems)?;
    let steps = child.get("steps").and_then(Json::as_array);
    let steps = steps
        .filter(|s| !s.is_empty())
        .ok_or_else(|| invalid(inner, format!("the workflow of step {inner} has no steps")))?;

    let mut taken: BTreeSet<String> = document
        .get("steps")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .map(|s| name_of(s).to_owned())
        .filter(|name| name != inner)
        .collect();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for step in steps {
        let old = name_of(step);
        if old.is_empty() {
            return Err(invalid(
                inner,
                format!("every step in the workflow of step {inner} needs a name"),
            ));
        }
        let base = format!("{inner}__{old}");
        let mut new = base.clone();
        let mut suffix = 2;
        while !taken.insert(new.clone()) {
            new = format!("{base}__{suffix}");
            suffix += 1;
        }
        // Two steps of one name are an error of the child, and stay one.
        let new = names.entry(old).or_insert(new).clone();
        taken.insert(new);
    }
    let of_child = |text: &str| rewrite_child(text, &names, &values);
    let moved: Vec<Json> = steps
        .iter()
        .map(|step| {
            let mut moved = each_text(step, &of_child);
            if let (Some(map), Some(new)) = (moved.as_object_mut(), names.get(name_of(step))) {
                map.insert("name".to_owned(), new.as_str().into());
            }
            moved
        })
        .collect();
    let first = moved.first().map(name_of).unwrap_or_default().to_owned();
    let mut outputs = BTreeMap::new();
    let declared = child.get("outputs").and_then(Json::as_array);
    for output in declared.into_iter().flatten() {
        let text = |key: &str| output.get(key).and_then(Json::as_str);
        if let (Some(name), Some(selector)) = (text("name"), text("selector")) {
            let Json::String(new) = of_child(selector) else {
                return Err(invalid(
                    inner,
                    format!(
                        "output {name} of the workflow of step {inner} is a fixed value, and nothing makes it"
                    ),
                ));
            };
            outputs.insert(name.to_owned(), new);
        }
    }
    let of_parent = |text: &str| Json::String(rewrite_parent(text, inner, &first, &outputs));
    let mut patched = each_text(document, &of_parent);
    if let Some(steps) = patched.get_mut("steps").and_then(Json::as_array_mut)
        && let Some(at) = steps
            .iter()
            .position(|s| is_inner(s) && name_of(s) == inner)
    {
        steps.splice(at..=at, moved);
    }
    let dynamic = child.get("dynamic_blocks_definitions");
    if let (Some(Json::Array(more)), Some(top)) = (dynamic, patched.as_object_mut()) {
        let all = top
            .entry("dynamic_blocks_definitions")
            .or_insert_with(|| Json::Array(Vec::new()));
        if let Json::Array(all) = all {
            all.extend(
                more.iter()
                    .filter(|m| !all.contains(m))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
        }
    }
    Ok(patched)
}

/// What the inputs of the child stand for.
fn bind(
    inner: &str,
    child: &Json,
    bindings: &Map<String, Json>,
    problems: &mut Problems,
) -> Result<BTreeMap<String, Json>, Problem> {
    let inputs = definition::read(child, problems).inputs;
    let known = || inputs.iter().map(|i| i.name.as_str());
    for name in bindings.keys() {
        if !known().any(|k| k == name) {
            return Err(Problem::new(
                ErrorClass::InnerWorkflowParameterBindingsUnknownInputError,
                format!("the workflow of step {inner} has no input {name}"),
            )
            .allowed(name, known())
            .step(inner)
            .property("parameter_bindings"));
        }
    }
    let mut values = BTreeMap::new();
    for input in &inputs {
        let value = match (bindings.get(&input.name), &input.what) {
            (Some(bound), _) => bound.clone(),
            (None, InputType::Parameter { default }) if !default.is_null() => default.clone(),
            (None, _) => {
                return Err(Problem::new(
                    ErrorClass::InnerWorkflowParameterBindingsMissingRequiredError,
                    format!(
                        "step {inner} doesn't say what input {} of its workflow is, and there is no default",
                        input.name
                    ),
                )
                .step(inner)
                .property("parameter_bindings"));
            }
        };
        values.insert(input.name.clone(), value);
    }
    Ok(values)
}

/// The value with every text in it changed; keys stay.
fn each_text(json: &Json, change: &dyn Fn(&str) -> Json) -> Json {
    match json {
        Json::String(text) => change(text),
        Json::Array(items) => items.iter().map(|i| each_text(i, change)).collect(),
        Json::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), each_text(value, change)))
            .collect(),
        other => other.clone(),
    }
}

/// Length of the name at the beginning of `text`.
fn name_len(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .unwrap_or(text.len())
}

/// Copies `text` with what follows each `prefix` changed: `change` gets the rest and says how much of it stands for what.
fn replace_each(
    text: &str,
    prefix: &str,
    change: &dyn Fn(&str) -> Option<(usize, String)>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = from.get(prefix.len()..).unwrap_or_default();
        match change(after) {
            Some((used, new)) => {
                out.push_str(&new);
                rest = after.get(used..).unwrap_or_default();
            }
            None => {
                out.push_str(prefix);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// A text of the child as it stands in the parent.
fn rewrite_child(
    text: &str,
    names: &BTreeMap<&str, String>,
    values: &BTreeMap<String, Json>,
) -> Json {
    // A whole reference keeps the type of what it stands for.
    if let Some(name) = text.strip_prefix("$inputs.")
        && let Some(value) = values.get(name)
    {
        return value.clone();
    }
    let renamed = replace_each(text, "$steps.", &|rest| {
        let old = rest.get(..name_len(rest))?;
        Some((old.len(), format!("$steps.{}", names.get(old)?)))
    });
    Json::String(replace_each(&renamed, "$inputs.", &|rest| {
        let name = rest.get(..name_len(rest))?;
        let value = Value::from(values.get(name)?.clone());
        Some((name.len(), value.python_str()))
    }))
}

/// A text of the parent without the step that held the child.
fn rewrite_parent(
    text: &str,
    inner: &str,
    first: &str,
    outputs: &BTreeMap<String, String>,
) -> String {
    replace_each(text, "$steps.", &|rest| {
        let step = rest.get(..name_len(rest))?;
        if step != inner {
            return None;
        }
        let after = rest.get(step.len()..).unwrap_or_default();
        match after.strip_prefix('.') {
            None => Some((step.len(), format!("$steps.{first}"))),
            Some(after) => {
                let output = after.get(..name_len(after))?;
                let selector = outputs.get(output)?;
                Some((step.len() + 1 + output.len(), selector.clone()))
            }
        }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use serde_json::{Value as Json, json};

    use super::inline;
    use crate::workflow::language::error::Problems;
    use crate::workflow::validate;

    fn child() -> Json {
        json!({
            "version": "1.0",
            "inputs": [
                {"type": "WorkflowParameter", "name": "word"},
                {"type": "WorkflowParameter", "name": "end", "default_value": 3}
            ],
            "steps": [
                {"type": "PropertyDefinition", "name": "cut", "data": "$inputs.word",
                 "operations": [{"type": "StringSubSequence", "start": 0, "end": "$inputs.end"}]},
                {"type": "PropertyDefinition", "name": "low", "data": "$steps.cut.output",
                 "operations": [{"type": "StringToLowerCase"}]}
            ],
            "outputs": [{"type": "JsonField", "name": "text", "selector": "$steps.low.output"}]
        })
    }

    fn parent(child: Json, bindings: Json) -> Json {
        json!({
            "version": "1.0",
            "inputs": [{"type": "WorkflowParameter", "name": "name"}],
            "steps": [{
                "type": "roboflow_core/inner_workflow@v1", "name": "nested",
                "workflow_definition": child, "parameter_bindings": bindings
            }],
            "outputs": [{"type": "JsonField", "name": "out", "selector": "$steps.nested.text"}]
        })
    }

    #[test]
    fn a_child_takes_the_place_of_its_step_under_names_of_its_own() {
        let whole = parent(child(), json!({"word": "$inputs.name"}));
        let mut problems = Problems::default();
        let flat = inline(&whole, &mut problems).unwrap().unwrap();
        assert!(problems.is_empty());
        assert_eq!(flat["steps"][0]["name"], "nested__cut");
        assert_eq!(flat["steps"][0]["data"], "$inputs.name");
        assert_eq!(flat["steps"][0]["operations"][0]["end"], 3);
        assert_eq!(flat["steps"][1]["data"], "$steps.nested__cut.output");
        assert_eq!(flat["outputs"][0]["selector"], "$steps.nested__low.output");
        assert!(validate(&whole).ok);
    }

    #[test]
    fn what_is_wrong_with_a_child_has_the_class_of_the_peer() {
        let class = |document: Json| validate(&document).errors[0].class.clone();
        let missing = parent(child(), json!({}));
        assert_eq!(
            class(missing),
            "InnerWorkflowParameterBindingsMissingRequiredError"
        );
        let unknown = parent(child(), json!({"word": "a", "wrod": 1}));
        assert_eq!(
            class(unknown),
            "InnerWorkflowParameterBindingsUnknownInputError"
        );
        let no_steps = json!({"version": "1.0", "inputs": [], "steps": [], "outputs": []});
        assert_eq!(
            class(parent(no_steps, json!({}))),
            "InnerWorkflowInvalidStepEntryError"
        );
        let mut deep = child();
        for _ in 0..6 {
            deep = parent(deep, json!({"word": "a"}));
        }
        assert_eq!(class(deep), "InnerWorkflowNestingDepthError");
    }

    #[test]
    fn two_children_of_one_parent_keep_apart() {
        let mut whole = parent(child(), json!({"word": "$inputs.name"}));
        let mut second = whole["steps"][0].clone();
        second["name"] = json!("nested__cut");
        second["parameter_bindings"] = json!({"word": "$steps.nested.text"});
        whole["steps"].as_array_mut().unwrap().push(second);
        let report = validate(&whole);
        assert!(report.ok, "{report:?}");
        assert_eq!(report.steps.len(), 4);
    }
}
