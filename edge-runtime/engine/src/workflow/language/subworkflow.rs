//! Subworkflows: replaces each `inner_workflow` step by the steps of its definition.
//!
//! - The result has no inner workflow left.
//! - Every step of a child is called `step__child`.
//! - A reference to an output of the child becomes one to the step that makes it.
//! - At most [`MAX_COUNT`] steps are replaced, and the text grows by at most [`MAX_ADDED_BYTES`].

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::workflow::language::definition;
use crate::workflow::language::definition::InputType;
use crate::workflow::language::error::{ErrorClass, Problem, Problems};
use crate::workflow::language::types;
use crate::workflow::values::value::Value;

/// Type of the step that holds a workflow; part of the language, not a block.
pub(crate) const INNER: &str = "roboflow_core/inner_workflow@v1";

/// Maximum nesting of workflows, the outermost not counted; the peer's default.
const MAX_DEPTH: usize = 4;

/// Maximum number of inner workflows in one definition; the peer's default.
const MAX_COUNT: usize = 32;

/// Maximum bytes by which values of inputs and longer names grow the text of one definition. A
/// value that each level repeats multiplies with the nesting.
const MAX_ADDED_BYTES: usize = 1 << 20;

/// Remaining size and number of the replacements in one definition.
struct Budget {
    /// Of [`MAX_ADDED_BYTES`]; `None` once they were exceeded.
    bytes: Cell<Option<usize>>,
    /// Of [`MAX_COUNT`]. [`measure`] does not see steps that a value makes inner workflows.
    steps: Cell<usize>,
}

impl Budget {
    fn new() -> Self {
        Self {
            bytes: Cell::new(Some(MAX_ADDED_BYTES)),
            steps: Cell::new(MAX_COUNT),
        }
    }

    fn is_exceeded(&self) -> bool {
        self.bytes.get().is_none()
    }

    /// Takes the growth of replacing `old` bytes by `new`; false if it is more than is left.
    fn take_growth(&self, old: usize, new: usize) -> bool {
        let left = self.bytes.get();
        let left = left.and_then(|left| left.checked_sub(new.saturating_sub(old)));
        self.bytes.set(left);
        left.is_some()
    }
}

/// Value of a child's input, with the length of its text.
struct InputValue {
    json: Json,
    /// Bytes of the value where it is the whole text, written as JSON.
    json_bytes: usize,
    /// The value where it is part of a text.
    text: String,
}

impl From<Json> for InputValue {
    fn from(json: Json) -> Self {
        let json_bytes = json.to_string().len();
        let text = Value::from(json.clone()).python_str();
        Self {
            json,
            json_bytes,
            text,
        }
    }
}

/// Returns the document with every inner workflow replaced by its steps; `Ok(None)` if it has none.
pub(crate) fn inline(document: &Json, problems: &mut Problems) -> Result<Option<Json>, Problem> {
    if holders(document).next().is_none() {
        return Ok(None);
    }
    measure(document, 0, &mut 0)?;
    flatten(document, 0, problems, &Budget::new()).map(Some)
}

fn is_inner(step: &Json) -> bool {
    step.get("type")
        .and_then(Json::as_str)
        .is_some_and(|t| types::canonical(t) == INNER)
}

/// Returns the steps that hold a workflow.
fn holders(document: &Json) -> impl Iterator<Item = &Json> {
    let steps = document.get("steps").and_then(Json::as_array);
    steps.into_iter().flatten().filter(|step| is_inner(step))
}

fn invalid(step: &str, message: String) -> Problem {
    ErrorClass::InnerWorkflowInvalidStepEntryError
        .problem(message)
        .step(step)
}

fn name_of(step: &Json) -> &str {
    step.get("name").and_then(Json::as_str).unwrap_or_default()
}

/// Returns the definition that a step holds.
fn child_of(step: &Json) -> Result<&Json, Problem> {
    let name = name_of(step);
    if step.get("execution_mode").and_then(Json::as_str) == Some("remote_dispatch") {
        return Err(Problem::syntax(format!(
            "step {name} runs its workflow on another machine, which is not supported; set \
             execution_mode to \"embedded\""
        ))
        .step(name)
        .property("execution_mode"));
    }
    match step.get("workflow_definition") {
        Some(child @ Json::Object(_)) => Ok(child),
        None | Some(Json::Null) if step.get("workflow_id").is_some_and(|id| !id.is_null()) => {
            Err(ErrorClass::WorkflowEnvironmentConfigurationError
                .problem(format!(
                    "step {name} names a workflow on Roboflow's platform, which is not supported; \
                     put its definition into workflow_definition"
                ))
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

fn check_depth(name: &str, depth: usize) -> Result<(), Problem> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    let message = format!("step {name} is nested more than {MAX_DEPTH} workflows deep");
    Err(ErrorClass::InnerWorkflowNestingDepthError
        .problem(message)
        .step(name))
}

fn too_many(name: &str) -> Problem {
    let message =
        format!("step {name} exceeds the {MAX_COUNT} inner workflows allowed in a definition");
    ErrorClass::InnerWorkflowTotalCountError
        .problem(message)
        .step(name)
}

/// Counts inner workflows before any is replaced.
fn measure(document: &Json, depth: usize, count: &mut usize) -> Result<(), Problem> {
    for step in holders(document) {
        let name = name_of(step);
        *count += 1;
        check_depth(name, depth)?;
        if *count > MAX_COUNT {
            return Err(too_many(name));
        }
        measure(child_of(step)?, depth + 1, count)?;
    }
    Ok(())
}

/// Replaces all inner workflows of a document.
fn flatten(
    document: &Json,
    depth: usize,
    problems: &mut Problems,
    budget: &Budget,
) -> Result<Json, Problem> {
    let mut flat = document.clone();
    loop {
        let Some(step) = holders(&flat).next() else {
            return Ok(flat);
        };
        check_depth(name_of(step), depth)?;
        let left = budget.steps.get().checked_sub(1);
        budget
            .steps
            .set(left.ok_or_else(|| too_many(name_of(step)))?);
        let child = flatten(child_of(step)?, depth + 1, problems, budget)?;
        flat = replace_step(&flat, step, &child, problems, budget)?;
    }
}

/// Replaces `step` by the steps of `child`.
fn replace_step(
    document: &Json,
    step: &Json,
    child: &Json,
    problems: &mut Problems,
    budget: &Budget,
) -> Result<Json, Problem> {
    let inner = name_of(step);
    if inner.is_empty() {
        return Err(invalid(inner, "an inner workflow needs a name".to_owned()));
    }
    let values = bind(step, child, problems)?;
    let steps = child.get("steps").and_then(Json::as_array);
    let steps = steps
        .filter(|s| !s.is_empty())
        .ok_or_else(|| invalid(inner, format!("the workflow of step {inner} has no steps")))?;
    let names = choose_names(document, inner, steps, budget)?;
    let of_child = |text: &str| rewrite_child(text, &names, &values, budget);
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
    let outputs = child_outputs(inner, child, &of_child)?;
    let of_parent =
        |text: &str| Json::String(rewrite_parent(text, inner, &first, &outputs, budget));
    let mut patched = each_text(document, &of_parent);
    if let Some(steps) = patched.get_mut("steps").and_then(Json::as_array_mut)
        && let Some(at) = steps
            .iter()
            .position(|s| is_inner(s) && name_of(s) == inner)
    {
        steps.splice(at..=at, moved);
    }
    add_dynamic_blocks(&mut patched, child);
    if budget.is_exceeded() {
        return Err(too_long(inner));
    }
    Ok(patched)
}

fn too_long(inner: &str) -> Problem {
    let message = format!(
        "the inner workflows add more than {MAX_ADDED_BYTES} bytes to the definition at step \
         {inner}; bind shorter values, or refer to them less often"
    );
    invalid(inner, message).property("parameter_bindings")
}

/// Chooses the names of the child's steps in the parent, unique among its steps.
fn choose_names<'a>(
    document: &Json,
    inner: &str,
    steps: &'a [Json],
    budget: &Budget,
) -> Result<BTreeMap<&'a str, String>, Problem> {
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
            let message = format!("every step in the workflow of step {inner} needs a name");
            return Err(invalid(inner, message));
        }
        if !budget.take_growth(0, inner.len()) {
            return Err(too_long(inner));
        }
        let base = format!("{inner}__{old}");
        let mut new = base.clone();
        let mut suffix = 2;
        while !taken.insert(new.clone()) {
            new = format!("{base}__{suffix}");
            suffix += 1;
        }
        // Two steps of one name are an error of the child, and remain one.
        let new = names.entry(old).or_insert(new).clone();
        taken.insert(new);
    }
    Ok(names)
}

/// Returns the selectors of the child's outputs, rewritten for the parent.
fn child_outputs(
    inner: &str,
    child: &Json,
    of_child: &dyn Fn(&str) -> Json,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut outputs = BTreeMap::new();
    let declared = child.get("outputs").and_then(Json::as_array);
    for output in declared.into_iter().flatten() {
        let text = |key: &str| output.get(key).and_then(Json::as_str);
        if let (Some(name), Some(selector)) = (text("name"), text("selector")) {
            let Json::String(new) = of_child(selector) else {
                let message = format!(
                    "output {name} of the workflow of step {inner} is a fixed value; connect it to \
                     a step"
                );
                return Err(invalid(inner, message));
            };
            outputs.insert(name.to_owned(), new);
        }
    }
    Ok(outputs)
}

/// Adds the child's Python blocks to those of the parent.
fn add_dynamic_blocks(parent: &mut Json, child: &Json) {
    const KEY: &str = "dynamic_blocks_definitions";
    if let (Some(Json::Array(more)), Some(top)) = (child.get(KEY), parent.as_object_mut()) {
        let all = top.entry(KEY).or_insert_with(|| Json::Array(Vec::new()));
        if let Json::Array(all) = all {
            let new: Vec<Json> = more.iter().filter(|m| !all.contains(m)).cloned().collect();
            all.extend(new);
        }
    }
}

/// Returns the values of the child's inputs.
fn bind(
    step: &Json,
    child: &Json,
    problems: &mut Problems,
) -> Result<BTreeMap<String, InputValue>, Problem> {
    let inner = name_of(step);
    let empty = Map::new();
    let bindings = match step.get("parameter_bindings") {
        None | Some(Json::Null) => &empty,
        Some(Json::Object(map)) => map,
        Some(_) => {
            let message = format!("parameter_bindings of step {inner} has to be an object");
            return Err(invalid(inner, message).property("parameter_bindings"));
        }
    };
    let inputs = definition::read(child, problems).inputs;
    let known = || inputs.iter().map(|i| i.name.as_str());
    for name in bindings.keys() {
        if !known().any(|k| k == name) {
            return Err(ErrorClass::InnerWorkflowParameterBindingsUnknownInputError
                .problem(format!("the workflow of step {inner} has no input {name}"))
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
                return Err(ErrorClass::InnerWorkflowParameterBindingsMissingRequiredError.problem(format!(
                        "step {inner} gives no value for input {} of its workflow, which has no \
                         default; add it to parameter_bindings",
                        input.name
                    ))
                .step(inner)
                .property("parameter_bindings"));
            }
        };
        values.insert(input.name.clone(), value.into());
    }
    Ok(values)
}

/// Returns the value with every text in it changed; keys stay.
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

/// Returns the length of the name at the start of `text`.
fn name_len(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .unwrap_or(text.len())
}

/// The length of the part to replace, without the prefix, and its replacement.
type Replacement<'t> = (usize, Cow<'t, str>);

/// Copies `text`, replacing what follows each `prefix`. `change` gets the rest. Ends early once
/// `budget` is exceeded.
fn replace_each<'t>(
    text: &str,
    prefix: &str,
    budget: &Budget,
    change: &dyn Fn(&str) -> Option<Replacement<'t>>,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = from.get(prefix.len()..).unwrap_or_default();
        match change(after) {
            Some((used, new)) if !budget.take_growth(prefix.len() + used, new.len()) => return out,
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

/// Rewrites a text of the child for the parent.
fn rewrite_child(
    text: &str,
    names: &BTreeMap<&str, String>,
    values: &BTreeMap<String, InputValue>,
    budget: &Budget,
) -> Json {
    let ended = || Json::String(String::new());
    if budget.is_exceeded() {
        return ended();
    }
    // A value that is only a reference keeps the type of what it refers to.
    if let Some(name) = text.strip_prefix("$inputs.")
        && let Some(value) = values.get(name)
    {
        let fits = budget.take_growth(text.len(), value.json_bytes);
        return if fits { value.json.clone() } else { ended() };
    }
    let renamed = replace_each(text, "$steps.", budget, &|rest| {
        let old = rest.get(..name_len(rest))?;
        Some((old.len(), format!("$steps.{}", names.get(old)?).into()))
    });
    Json::String(replace_each(&renamed, "$inputs.", budget, &|rest| {
        let name = rest.get(..name_len(rest))?;
        Some((name.len(), values.get(name)?.text.as_str().into()))
    }))
}

/// Rewrites a text of the parent that refers to the replaced step.
fn rewrite_parent(
    text: &str,
    inner: &str,
    first: &str,
    outputs: &BTreeMap<String, String>,
    budget: &Budget,
) -> String {
    if budget.is_exceeded() {
        return String::new();
    }
    replace_each(text, "$steps.", budget, &|rest| {
        let step = rest.get(..name_len(rest))?;
        if step != inner {
            return None;
        }
        let after = rest.get(step.len()..).unwrap_or_default();
        match after.strip_prefix('.') {
            None => Some((step.len(), format!("$steps.{first}").into())),
            Some(after) => {
                let output = after.get(..name_len(after))?;
                let selector = outputs.get(output)?;
                Some((step.len() + 1 + output.len(), selector.into()))
            }
        }
    })
}

#[cfg(test)]
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
    fn inner_workflow_is_replaced_by_renamed_steps() {
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
    fn errors_of_inner_workflows_have_the_peer_s_class() {
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
    fn two_inner_workflows_stay_apart() {
        let mut whole = parent(child(), json!({"word": "$inputs.name"}));
        let mut second = whole["steps"][0].clone();
        second["name"] = json!("nested__cut");
        second["parameter_bindings"] = json!({"word": "$steps.nested.text"});
        whole["steps"].as_array_mut().unwrap().push(second);
        let report = validate(&whole);
        assert!(report.ok, "{report:?}");
        assert_eq!(report.steps.len(), 4);
    }

    /// A step that holds a workflow of `steps` with the input `x`.
    fn holder(steps: Json, bindings: Json) -> Json {
        json!({
            "type": "roboflow_core/inner_workflow@v1", "name": "n", "parameter_bindings": bindings,
            "workflow_definition": {
                "version": "1.0", "steps": steps, "outputs": [],
                "inputs": bindings.as_object().unwrap().keys().map(|name|
                    json!({"type": "WorkflowParameter", "name": name})).collect::<Vec<_>>()
            }
        })
    }

    fn refusal_of(step: Json) -> String {
        let whole = json!({"version": "1.0", "inputs": [], "steps": [step], "outputs": []});
        let refused = inline(&whole, &mut Problems::default()).unwrap_err().done();
        assert_eq!(refused.class, "InnerWorkflowInvalidStepEntryError");
        refused.message
    }

    #[test]
    fn value_that_each_level_multiplies_is_refused() {
        let many = |json: Json| Json::Array(vec![json; 100]);
        let uses = [many(json!("$inputs.x")), json!("$inputs.x ".repeat(100))];
        for uses in uses {
            let mut step = json!({"type": "Any", "name": "leaf", "data": uses});
            for _ in 0..4 {
                step = holder(json!([step]), json!({"x": uses}));
            }
            step["parameter_bindings"]["x"] = json!("word");
            let why = refusal_of(step);
            assert!(why.contains("add more than 1048576 bytes"), "{why}");
        }
    }

    #[test]
    fn value_that_replaces_a_reference_of_its_length_is_free() {
        let uses = vec!["$inputs.long_name"; 100_000];
        let step = json!({"type": "Any", "name": "leaf", "data": uses});
        let bound = holder(json!([step]), json!({"long_name": "$inputs.n"}));
        let whole = json!({"version": "1.0", "inputs": [], "steps": [bound], "outputs": []});
        let flat = inline(&whole, &mut Problems::default()).unwrap().unwrap();
        assert_eq!(flat["steps"][0]["data"][99_999], "$inputs.n");
    }

    #[test]
    fn long_name_that_many_steps_get_is_refused() {
        let steps = (0..2_000).map(|n| json!({"type": "Any", "name": n.to_string()}));
        let mut step = holder(steps.collect(), json!({}));
        step["name"] = "n".repeat(1_000).into();
        let why = refusal_of(step);
        assert!(why.contains("add more than"), "{why}");
    }

    #[test]
    fn steps_that_a_value_makes_inner_workflows_are_counted() {
        let leaf = json!({"version": "1.0", "inputs": [], "outputs": [],
            "steps": [{"type": "Any", "name": "leaf"}]});
        let step = |n: usize| json!({"type": "$inputs.t", "name": format!("s{n}"), "workflow_definition": leaf});
        let many: Vec<Json> = (0..40).map(step).collect();
        let inner = holder(many.into(), json!({"t": super::INNER}));
        let whole = json!({"version": "1.0", "inputs": [], "steps": [inner], "outputs": []});
        let refused = inline(&whole, &mut Problems::default()).unwrap_err().done();
        assert_eq!(refused.class, "InnerWorkflowTotalCountError");
    }

    #[test]
    fn workflow_that_binds_itself_is_refused() {
        let step = json!({
            "type": "$inputs.t", "name": "n", "workflow_definition": "$inputs.w",
            "parameter_bindings": {"t": "$inputs.t", "w": "$inputs.w"}
        });
        let mut whole = holder(json!([step]), json!({"t": super::INNER, "w": null}));
        whole["parameter_bindings"]["w"] = whole["workflow_definition"].clone();
        let whole = json!({"version": "1.0", "inputs": [], "steps": [whole], "outputs": []});
        let refused = inline(&whole, &mut Problems::default()).unwrap_err().done();
        assert_eq!(refused.class, "InnerWorkflowTotalCountError");
    }
}
