//! The grammar of the query language, as serde types.
//!
//! - A group has at least one statement.
//! - A regular expression is compiled when the definition is read, and bounded in size.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::workflow::values::codec;
use crate::workflow::values::value::Value;

/// A chain of operations, each on the result of the one before.
pub(crate) type Chain = Vec<Operation>;

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
    codec::QUALITY
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

/// A regular expression of bounded size that runs in linear time.
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

/// Statements joined by one operator, evaluated from left to right without short circuit.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StatementGroup {
    #[serde(rename = "type")]
    pub(super) _type: GroupTag,
    #[serde(deserialize_with = "at_least_one")]
    pub(super) statements: Vec<Statement>,
    #[serde(default)]
    pub(super) operator: Operator,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) enum GroupTag {
    StatementGroup,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operator {
    And,
    #[default]
    Or,
}

#[expect(
    clippy::enum_variant_names,
    reason = "the names are those of the language"
)]
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Statement {
    BinaryStatement {
        left_operand: Operand,
        comparator: Tagged<Binary>,
        right_operand: Operand,
        #[serde(default)]
        negate: bool,
    },
    UnaryStatement {
        operand: Operand,
        operator: Tagged<Unary>,
        #[serde(default)]
        negate: bool,
    },
    StatementGroup {
        #[serde(deserialize_with = "at_least_one")]
        statements: Vec<Statement>,
        #[serde(default)]
        operator: Operator,
    },
}

/// An object with only a name: `{"type": "…"}`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Tagged<T> {
    #[serde(rename = "type")]
    pub(super) name: T,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Operand {
    StaticOperand {
        value: Value,
        #[serde(default)]
        operations: Chain,
    },
    DynamicOperand {
        #[serde(default = "element")]
        operand_name: String,
        #[serde(default)]
        operations: Chain,
    },
}

fn element() -> String {
    "_".to_owned()
}

fn at_least_one<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<Statement>, D::Error> {
    let statements = Vec::deserialize(d)?;
    if statements.is_empty() {
        return Err(serde::de::Error::custom(
            "statements has to hold at least one statement",
        ));
    }
    Ok(statements)
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) enum Binary {
    #[serde(rename = "==", alias = "(Number) ==")]
    Equal,
    #[serde(rename = "!=", alias = "(Number) !=")]
    NotEqual,
    #[serde(rename = "(Number) >")]
    Greater,
    #[serde(rename = "(Number) >=")]
    GreaterOrEqual,
    #[serde(rename = "(Number) <")]
    Less,
    #[serde(rename = "(Number) <=")]
    LessOrEqual,
    #[serde(rename = "(Number) in range")]
    InRange,
    #[serde(rename = "(String) startsWith")]
    StartsWith,
    #[serde(rename = "(String) endsWith")]
    EndsWith,
    #[serde(rename = "(String) contains")]
    Contains,
    #[serde(rename = "in (Sequence)")]
    In,
    #[serde(rename = "any in (Sequence)")]
    AnyIn,
    #[serde(rename = "all in (Sequence)")]
    AllIn,
    #[serde(rename = "(Detection) in zone")]
    InZone,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) enum Unary {
    Exists,
    DoesNotExist,
    #[serde(rename = "(Boolean) is True")]
    IsTrue,
    #[serde(rename = "(Boolean) is False")]
    IsFalse,
    #[serde(rename = "(Sequence) is empty")]
    IsEmpty,
    #[serde(rename = "(Sequence) is not empty")]
    IsNotEmpty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DetectionProperty {
    Confidence,
    ClassName,
    XMin,
    XMax,
    YMin,
    YMax,
    Size,
    ClassId,
    Center,
    TopLeft,
    TopRight,
    BottomLeft,
    BottomRight,
    InOut,
    PathDeviation,
    Polygon,
    TimeInZone,
    TrackerId,
    Velocity,
    Speed,
    SmoothedVelocity,
    SmoothedSpeed,
    ImageDimensions,
    PredictionType,
    KeypointsXy,
    Rect,
    Width,
    Height,
    Angle,
    AreaPx,
    AreaConverted,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Selection {
    LeftMost,
    RightMost,
    TopConfidence,
    First,
    Last,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SortKey {
    Confidence,
    XMin,
    XMax,
    YMin,
    YMax,
    Size,
    CenterX,
    CenterY,
}
