//! Properties of a block: shape, selectors, default; written with builder functions.
//!
//! - Invariant: declarations are `const`.

use serde_json::Value as Json;

use crate::workflow::block_api::shape::{ANCHORS, COUNT, INTEGER, NUMBER, SHARE, Shape};
use crate::workflow::language::kinds::{Kind, KindSet};

/// Whether and how a property takes selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selects {
    Nothing,
    /// Inputs and outputs of steps.
    Anything,
    Inputs,
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
    /// Whether a value other than the default changes anything.
    pub(crate) has_effect: bool,
}

impl Property {
    const fn base(name: &'static str, shape: Shape) -> Self {
        Self {
            name,
            aliases: &[],
            about: "",
            shape,
            nullable: false,
            default: Default::Required,
            selects: Selects::Nothing,
            kinds: KindSet::ANY,
            deeper: 0,
            has_effect: true,
        }
    }

    /// Sets the description: what the property is, in a few words.
    #[must_use]
    pub(crate) const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Describes a property that is only accepted; another value than the default is a warning.
    #[must_use]
    pub(crate) const fn without_effect(mut self, about: &'static str) -> Self {
        self.has_effect = false;
        self.about(about)
    }

    /// A property that must be a selector of these kinds.
    pub(crate) const fn data(name: &'static str, kinds: &[Kind]) -> Self {
        let mut p = Self::base(name, Shape::Selector);
        p.selects = Selects::Anything;
        p.kinds = KindSet::of(kinds);
        p
    }

    /// A [`data`](Self::data) property that may be omitted.
    pub(crate) const fn optional_data(name: &'static str, kinds: &[Kind]) -> Self {
        Self::data(name, kinds).or(Default::Null)
    }

    pub(crate) const fn literal(name: &'static str, shape: Shape) -> Self {
        Self::base(name, shape)
    }

    /// A property that is a literal or a selector of the kind that such literals have.
    pub(crate) const fn value(name: &'static str, shape: Shape) -> Self {
        let mut p = Self::base(name, shape);
        p.selects = Selects::Anything;
        p.kinds = shape.kinds();
        p
    }

    /// A [`value`](Self::value) with a default.
    pub(crate) const fn value_or(name: &'static str, shape: Shape, default: Default) -> Self {
        Self::value(name, shape).or(default)
    }

    /// Takes selectors of these kinds.
    #[must_use]
    pub(crate) const fn kinds(mut self, kinds: &[Kind]) -> Self {
        self.kinds = KindSet::of(kinds);
        self
    }

    /// Takes selectors of this kind too.
    #[must_use]
    pub(crate) const fn and_kind(mut self, kind: Kind) -> Self {
        self.kinds = self.kinds.union(KindSet::of(&[kind]));
        self
    }

    /// Any integer, also by a selector.
    pub(crate) const fn integer(name: &'static str, default: i64) -> Self {
        Self::value_or(name, INTEGER, Default::Int(default))
    }

    /// An integer from 1, also by a selector.
    pub(crate) const fn count(name: &'static str, default: i64) -> Self {
        Self::value(name, COUNT).or(Default::Int(default))
    }

    pub(crate) const fn boolean(name: &'static str, default: bool) -> Self {
        Self::value(name, Shape::Boolean).or(Default::Bool(default))
    }

    /// A number from 0 to 1, also by a selector.
    pub(crate) const fn share(name: &'static str, default: f64) -> Self {
        Self::value(name, SHARE).or(Default::Float(default))
    }

    /// Any number, also by a selector.
    pub(crate) const fn number(name: &'static str, default: f64) -> Self {
        Self::value(name, NUMBER).or(Default::Float(default))
    }

    /// A value that is null unless given.
    pub(crate) const fn optional(name: &'static str, shape: Shape) -> Self {
        Self::value(name, shape).or(Default::Null)
    }

    /// A number that selectors of numbers from 0 to 1 supply. Roboflow's engine does not limit it.
    pub(crate) const fn fraction(name: &'static str, default: f64) -> Self {
        Self::value(name, NUMBER)
            .kinds(&[Kind::FloatZeroToOne])
            .or(Default::Float(default))
    }

    /// One of these names, also by a selector.
    pub(crate) const fn choice(
        name: &'static str,
        names: &'static [&'static str],
        default: &'static str,
    ) -> Self {
        Self::value(name, Shape::Choice(names)).or(Default::Text(default))
    }

    /// One of these names, by default the first; also by a selector.
    pub(crate) const fn one_of(name: &'static str, names: &'static [&'static str]) -> Self {
        Self::choice(name, names, names[0])
    }

    /// The name of a point of a detection, also by a selector.
    pub(crate) const fn anchor(name: &'static str, default: &'static str) -> Self {
        Self::value(name, ANCHORS).or(Default::Text(default))
    }

    pub(crate) const fn text(name: &'static str, default: &'static str) -> Self {
        Self::value(name, Shape::Text).or(Default::Text(default))
    }

    /// A [`choice`](Self::choice) that must be a literal.
    pub(crate) const fn literal_choice(
        name: &'static str,
        names: &'static [&'static str],
        default: &'static str,
    ) -> Self {
        Self::literal(name, Shape::Choice(names)).or(Default::Text(default))
    }

    /// A [`one_of`](Self::one_of) that must be a literal.
    pub(crate) const fn literal_one_of(name: &'static str, names: &'static [&'static str]) -> Self {
        Self::literal_choice(name, names, names[0])
    }

    /// A boolean that must be a literal.
    pub(crate) const fn switch(name: &'static str, default: bool) -> Self {
        Self::literal(name, Shape::Boolean).or(Default::Bool(default))
    }

    pub(crate) const fn secret(name: &'static str) -> Self {
        Self::value(name, Shape::Text).kinds(&[Kind::Text, Kind::Secret])
    }

    /// A dictionary whose entries may be selectors; empty by default.
    pub(crate) const fn dict(name: &'static str) -> Self {
        Self::value_or(name, Shape::Dict, Default::EmptyDict).entries_only()
    }

    /// Takes no selectors.
    #[must_use]
    pub(crate) const fn literal_only(mut self) -> Self {
        self.selects = Selects::Nothing;
        self.kinds = KindSet::ANY;
        self
    }

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
    pub(crate) const fn required(&self) -> bool {
        matches!(self.default, Default::Required)
    }
}

/// The one picture of a step.
pub(crate) const IMAGE: Property = Property::data("image", &[Kind::Image])
    .about("the picture")
    .alias(&["images"]);

/// The pictures of a step that processes each of them.
pub(crate) const IMAGES: Property = Property::data("images", &[Kind::Image])
    .about("the pictures to look at")
    .alias(&["image"]);

/// Kinds of detections with a box and optionally a mask.
pub(crate) const BOXES: &[Kind] = &[Kind::ObjectDetection, Kind::InstanceSegmentation];

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
