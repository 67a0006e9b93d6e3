//! The declaration of a block, from which parsing, checks, JSON Schema and catalogue are made.
//!
//! - Everything that a definition may say about a step is in its [`Manifest`].
//! - Declarations are `const`, written with the builder functions below.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::workflow::block_api::arg::Arg;
use crate::workflow::block_api::block::{Instance, Setup};
use crate::workflow::block_api::host::Task;
use crate::workflow::block_api::property::Property;
use crate::workflow::language::kinds::{Kind, KindSet};

/// One version of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manifest {
    /// Canonical type, such as `roboflow_core/line_counter@v2`. Aliases are in
    /// [`crate::workflow::language::types`].
    pub(crate) name: &'static str,
    pub(crate) category: &'static str,
    pub(crate) summary: &'static str,
    /// How the runtime treats the block.
    pub(crate) role: Role,
    /// Properties; the block reads them by `arg!`.
    pub(crate) properties: &'static [Property],
    /// Outputs, in the order in which the block writes them. A last one called `*` stands for those
    /// of [`Self::own_outputs`].
    pub(crate) outputs: &'static [Output],
    /// Outputs named by the properties of a step.
    pub(crate) own_outputs: fn(&Map<String, Json>) -> Vec<StepOutput>,
    /// Effect on the depth of a batch.
    pub(crate) depth: Depth,
    /// Whether it runs on elements whose inputs are missing.
    pub(crate) accepts_empty: bool,
    /// Whether the block needs to know how many elements of the batch are still to come.
    pub(crate) whole_batch: bool,
    /// Properties that Roboflow's block takes as a whole batch. If there are any, batch data may
    /// flow only into these and [`Self::mixed`]; otherwise into every property that takes
    /// selectors.
    pub(crate) batch: &'static [&'static str],
    /// Properties that take a batch or a single value.
    pub(crate) mixed: &'static [&'static str],
    /// Name of the step's model, from properties known before it runs.
    pub(crate) model: fn(Known<'_>) -> Option<String>,
    /// Whether output boxes have the classes of the input or of a model. If false, the block may
    /// name classes of its own, and rules on unknown classes are not refused.
    pub(crate) keeps_classes: bool,
    /// Whether it shows parts of each picture to its model too.
    pub(crate) many_pictures: bool,
    pub(crate) build: fn(&Setup<'_>) -> Result<Box<dyn Instance>, String>,
}

/// Text of a property, if known before the step runs.
pub(crate) type Known<'a> = &'a dyn Fn(&str) -> Option<String>;

/// How the runtime treats a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Detects objects with a model of this task.
    Detector(Task),
    /// Uses a model for something else.
    OtherModel(Task),
    /// Assigns track ids; its first output is `tracked_detections`.
    Tracker,
    /// Counts crossings. Runs once more on its last elements when the source has ended.
    Line,
    Zone,
    /// Decides which steps run.
    Flow,
    Visualization,
    /// Sends results out.
    Sink,
    Other,
}

/// Effect of a block on the depth of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// One result per element.
    Same,
    /// One level more: each element becomes a list.
    Deeper,
    /// One level less: each list becomes one element.
    Shallower,
    /// Inputs of two depths; the result has the depth of this property.
    Reference(&'static str),
}

/// A property of this file's `BLOCKS`, by name; `"a" | "b"` for one whose name differs between
/// versions. A name that none of them has, or that two have at different indices, does not compile.
/// `arg!(PROPERTIES, "a")` is a property of a list, for code that several blocks share.
macro_rules! arg {
    ($($name:literal)|+) => {
        const { $crate::workflow::block_api::manifest::arg_of_blocks(BLOCKS, &[$($name),+]) }
    };
    ($properties:expr, $name:literal) => {
        const { $crate::workflow::block_api::manifest::arg_of($properties, &[$name]) }
    };
}

/// The property with these names in the versions of a block; for `arg!`.
pub(crate) const fn arg_of_blocks(blocks: &[Manifest], names: &'static [&'static str]) -> Arg {
    let mut found = None;
    let mut rest = names;
    while let Some((name, others)) = rest.split_first() {
        rest = others;
        match (found, index_of(blocks, name)) {
            (Some(one), other) if one != other => panic!("two names differ in their index"),
            (_, index) => found = Some(index),
        }
    }
    match found {
        Some(index) => Arg::at(index, names),
        None => panic!("a property has a name"),
    }
}

/// The property of this one name in a list; for `arg!`.
pub(crate) const fn arg_of(properties: &[Property], name: &'static [&'static str; 1]) -> Arg {
    match index_in(properties, name[0]) {
        Some(index) => Arg::at(index, name),
        None => panic!("the list lacks this property"),
    }
}

const fn index_of(mut blocks: &[Manifest], name: &str) -> usize {
    let mut found = None;
    while let Some((block, others)) = blocks.split_first() {
        blocks = others;
        match (found, index_in(block.properties, name)) {
            (Some(one), Some(other)) if one != other => panic!("two blocks differ in its index"),
            (None, index) => found = index,
            _ => {}
        }
    }
    match found {
        Some(index) => index,
        None => panic!("no block has this property"),
    }
}

const fn index_in(mut properties: &[Property], name: &str) -> Option<usize> {
    let mut index = 0;
    while let Some((property, others)) = properties.split_first() {
        if is_same(property.name.as_bytes(), name.as_bytes()) {
            return Some(index);
        }
        properties = others;
        index += 1;
    }
    None
}

/// `==` of slices can't be called in constants.
const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let (Some((a, ones)), Some((b, others))) = (one.split_first(), other.split_first()) {
        if *a != *b {
            return false;
        }
        one = ones;
        other = others;
    }
    one.is_empty() && other.is_empty()
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) name: &'static str,
    pub(crate) kinds: KindSet,
}

impl Output {
    pub(crate) const fn new(name: &'static str, kinds: &[Kind]) -> Self {
        Self {
            name,
            kinds: KindSet::of(kinds),
        }
    }
}

/// An output of one step: declared by its block, or named by its properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepOutput {
    pub(crate) name: Arc<str>,
    pub(crate) kinds: KindSet,
}

/// Returns the texts of a list in a definition, such as names of outputs; empty without a list.
pub(crate) fn names<'a>(literals: &'a Map<String, Json>, property: &str) -> Vec<&'a str> {
    let names = literals.get(property).and_then(Json::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect()
}

impl StepOutput {
    pub(crate) fn new(name: impl Into<Arc<str>>, kinds: &[Kind]) -> Self {
        Self {
            name: name.into(),
            kinds: KindSet::of(kinds),
        }
    }
}

impl Manifest {
    /// Defaults of a block in one of Roboflow's categories, for `..Manifest::of("…")`.
    pub(crate) const fn of(category: &'static str) -> Self {
        Self {
            name: "",
            category,
            summary: "",
            role: Role::Other,
            properties: &[],
            outputs: &[],
            own_outputs: |_| Vec::new(),
            depth: Depth::Same,
            accepts_empty: false,
            whole_batch: false,
            batch: &[],
            mixed: &[],
            model: |known| known("model_id"),
            keeps_classes: false,
            many_pictures: false,
            build: |_| Err("this manifest is only a base for others".to_owned()),
        }
    }

    /// The version of this block with these properties and outputs.
    pub(crate) const fn version(
        self,
        name: &'static str,
        properties: &'static [Property],
        outputs: &'static [Output],
    ) -> Self {
        Self {
            name,
            properties,
            outputs,
            ..self
        }
    }

    /// Returns whether batch data may flow into a property.
    pub(crate) fn takes_batch(&self, property: &str) -> bool {
        (self.batch.is_empty() && self.mixed.is_empty())
            || self.batch.contains(&property)
            || self.mixed.contains(&property)
    }

    /// Position of a property, by name or alias.
    pub(crate) fn property(&self, name: &str) -> Option<usize> {
        self.properties
            .iter()
            .position(|p| p.name == name || p.aliases.contains(&name))
    }

    /// Outputs of a step with these properties, in the order in which the block writes them.
    pub(crate) fn outputs_of(&self, literals: &Map<String, Json>) -> Vec<StepOutput> {
        let declared = self.outputs.iter().filter(|o| o.name != "*");
        let declared = declared.map(|o| StepOutput {
            name: Arc::from(o.name),
            kinds: o.kinds,
        });
        declared.chain((self.own_outputs)(literals)).collect()
    }
}
