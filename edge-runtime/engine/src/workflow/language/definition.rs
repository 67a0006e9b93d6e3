//! A workflow definition as written, with its grammar checked.
//!
//! - A [`Definition`] has well-formed names, selectors and input types.
//! - Not here: whether they fit together, see [`crate::workflow::plan::check`].

use serde_json::{Map, Value as Json};

use crate::workflow::language::bounds::{self, MAX_ITEMS};
use crate::workflow::language::error::{ErrorClass, Problem, Problems};
use crate::workflow::language::kinds::{Kind, KindSet};
use crate::workflow::language::selector::Selector;
use crate::workflow::values::lenient::integer;

/// Version of Roboflow's execution engine that defines this language.
pub const ENGINE_VERSION: (u64, u64) = (1, 17);
/// Version that errors suggest, as examples have it.
const USUAL_VERSION: &str = "1.0";

/// Maximum number of steps in one definition.
pub const MAX_STEPS: usize = 2000;

/// Maximum depth of a batch input.
const MAX_DEPTH: usize = 16;

/// A definition with checked grammar.
#[derive(Debug, Clone, Default)]
pub(crate) struct Definition {
    pub(crate) inputs: Vec<Input>,
    pub(crate) steps: Vec<StepDef>,
    pub(crate) outputs: Vec<OutputDef>,
    /// Outputs without a valid selector: name and what is written instead. Reported with the other
    /// dangling references.
    pub(crate) unselected: Vec<(String, String)>,
    /// Types of the Python blocks embedded in the document.
    pub(crate) own_blocks: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) kinds: KindSet,
    pub(crate) what: InputType,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum InputType {
    Image,
    VideoMetadata,
    Parameter { default: Json },
    Batch { depth: usize },
}

impl Input {
    /// Number of batch levels.
    pub(crate) const fn depth(&self) -> usize {
        match self.what {
            InputType::Image | InputType::VideoMetadata => 1,
            InputType::Parameter { .. } => 0,
            InputType::Batch { depth } => depth,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct StepDef {
    pub(crate) name: String,
    pub(crate) r#type: String,
    pub(crate) body: Map<String, Json>,
}

#[derive(Debug, Clone)]
pub(crate) struct OutputDef {
    pub(crate) name: String,
    pub(crate) selector: Selector,
    /// Whether detections are written in the coordinates of the first picture instead of those of
    /// their crop.
    pub(crate) in_root: bool,
}

const INPUT_TYPES: [&str; 6] = [
    "WorkflowImage",
    "InferenceImage",
    "WorkflowVideoMetadata",
    "WorkflowParameter",
    "InferenceParameter",
    "WorkflowBatchInput",
];

/// Reads a document; adds every error in its grammar to `problems`.
pub(crate) fn read(document: &Json, problems: &mut Problems) -> Definition {
    let mut definition = Definition::default();
    let Some(top) = document.as_object() else {
        problems.push(Problem::syntax(
            "a workflow definition is a JSON object with version, inputs, steps and outputs",
        ));
        return definition;
    };
    // The cloud's API and its exports wrap the definition.
    if top.get("specification").is_some_and(Json::is_object) && !top.contains_key("steps") {
        let why = "the definition is wrapped in `specification`; pass only that object";
        problems.push(Problem::syntax(why).property("specification"));
        return definition;
    }
    read_version(top, problems);
    let Some(inputs) = list(top, "inputs", problems) else {
        return definition;
    };
    for (index, item) in inputs.iter().enumerate() {
        if problems.is_full() {
            break;
        }
        definition.inputs.extend(read_input(index, item, problems));
    }
    let own = top
        .get("dynamic_blocks_definitions")
        .and_then(Json::as_array);
    definition.own_blocks = own
        .into_iter()
        .flatten()
        .filter_map(|block| block.pointer("/manifest/block_type")?.as_str())
        .map(str::to_owned)
        .collect();
    let Some(steps) = list(top, "steps", problems) else {
        return definition;
    };
    for (index, item) in steps.iter().enumerate() {
        if problems.is_full() {
            break;
        }
        definition.steps.extend(read_step(index, item, problems));
    }
    let outputs = list(top, "outputs", problems).unwrap_or_default();
    for (index, item) in outputs.iter().enumerate() {
        if problems.is_full() {
            break;
        }
        read_output(index, item, &mut definition, problems);
    }
    definition
}

/// Returns the list under `key`, empty with a problem if there is none; `None` if it is too long.
fn list<'a>(top: &'a Map<String, Json>, key: &str, problems: &mut Problems) -> Option<&'a [Json]> {
    let most = if key == "steps" { MAX_STEPS } else { MAX_ITEMS };
    match top.get(key) {
        Some(Json::Array(items)) if items.len() > most => {
            let message = format!(
                "the definition has {} {key}; at most {most} are allowed",
                items.len()
            );
            problems.push(Problem::syntax(message).property(key));
            None
        }
        Some(Json::Array(items)) => Some(items),
        Some(_) => {
            problems.push(Problem::syntax(format!("{key} has to be a list")).property(key));
            Some(&[])
        }
        None => {
            problems.push(
                Problem::syntax(format!("the definition lacks {key}"))
                    .property(key)
                    .nearest_of(key, top.keys().map(String::as_str)),
            );
            Some(&[])
        }
    }
}

fn read_version(top: &Map<String, Json>, problems: &mut Problems) {
    let (major, minor) = ENGINE_VERSION;
    let Some(version) = top.get("version").filter(|version| !version.is_null()) else {
        problems.push(
            Problem::syntax(format!(
                "the definition lacks version; write \"{USUAL_VERSION}\""
            ))
            .property("version"),
        );
        return;
    };
    let Some(text) = version.as_str() else {
        problems.push(
            ErrorClass::WorkflowDefinitionError
                .problem(format!(
                    "version is {version} and has to be a string such as \"{USUAL_VERSION}\""
                ))
                .property("version"),
        );
        return;
    };
    // `1.3` means `1.3.0`; both may start with `v`.
    let numbers = text.trim().trim_start_matches('v').split('.');
    let numbers: Option<Vec<u64>> = numbers.map(|n| n.parse().ok()).collect();
    match numbers {
        // The peer also compiles definitions for engines before 1.0, which use the same grammar.
        Some(wanted) if !is_newer(&wanted) => {}
        Some(_) => problems.push(
            ErrorClass::NotSupportedExecutionEngineError
                .problem(format!(
                    "version {text} needs a newer engine than {major}.{minor}"
                ))
                .property("version"),
        ),
        None => problems.push(
            ErrorClass::WorkflowDefinitionError
                .problem(format!(
                    "version {text:?} is not valid; write \"{USUAL_VERSION}\""
                ))
                .property("version"),
        ),
    }
}

/// Returns whether a version is above `1.17.0`.
fn is_newer(version: &[u64]) -> bool {
    let (major, minor) = ENGINE_VERSION;
    let ours = [major, minor].into_iter().chain(std::iter::repeat(0));
    version
        .iter()
        .copied()
        .zip(ours)
        .find(|(a, b)| a != b)
        .is_some_and(|(a, b)| a > b)
}

/// Returns the text under `key`, or reports a problem.
fn text<'a>(
    map: &'a Map<String, Json>,
    key: &str,
    place: &str,
    at: &str,
    problems: &mut Problems,
) -> Option<&'a str> {
    match map.get(key) {
        Some(Json::String(text)) if !text.is_empty() => Some(text),
        Some(_) => {
            problems.push(
                Problem::syntax(format!("{key} of {at} has to be a string"))
                    .step(place)
                    .property(key),
            );
            None
        }
        None => {
            problems.push(
                Problem::syntax(format!("{at} lacks {key}"))
                    .step(place)
                    .property(key)
                    .nearest_of(key, map.keys().map(String::as_str)),
            );
            None
        }
    }
}

fn read_input(index: usize, item: &Json, problems: &mut Problems) -> Option<Input> {
    let at = format!("input {index}");
    let Some(map) = item.as_object() else {
        problems.push(Problem::syntax(format!("{at} has to be an object")).step("$inputs"));
        return None;
    };
    let name = text(map, "name", "$inputs", &at, problems);
    let r#type = text(map, "type", "$inputs", &at, problems)?;
    let name = name?.to_owned();
    let kinds = |fallback: &[Kind], problems: &mut Problems| -> KindSet {
        read_kinds(map, &name, problems).unwrap_or(KindSet::of(fallback))
    };
    let (what, kinds) = match r#type {
        "WorkflowImage" | "InferenceImage" => (InputType::Image, KindSet::of(&[Kind::Image])),
        "WorkflowVideoMetadata" => (
            InputType::VideoMetadata,
            KindSet::of(&[Kind::VideoMetadata]),
        ),
        "WorkflowParameter" | "InferenceParameter" => {
            let default = read_default(map, &name, problems)?;
            (
                InputType::Parameter { default },
                kinds(&[Kind::Any], problems),
            )
        }
        "WorkflowBatchInput" => {
            let depth = match map.get("dimensionality") {
                None => 1,
                Some(written) => match batch_depth(written) {
                    Ok(depth) => depth,
                    Err(class) => {
                        let message = format!(
                            "dimensionality of {name} is {written}; it has to be a whole number \
                             from 1 to {MAX_DEPTH}"
                        );
                        let problem = class.problem(message).step("$inputs");
                        problems.push(problem.property(&*name));
                        return None;
                    }
                },
            };
            (InputType::Batch { depth }, kinds(&[Kind::Any], problems))
        }
        other => {
            problems.push(
                Problem::syntax(format!("{other:?} is not an input type"))
                    .step("$inputs")
                    .property(name)
                    .allowed(other, INPUT_TYPES),
            );
            return None;
        }
    };
    Some(Input { name, kinds, what })
}

/// Reads the default of a parameter; `None` with a problem if it has too long a list.
fn read_default(map: &Map<String, Json>, name: &str, problems: &mut Problems) -> Option<Json> {
    let default = map.get("default_value").cloned().unwrap_or(Json::Null);
    let longest = bounds::longest_list(&default);
    if longest <= MAX_ITEMS {
        return Some(default);
    }
    let message = format!(
        "default_value of {name} has a list of {longest} entries and may have {MAX_ITEMS} at most; \
         shorten it"
    );
    problems.push(Problem::syntax(message).step("$inputs").property(name));
    None
}

/// Reads the depth of a batch input. On error returns the class of the problem: the peer reports a
/// number below 1 as an error of the graph.
fn batch_depth(written: &Json) -> Result<usize, ErrorClass> {
    let depth = integer(written).ok_or(ErrorClass::WorkflowSyntaxError)?;
    if depth < 1 {
        return Err(ErrorClass::ExecutionGraphStructureError);
    }
    let depth = usize::try_from(depth).ok();
    depth
        .filter(|depth| *depth <= MAX_DEPTH)
        .ok_or(ErrorClass::WorkflowSyntaxError)
}

fn read_kinds(map: &Map<String, Json>, name: &str, problems: &mut Problems) -> Option<KindSet> {
    let mut set = KindSet::default();
    let list = match map.get("kind")? {
        Json::Array(list) => list,
        _ => {
            problems.push(
                Problem::syntax(format!("kind of {name} has to be a list of names"))
                    .step("$inputs")
                    .property(name),
            );
            return None;
        }
    };
    for item in list {
        if problems.is_full() {
            break;
        }
        // The peer also accepts a kind as an object with a name and a description.
        let text = item.as_str().or_else(|| item.get("name")?.as_str());
        match text.and_then(Kind::parse) {
            Some(kind) => set = set.union(KindSet::of(&[kind])),
            None => {
                let found = text.unwrap_or_default();
                problems.push(
                    Problem::syntax(format!("{item} is not a kind"))
                        .step("$inputs")
                        .property(name)
                        .allowed(found, Kind::ALL.iter().map(|k| k.name())),
                );
            }
        }
    }
    Some(set)
}

fn read_step(index: usize, item: &Json, problems: &mut Problems) -> Option<StepDef> {
    let Some(map) = item.as_object() else {
        problems.push(Problem::syntax(format!("step {index} has to be an object")));
        return None;
    };
    let at = map
        .get("name")
        .and_then(Json::as_str)
        .map_or_else(|| format!("step {index}"), |name| format!("step {name}"));
    let place = at.trim_start_matches("step ").to_owned();
    let name = text(map, "name", &place, &at, problems);
    let r#type = text(map, "type", &place, &at, problems);
    Some(StepDef {
        name: name?.to_owned(),
        r#type: r#type?.to_owned(),
        body: map.clone(),
    })
}

fn read_output(index: usize, item: &Json, definition: &mut Definition, problems: &mut Problems) {
    let at = format!("output {index}");
    let Some(map) = item.as_object() else {
        problems.push(Problem::syntax(format!("{at} has to be an object")).step("$outputs"));
        return;
    };
    let name = text(map, "name", "$outputs", &at, problems);
    let written = text(map, "selector", "$outputs", &at, problems);
    if let Some(r#type) = map.get("type").filter(|t| *t != "JsonField") {
        problems.push(
            Problem::syntax(format!("{type} is not an output type; write \"JsonField\""))
                .step("$outputs")
                .property(name.unwrap_or(&at))
                .allowed(r#type.as_str().unwrap_or_default(), ["JsonField"]),
        );
    }
    if let Some(system) = map.get("coordinates_system")
        && system != "parent"
        && system != "own"
    {
        problems.push(
            Problem::syntax(format!("{system} is not a coordinates system"))
                .step("$outputs")
                .property(name.unwrap_or(&at))
                .allowed(system.as_str().unwrap_or_default(), ["parent", "own"]),
        );
    }
    let (Some(name), Some(written)) = (name, written) else {
        return;
    };
    match Selector::parse(written) {
        Some(selector @ (Selector::Input(_) | Selector::Output { .. })) => {
            definition.outputs.push(OutputDef {
                name: name.to_owned(),
                selector,
                in_root: map.get("coordinates_system").is_none_or(|s| s != "own"),
            });
        }
        _ => {
            let unselected = (name.to_owned(), written.to_owned());
            definition.unselected.push(unselected);
        }
    }
}
