//! The query language: chains of operations on values, and statements about them.
//!
//! Owns the grammar (as serde types) and its evaluation. Invariant: evaluation is pure; the same chain on the same value
//! gives the same result, and no chain panics on any value. The one exception is drawing a random number: the engine has no
//! randomness of its own, so each is made of the next number of the running workflow's count ([`Ids`]).

pub(crate) mod apply;
mod budget;
mod compare;
mod detections;
mod numbers;
mod statement;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::workflow::block_api::block::Ids;
use crate::workflow::block_api::manifest::{Default as Or, Grammar, Property, Shape};
use crate::workflow::values::value::Value;

pub(crate) use apply::{apply, apply_alone, apply_named};
pub(crate) use budget::Budget;
pub(crate) use detections::{DetectionProperty, Selection, SortKey};
pub(crate) use statement::StatementGroup;

/// A chain of operations, each on the result of the one before.
pub(crate) type Chain = Vec<Operation>;

/// One operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Operation {
    StringToLowerCase,
    StringToUpperCase,
    LookupTable {
        lookup_table: BTreeMap<String, Value>,
    },
    ToNumber {
        cast_to: NumberType,
    },
    NumberRound {
        decimal_digits: i32,
    },
    SequenceMap {
        lookup_table: BTreeMap<String, Value>,
    },
    SequenceApply {
        operations: Chain,
    },
    NumericSequenceAggregate {
        function: Aggregate,
        #[serde(default)]
        neutral_value: Value,
    },
    SequenceAggregate {
        mode: PickMode,
    },
    SequenceLength,
    SequenceElementsCount,
    SequenceJoin {
        #[serde(default = "comma")]
        separator: String,
    },
    ToString,
    ToBoolean,
    StringSubSequence {
        #[serde(default)]
        start: i64,
        #[serde(default = "minus_one")]
        end: i64,
    },
    StringMatches {
        regex: Pattern,
    },
    Multiply {
        other: f64,
    },
    Divide {
        other: f64,
    },
    DetectionsPropertyExtract {
        property_name: DetectionProperty,
    },
    ExtractDetectionProperty {
        property_name: DetectionProperty,
    },
    ClassificationPropertyExtract {
        property_name: ClassificationProperty,
    },
    DetectionsFilter {
        filter_operation: StatementGroup,
    },
    DetectionsOffset {
        offset_x: f64,
        offset_y: f64,
    },
    DetectionsShift {
        shift_x: f64,
        shift_y: f64,
    },
    DetectionsRename {
        class_map: Parametrised<BTreeMap<String, String>>,
        #[serde(default = "strictly")]
        strict: Parametrised<bool>,
        #[serde(default = "first_new_class")]
        new_classes_id_offset: i64,
    },
    DetectionsSelection {
        mode: Selection,
    },
    SortDetections {
        mode: SortKey,
        #[serde(default = "yes")]
        ascending: bool,
    },
    PickDetectionsByParentClass {
        parent_class: String,
    },
    DetectionsToDictionary,
    ConvertDictionaryToJSON,
    ExtractImageProperty {
        property_name: ImageProperty,
    },
    ExtractFrameMetadata {
        property_name: FrameProperty,
    },
    TimestampToISOFormat,
    RandomNumber {
        #[serde(default, alias = "min_value")]
        min: f64,
        #[serde(default = "one", alias = "max_value")]
        max: f64,
    },
    ConvertImageToJPEG {
        #[serde(default = "quality", deserialize_with = "percent")]
        compression_level: u8,
    },
    ConvertImageToBase64,
}

const fn one() -> f64 {
    1.0
}

const fn quality() -> u8 {
    crate::workflow::values::codec::QUALITY
}

fn percent<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u8, D::Error> {
    let n = u8::deserialize(d)?;
    if (1..=100).contains(&n) {
        Ok(n)
    } else {
        Err(serde::de::Error::custom(format!(
            "compression_level is {n} and has to be from 1 to 100"
        )))
    }
}

fn comma() -> String {
    ", ".to_owned()
}

const fn minus_one() -> i64 {
    -1
}

const fn yes() -> bool {
    true
}

const fn strictly() -> Parametrised<bool> {
    Parametrised::Value(true)
}

const fn first_new_class() -> i64 {
    1024
}

/// A value, or the name of the parameter that holds it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Parametrised<T> {
    Value(T),
    Name(String),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NumberType {
    Int,
    Float,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Aggregate {
    Min,
    Max,
    Sum,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PickMode {
    First,
    Last,
    MostCommon,
    LeastCommon,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClassificationProperty {
    TopClass,
    TopClassConfidence,
    TopClassConfidenceSingle,
    AllClasses,
    AllConfidences,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImageProperty {
    Size,
    Height,
    Width,
    AspectRatio,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FrameProperty {
    FrameNumber,
    FrameTimestamp,
    SecondsSinceStart,
}

/// A regular expression, compiled when the definition is read. Its automaton is bounded in size and runs in linear time.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern(pub(crate) regex::Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        regex::RegexBuilder::new(&text)
            .size_limit(1 << 20)
            .build()
            .map(Self)
    }
}

/// What a chain may refer to by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Env<'a> {
    /// Parameters of the step.
    pub(crate) parameters: &'a Value,
    /// What `_` means: the element at hand.
    pub(crate) element: &'a Value,
    /// What the evaluation may still cost.
    pub(crate) budget: &'a Budget,
    /// By which random numbers are drawn.
    pub(crate) ids: &'a Ids,
}

impl Env<'_> {
    /// The value called `name`.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        if name == "_" && !self.element.is_null() {
            return Some(self.element.clone());
        }
        match self.parameters {
            Value::Dict(map) => map.get(name).cloned(),
            _ => None,
        }
    }

    /// A random number between these.
    fn draw(&self, min: f64, max: f64) -> f64 {
        // Wyrand mixes neighbouring seeds well, so that the count itself is a good one.
        let share = fastrand::Rng::with_seed(self.ids.count()).f64();
        min + (max - min) * share
    }
}

impl<T: Clone> Parametrised<T> {
    /// The value, looked up if need be.
    pub(crate) fn resolve(
        &self,
        env: &Env<'_>,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<T, String> {
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::Name(name) => {
                let value = env
                    .get(name)
                    .ok_or_else(|| format!("there is no parameter {name}"))?;
                read(&value).ok_or_else(|| format!("parameter {name} can't be {}", value.what()))
            }
        }
    }
}

/// Text behind a shared pointer, from a parsed string.
pub(crate) fn shared(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn fits<T: serde::de::DeserializeOwned>(json: &Json) -> Result<(), String> {
    let text = json.to_string();
    serde_json::from_str::<T>(&text).map(drop).map_err(|e| {
        let message = e.to_string();
        let end = message.rfind(" at line ").unwrap_or(message.len());
        message.get(..end).unwrap_or(&message).to_owned()
    })
}

/// A property that holds a chain of operations.
pub(crate) const OPERATIONS: Shape = Shape::Grammar(Grammar {
    what: "a list of operations {\"type\": …}",
    json: "array",
    check: fits::<Chain>,
});

/// A property that holds a group of statements.
pub(crate) const CONDITION: Shape = Shape::Grammar(Grammar {
    what: "a StatementGroup",
    json: "object",
    check: fits::<StatementGroup>,
});

/// A property that holds named chains of operations; none unless the definition says.
pub(crate) const fn named_operations(name: &'static str, about: &'static str) -> Property {
    const SHAPE: Shape = Shape::Grammar(Grammar {
        what: "a dictionary of lists of operations",
        json: "object",
        check: fits::<BTreeMap<String, Chain>>,
    });
    Property::literal(name, about, SHAPE).or(Or::EmptyDict)
}

/// The operations of a block that calls what it works on `data`.
pub(crate) const DATA_OPERATIONS: Property =
    named_operations("data_operations", "operations to do on them first");
