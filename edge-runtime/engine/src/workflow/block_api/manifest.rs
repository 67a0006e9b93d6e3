//! The declaration of a block, from which parsing, checks, JSON Schema and catalogue are made.
//!
//! - Everything that a definition may say about a step is in its [`Manifest`].
//! - Declarations are `const`, written with the builder functions below.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::workflow::block_api::block::{Instance, Setup};
use crate::workflow::block_api::host::Task;
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
    /// Properties, in the order in which the block reads them.
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
    /// Builds one instance.
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

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) name: &'static str,
    pub(crate) kinds: KindSet,
}

impl Output {
    #[must_use]
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
#[must_use]
pub(crate) fn names<'a>(literals: &'a Map<String, Json>, property: &str) -> Vec<&'a str> {
    let names = literals.get(property).and_then(Json::as_array);
    names
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect()
}

impl StepOutput {
    #[must_use]
    pub(crate) fn new(name: impl Into<Arc<str>>, kinds: &[Kind]) -> Self {
        Self {
            name: name.into(),
            kinds: KindSet::of(kinds),
        }
    }
}

/// Maximum number of points in one property: a zone, a list of zones, a line or a path.
pub const MAX_POINTS: usize = 1000;

/// Accepted literal values of a property.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// No literal: only a selector.
    Selector,
    Any,
    Boolean,
    /// An integer in this inclusive range.
    Integer(i64, i64),
    /// A number in this inclusive range.
    Number(f64, f64),
    Text,
    /// Text, a number, or a boolean.
    Scalar,
    Choice(&'static [&'static str]),
    List,
    /// Points `[x, y]`, or lists of them: at most [`MAX_POINTS`] together.
    Points,
    /// A list of texts, with at least this many.
    Texts(usize),
    /// A list of this shape, with minimum and maximum length.
    ListOf(&'static Shape, usize, usize),
    Dict,
    /// A dictionary with values of this shape.
    DictOf(&'static Shape),
    /// A list of steps: one branch of flow control.
    Steps,
    /// A dictionary of steps: one branch per key.
    StepCases,
    /// The first of these shapes that fits.
    OneOf(&'static [Shape]),
    /// A value with a grammar of its own.
    Grammar(Grammar),
}

/// A grammar of its own, such as the query language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grammar {
    /// What to write, in few words.
    pub(crate) what: &'static str,
    /// JSON type: `array` or `object`.
    pub(crate) json: &'static str,
    /// Returns what is wrong with a value.
    pub(crate) check: fn(&Json) -> Result<(), String>,
}

/// Whether and how a property takes selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selects {
    Nothing,
    /// Inputs and outputs of steps.
    Anything,
    /// Only inputs of the workflow.
    Inputs,
    /// Only outputs of steps.
    Outputs,
    /// Any selector, but only as entries of a list or dictionary.
    Entries,
    /// Any selector, as every entry of a non-empty list or a dictionary.
    EveryEntry,
    /// Like [`Self::EveryEntry`], or one selector for the whole.
    WholeOrEveryEntry,
}

/// Value of a property that the definition omits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Default {
    /// The definition must give it.
    Required,
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'static str),
    EmptyList,
    EmptyDict,
    /// Another value, as JSON text.
    Json(&'static str),
}

impl Default {
    /// The default as JSON; `None` for a required property.
    #[must_use]
    pub(crate) fn to_json(self) -> Option<Json> {
        Some(match self {
            Self::Required => return None,
            Self::Null => Json::Null,
            Self::Bool(b) => b.into(),
            Self::Int(i) => i.into(),
            Self::Float(f) => f.into(),
            Self::Text(t) => t.into(),
            Self::EmptyList => Json::Array(Vec::new()),
            Self::EmptyDict => Json::Object(serde_json::Map::new()),
            Self::Json(text) => serde_json::from_str(text).unwrap_or_default(),
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Property {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    /// Description, one sentence.
    pub(crate) about: &'static str,
    pub(crate) shape: Shape,
    /// Whether `null` is accepted.
    pub(crate) nullable: bool,
    pub(crate) default: Default,
    /// Whether it takes selectors.
    pub(crate) selects: Selects,
    /// Kinds that its selectors may carry.
    pub(crate) kinds: KindSet,
    /// How many levels deeper than the step its data is: 0 or 1.
    pub(crate) deeper: u8,
}

impl Property {
    const fn base(name: &'static str, about: &'static str, shape: Shape) -> Self {
        Self {
            name,
            aliases: &[],
            about,
            shape,
            nullable: false,
            default: Default::Required,
            selects: Selects::Nothing,
            kinds: KindSet::ANY,
            deeper: 0,
        }
    }

    /// A property that must be a selector of these kinds.
    #[must_use]
    pub(crate) const fn data(name: &'static str, about: &'static str, kinds: &[Kind]) -> Self {
        let mut p = Self::base(name, about, Shape::Selector);
        p.selects = Selects::Anything;
        p.kinds = KindSet::of(kinds);
        p
    }

    /// A property that must be a literal.
    #[must_use]
    pub(crate) const fn literal(name: &'static str, about: &'static str, shape: Shape) -> Self {
        Self::base(name, about, shape)
    }

    /// A property that is a literal or a selector of these kinds.
    #[must_use]
    pub(crate) const fn value(
        name: &'static str,
        about: &'static str,
        shape: Shape,
        kinds: &[Kind],
    ) -> Self {
        let mut p = Self::base(name, about, shape);
        p.selects = Selects::Anything;
        p.kinds = KindSet::of(kinds);
        p
    }

    /// Takes selectors of inputs only.
    #[must_use]
    pub(crate) const fn inputs_only(mut self) -> Self {
        self.selects = Selects::Inputs;
        self
    }

    /// Takes selectors of steps' outputs only.
    #[must_use]
    pub(crate) const fn outputs_only(mut self) -> Self {
        self.selects = Selects::Outputs;
        self
    }

    /// Takes selectors only as entries of a list or dictionary.
    #[must_use]
    pub(crate) const fn entries_only(mut self) -> Self {
        self.selects = Selects::Entries;
        self
    }

    /// Takes only selectors, as entries of a list or dictionary.
    #[must_use]
    pub(crate) const fn of_selectors(mut self) -> Self {
        self.selects = Selects::EveryEntry;
        self
    }

    /// Takes only a selector, or a list of selectors.
    #[must_use]
    pub(crate) const fn of_selectors_or_one(mut self) -> Self {
        self.selects = Selects::WholeOrEveryEntry;
        self
    }

    #[must_use]
    pub(crate) const fn or(mut self, default: Default) -> Self {
        self.nullable = self.nullable || matches!(default, Default::Null);
        self.default = default;
        self
    }

    #[must_use]
    pub(crate) const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Refuses `null`, even where the default is null.
    #[must_use]
    pub(crate) const fn not_null(mut self) -> Self {
        self.nullable = false;
        self
    }

    #[must_use]
    pub(crate) const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Takes data one level deeper than the step runs on.
    #[must_use]
    pub(crate) const fn deeper(mut self) -> Self {
        self.deeper = 1;
        self
    }

    /// Returns whether the definition must give it.
    #[must_use]
    pub(crate) const fn required(&self) -> bool {
        matches!(self.default, Default::Required)
    }
}

/// The pictures of a step that processes each of them.
pub(crate) const IMAGES: Property =
    Property::data("images", "the pictures to look at", &[Kind::Image]).alias(&["image"]);

/// Kinds of detections that box-based blocks accept and return.
pub(crate) const DETECTIONS: &[Kind] = &[
    Kind::ObjectDetection,
    Kind::InstanceSegmentation,
    Kind::Keypoints,
];

/// [`DETECTIONS`] and run-length masks: all kinds with positions in the picture.
pub(crate) const ANY_DETECTIONS: &[Kind] = &[
    DETECTIONS[0],
    DETECTIONS[1],
    DETECTIONS[2],
    Kind::RleInstanceSegmentation,
];

const ANCHOR_NAMES: &[&str; 10] = &[
    "CENTER",
    "CENTER_LEFT",
    "CENTER_RIGHT",
    "TOP_CENTER",
    "TOP_LEFT",
    "TOP_RIGHT",
    "BOTTOM_LEFT",
    "BOTTOM_CENTER",
    "BOTTOM_RIGHT",
    "CENTER_OF_MASS",
];

pub(crate) const ANCHORS: Shape = Shape::Choice(ANCHOR_NAMES);

/// Anchors of a detection without mask, and so without centre of mass.
pub(crate) const BOX_ANCHORS: Shape = {
    let [of_box @ .., _] = ANCHOR_NAMES;
    Shape::Choice(of_box)
};

/// Any number. Roboflow's engine does not limit fractions either.
pub(crate) const NUMBER: Shape = Shape::Number(f64::NEG_INFINITY, f64::INFINITY);

pub(crate) const TEXT_OR_POINTS: Shape = Shape::OneOf(&[Shape::Text, Shape::Points]);

pub(crate) const TEXT_OR_TEXTS: Shape = Shape::OneOf(&[Shape::Text, Shape::Texts(0)]);

impl Shape {
    #[must_use]
    pub(crate) const fn at_least(least: i64) -> Self {
        Self::Integer(least, i64::MAX)
    }

    /// Returns whether a list is accepted.
    #[must_use]
    pub(crate) fn takes_list(&self) -> bool {
        match self {
            Self::List | Self::Points | Self::Texts(_) | Self::ListOf(..) => true,
            Self::OneOf(shapes) => shapes.iter().any(Self::takes_list),
            _ => false,
        }
    }

    /// Returns whether points are accepted.
    #[must_use]
    pub(crate) fn takes_points(&self) -> bool {
        match self {
            Self::Points => true,
            Self::OneOf(shapes) => shapes.iter().any(Self::takes_points),
            _ => false,
        }
    }

    /// Returns whether any text is accepted.
    #[must_use]
    pub(crate) fn takes_text(&self) -> bool {
        match self {
            Self::Text | Self::Scalar | Self::Any => true,
            Self::OneOf(shapes) => shapes.iter().any(Self::takes_text),
            _ => false,
        }
    }

    /// Returns whether a dictionary is accepted.
    #[must_use]
    pub(crate) fn takes_dict(&self) -> bool {
        match self {
            Self::Dict | Self::DictOf(_) => true,
            Self::OneOf(shapes) => shapes.iter().any(Self::takes_dict),
            _ => false,
        }
    }
}

/// A number from 0 to 1, such as a confidence.
pub(crate) const SHARE: Shape = Shape::Number(0.0, 1.0);

pub(crate) const POSITIVE: Shape = Shape::Number(f64::MIN_POSITIVE, f64::INFINITY);

pub(crate) const COUNT: Shape = Shape::at_least(1);

pub(crate) const INTEGER: Shape = Shape::at_least(i64::MIN);

/// A colour: `[r, g, b]`, `#rrggbb` or a name.
pub(crate) const COLOR: Shape = Shape::OneOf(&[Shape::Text, Shape::ListOf(&INTEGER, 3, 3)]);

impl Manifest {
    /// Defaults for `..Manifest::BASE`.
    pub(crate) const BASE: Self = Self {
        name: "",
        category: "",
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
        build: |_| Err("this manifest is only a base for others".to_owned()),
    };

    /// Returns whether batch data may flow into a property.
    #[must_use]
    pub(crate) fn takes_batch(&self, property: &str) -> bool {
        (self.batch.is_empty() && self.mixed.is_empty())
            || self.batch.contains(&property)
            || self.mixed.contains(&property)
    }

    /// Position of a property, by name or alias.
    #[must_use]
    pub(crate) fn property(&self, name: &str) -> Option<usize> {
        self.properties
            .iter()
            .position(|p| p.name == name || p.aliases.contains(&name))
    }

    /// Outputs of a step with these properties, in the order in which the block writes them.
    #[must_use]
    pub(crate) fn outputs_of(&self, literals: &Map<String, Json>) -> Vec<StepOutput> {
        let declared = self.outputs.iter().filter(|o| o.name != "*");
        let declared = declared.map(|o| StepOutput {
            name: Arc::from(o.name),
            kinds: o.kinds,
        });
        declared.chain((self.own_outputs)(literals)).collect()
    }
}
