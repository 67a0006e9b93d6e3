//! Shapes: the literal values that a property accepts.
//!
//! - Not here: checking a value against a shape (`workflow::plan::literal`).

use serde_json::Value as Json;

use crate::workflow::language::kinds::{Kind, KindSet};

/// Maximum number of points in one property: a zone, a list of zones, a line or a path.
pub const MAX_POINTS: usize = 1000;

/// Accepted literal values of a property.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// No literal: only a selector.
    Selector,
    Any,
    Boolean,
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
    Grammar(Grammar),
}

/// The names of a table that [`Call::choice`] reads, for [`Shape::Choice`].
///
/// [`Call::choice`]: crate::workflow::block_api::call::Call::choice
pub(crate) const fn names_of<T: Copy, const N: usize>(
    table: &[(&'static str, T); N],
) -> [&'static str; N] {
    let mut names = [""; N];
    let mut i = 0;
    while i < N {
        names[i] = table[i].0;
        i += 1;
    }
    names
}

/// A grammar of its own, such as the query language.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grammar {
    /// Expected value, in few words.
    pub(crate) what: &'static str,
    /// JSON type: `array` or `object`.
    pub(crate) json: &'static str,
    /// Returns what is wrong with a value.
    pub(crate) check: fn(&Json) -> Result<(), String>,
}

impl Shape {
    pub(crate) const fn at_least(least: i64) -> Self {
        Self::Integer(least, i64::MAX)
    }

    /// Kinds that such literals have as outputs of steps.
    pub(crate) const fn kinds(&self) -> KindSet {
        KindSet::of(match self {
            Self::Boolean => &[Kind::Boolean],
            Self::Integer(..) => &[Kind::Integer],
            Self::Number(0.0, 1.0) => &[Kind::FloatZeroToOne],
            Self::Number(..) => &[Kind::Float],
            Self::Text | Self::Choice(_) => &[Kind::Text],
            Self::List | Self::Points | Self::Texts(_) => &[Kind::ListOfValues],
            _ => &[Kind::Any],
        })
    }

    pub(crate) fn takes_list(&self) -> bool {
        self.any(|s| {
            matches!(
                s,
                Self::List | Self::Points | Self::Texts(_) | Self::ListOf(..)
            )
        })
    }

    pub(crate) fn takes_points(&self) -> bool {
        self.any(|s| matches!(s, Self::Points))
    }

    pub(crate) fn takes_text(&self) -> bool {
        self.any(|s| matches!(s, Self::Text | Self::Scalar | Self::Any))
    }

    pub(crate) fn takes_dict(&self) -> bool {
        self.any(|s| matches!(s, Self::Dict | Self::DictOf(_)))
    }

    /// Whether this shape passes the test; of several, whether one does.
    fn any(&self, test: fn(&Self) -> bool) -> bool {
        match self {
            Self::OneOf(shapes) => shapes.iter().any(|shape| shape.any(test)),
            one => test(one),
        }
    }
}

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

pub(crate) const NOT_NEGATIVE: Shape = Shape::Number(0.0, f64::INFINITY);
/// A number from 0 to 1, such as a confidence.
pub(crate) const SHARE: Shape = Shape::Number(0.0, 1.0);

pub(crate) const POSITIVE: Shape = Shape::Number(f64::MIN_POSITIVE, f64::INFINITY);

pub(crate) const COUNT: Shape = Shape::at_least(1);

pub(crate) const INTEGER: Shape = Shape::at_least(i64::MIN);

/// A colour: `[r, g, b]`, `#rrggbb` or a name.
pub(crate) const COLOR: Shape = Shape::OneOf(&[Shape::Text, Shape::ListOf(&INTEGER, 3, 3)]);
