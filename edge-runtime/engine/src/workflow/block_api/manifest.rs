//! The declaration of a block: the one place from which parsing, checks, JSON Schema and catalogue are made.
//!
//! Invariant: everything a definition may say about a step is in its [`Manifest`]; no code looks at a property that is
//! not declared here. Declarations are `const`, written with the builder functions below.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::workflow::block_api::block::{Instance, Setup};
use crate::workflow::block_api::host::Task;
use crate::workflow::language::kinds::{Kind, KindSet};

/// Everything there is to say about one version of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manifest {
    /// Canonical type string, such as `roboflow_core/line_counter@v2`. Other names for it are in [`crate::workflow::language::types`].
    pub(crate) name: &'static str,
    /// Group in the catalogue.
    pub(crate) category: &'static str,
    /// One sentence.
    pub(crate) summary: &'static str,
    /// What the block is to the program around the workflow.
    pub(crate) role: Role,
    /// Properties, in the order in which the block reads them.
    pub(crate) properties: &'static [Property],
    /// Outputs, in the order in which the block writes them. A last one called `*` stands for those of
    /// [`Self::own_outputs`].
    pub(crate) outputs: &'static [Output],
    /// Outputs that only the properties of a step, as its definition writes them, name.
    pub(crate) own_outputs: fn(&Map<String, Json>) -> Vec<StepOutput>,
    /// What it does to the depth of a batch.
    pub(crate) depth: Depth,
    /// Whether it runs on elements whose inputs are missing.
    pub(crate) accepts_empty: bool,
    /// Whether the block has to know how many elements of the batch are still to come.
    pub(crate) whole_batch: bool,
    /// Properties that the peer's block takes as a whole batch. Where there are any, data of a batch may flow only into
    /// these and [`Self::mixed`]; without any, into every property that takes selectors.
    pub(crate) batch: &'static [&'static str],
    /// Properties that take a batch as well as a single value.
    pub(crate) mixed: &'static [&'static str],
    /// Name of the model that a step asks, made of those of its properties that are known before it runs.
    pub(crate) model: fn(Known<'_>) -> Option<String>,
    /// Whether the boxes it gives out have the classes that they came with, or that a model gave them. A block that does
    /// not say so may name classes of its own.
    pub(crate) keeps_classes: bool,
    /// Makes one instance, with its own state.
    pub(crate) build: fn(&Setup<'_>) -> Result<Box<dyn Instance>, String>,
}

/// The text of a property where it is known before a step runs.
pub(crate) type Known<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What a block is to the program around the workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Finds objects with a model, which is asked for this.
    Detector(Task),
    /// Asks a model something else about pictures.
    Asker(Task),
    /// Gives detections an identity; its first output is `tracked_detections`.
    Tracker,
    /// Counts crossings of a line.
    Line,
    /// Measures time in a zone.
    Zone,
    /// Decides which steps go on.
    Flow,
    /// Draws.
    Visualization,
    /// Hands results to the outside.
    Sink,
    /// Anything else.
    Other,
}

/// What a block does to the depth of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Nothing: one result for one element.
    Same,
    /// One more level: each element becomes a list of elements.
    Deeper,
    /// One level less: each list of elements becomes one.
    Shallower,
    /// Inputs of two depths; the result is as deep as this property.
    Reference(&'static str),
}

/// One output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Name after the dot.
    pub(crate) name: &'static str,
    /// What it carries.
    pub(crate) kinds: KindSet,
}

impl Output {
    /// An output of these kinds.
    #[must_use]
    pub(crate) const fn new(name: &'static str, kinds: &[Kind]) -> Self {
        Self {
            name,
            kinds: KindSet::of(kinds),
        }
    }
}

/// An output of one step: one of its block's, or one that its own properties name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepOutput {
    /// Name after the dot.
    pub(crate) name: Arc<str>,
    /// What it carries.
    pub(crate) kinds: KindSet,
}

/// The texts in a list that a definition writes, such as names of outputs; none where there is no list.
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
    /// An output of these kinds.
    #[must_use]
    pub(crate) fn new(name: impl Into<Arc<str>>, kinds: &[Kind]) -> Self {
        Self {
            name: name.into(),
            kinds: KindSet::of(kinds),
        }
    }
}

/// What a literal value of a property has to look like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// No literal at all: only a selector.
    Selector,
    /// Anything.
    Any,
    /// `true` or `false`.
    Boolean,
    /// A whole number between these, both included.
    Integer(i64, i64),
    /// A number between these, both included.
    Number(f64, f64),
    /// Text.
    Text,
    /// Text, a number, or `true` or `false`, each as it is written.
    Scalar,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A list of anything.
    List,
    /// A list of texts, of at least so many.
    Texts(usize),
    /// A list of what this shape takes, of so many at least and so many at most.
    ListOf(&'static Shape, usize, usize),
    /// A dictionary of anything.
    Dict,
    /// A dictionary of what this shape takes.
    DictOf(&'static Shape),
    /// A list of steps: one branch of flow control.
    Steps,
    /// A dictionary of steps: one branch for each key.
    StepCases,
    /// What any of these shapes takes; the first that fits decides.
    OneOf(&'static [Shape]),
    /// A value with a grammar of its own.
    Grammar(Grammar),
}

/// A grammar of its own, such as the query language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grammar {
    /// What to write, in few words.
    pub(crate) what: &'static str,
    /// JSON type of it: `array` or `object`.
    pub(crate) json: &'static str,
    /// Says what is wrong with a value.
    pub(crate) check: fn(&Json) -> Result<(), String>,
}

/// Whether and how a property takes selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selects {
    /// Not at all.
    Nothing,
    /// Inputs and outputs of steps.
    Anything,
    /// Only inputs of the workflow.
    Inputs,
    /// Only outputs of steps.
    Outputs,
    /// Anything, but only as entries of the list or dictionary that it is.
    Entries,
    /// Anything, as every entry of the list or dictionary that it is; a list has one at least.
    EveryEntry,
    /// The same, or one that stands for all of it.
    WholeOrEveryEntry,
}

/// What a property has when the definition doesn't say.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Default {
    /// The definition has to say.
    Required,
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(&'static str),
    /// An empty list.
    EmptyList,
    /// An empty dictionary.
    EmptyDict,
    /// Anything else, as JSON text.
    Json(&'static str),
}

impl Default {
    /// As JSON; `None` for a required property.
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

/// One property of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Property {
    /// Name in the definition.
    pub(crate) name: &'static str,
    /// Other names that mean the same.
    pub(crate) aliases: &'static [&'static str],
    /// One sentence.
    pub(crate) about: &'static str,
    /// What a literal has to look like.
    pub(crate) shape: Shape,
    /// Whether `null` is a value.
    pub(crate) nullable: bool,
    /// What it is when the definition doesn't say.
    pub(crate) default: Default,
    /// Whether it takes selectors.
    pub(crate) selects: Selects,
    /// What those may carry.
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

    /// A property that has to be a selector of these kinds.
    #[must_use]
    pub(crate) const fn data(name: &'static str, about: &'static str, kinds: &[Kind]) -> Self {
        let mut p = Self::base(name, about, Shape::Selector);
        p.selects = Selects::Anything;
        p.kinds = KindSet::of(kinds);
        p
    }

    /// A property that has to be a literal.
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

    /// Takes selectors of outputs of steps only.
    #[must_use]
    pub(crate) const fn outputs_only(mut self) -> Self {
        self.selects = Selects::Outputs;
        self
    }

    /// Takes selectors only as entries of the list or dictionary that it is.
    #[must_use]
    pub(crate) const fn entries_only(mut self) -> Self {
        self.selects = Selects::Entries;
        self
    }

    /// Takes nothing but selectors as entries of the list or dictionary that it is.
    #[must_use]
    pub(crate) const fn of_selectors(mut self) -> Self {
        self.selects = Selects::EveryEntry;
        self
    }

    /// Takes nothing but a selector, or selectors as entries of the list that it is.
    #[must_use]
    pub(crate) const fn of_selectors_or_one(mut self) -> Self {
        self.selects = Selects::WholeOrEveryEntry;
        self
    }

    /// Has a default.
    #[must_use]
    pub(crate) const fn or(mut self, default: Default) -> Self {
        self.nullable = self.nullable || matches!(default, Default::Null);
        self.default = default;
        self
    }

    /// Also takes `null`.
    #[must_use]
    pub(crate) const fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Is nothing only where the definition doesn't say.
    #[must_use]
    pub(crate) const fn not_null(mut self) -> Self {
        self.nullable = false;
        self
    }

    /// Goes by other names too.
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

    /// Whether the definition has to say it.
    #[must_use]
    pub(crate) const fn required(&self) -> bool {
        matches!(self.default, Default::Required)
    }
}

/// The pictures of a step that looks at each of them.
pub(crate) const IMAGES: Property =
    Property::data("images", "the pictures to look at", &[Kind::Image]).alias(&["image"]);

/// Kinds of detections that the box-based blocks take and give.
pub(crate) const DETECTIONS: &[Kind] = &[
    Kind::ObjectDetection,
    Kind::InstanceSegmentation,
    Kind::Keypoints,
];

/// Those, and masks in the form of run lengths: everything that has a place in the picture.
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

/// Names of the anchors of a detection.
pub(crate) const ANCHORS: Shape = Shape::Choice(ANCHOR_NAMES);

/// Names of the anchors of a frame that holds no mask, and so has no centre of mass.
pub(crate) const BOX_ANCHORS: Shape = {
    let [of_box @ .., _] = ANCHOR_NAMES;
    Shape::Choice(of_box)
};

/// A share, `0.0..=1.0`. The peer doesn't bound it, and neither does the check.
pub(crate) const NUMBER: Shape = Shape::Number(f64::NEG_INFINITY, f64::INFINITY);

/// Text or a list.
pub(crate) const TEXT_OR_LIST: Shape = Shape::OneOf(&[Shape::Text, Shape::List]);

/// A text or a list of them.
pub(crate) const TEXT_OR_TEXTS: Shape = Shape::OneOf(&[Shape::Text, Shape::Texts(0)]);

impl Shape {
    /// A whole number of at least this.
    #[must_use]
    pub(crate) const fn at_least(least: i64) -> Self {
        Self::Integer(least, i64::MAX)
    }

    /// Whether a list may stand here.
    #[must_use]
    pub(crate) fn takes_list(&self) -> bool {
        match self {
            Self::List | Self::Texts(_) | Self::ListOf(..) => true,
            Self::OneOf(shapes) => shapes.iter().any(Self::takes_list),
            _ => false,
        }
    }

    /// Whether any text may stand here.
    #[must_use]
    pub(crate) fn takes_text(&self) -> bool {
        match self {
            Self::Text | Self::Scalar | Self::Any => true,
            Self::OneOf(shapes) => shapes.iter().any(Self::takes_text),
            _ => false,
        }
    }

    /// Whether a dictionary may stand here.
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

/// A number above 0.
pub(crate) const POSITIVE: Shape = Shape::Number(f64::MIN_POSITIVE, f64::INFINITY);

/// A whole number from 1.
pub(crate) const COUNT: Shape = Shape::at_least(1);

/// Any whole number.
pub(crate) const INTEGER: Shape = Shape::at_least(i64::MIN);

/// A colour: `[r, g, b]`, `#rrggbb` or a name.
pub(crate) const COLOR: Shape = Shape::OneOf(&[Shape::Text, Shape::ListOf(&INTEGER, 3, 3)]);

impl Manifest {
    /// What most blocks have in common, for `..Manifest::BASE`.
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

    /// Whether data of a batch may flow into a property.
    #[must_use]
    pub(crate) fn takes_batch(&self, property: &str) -> bool {
        (self.batch.is_empty() && self.mixed.is_empty())
            || self.batch.contains(&property)
            || self.mixed.contains(&property)
    }

    /// Position of a property, by its name or an alias.
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
