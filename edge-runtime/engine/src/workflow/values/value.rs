//! Values: the data that flows between steps.
//!
//! - A [`Value`] is cheap to clone (a number or a reference count) and immutable once in a slot.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::geometry::Point;

use crate::workflow::values::image::{ImageValue, VideoMeta};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "serde_json::Value")]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(Arc<Vec<Value>>),
    /// A dictionary, sorted by key.
    Dict(Arc<BTreeMap<Arc<str>, Value>>),
    Detections(Arc<Detections>),
    /// One of the detections, inside the query language.
    Detection(Arc<Detections>, usize),
    Image(Arc<ImageValue>),
    /// Position of a frame in its video.
    Meta(Arc<VideoMeta>),
    /// Bytes, such as a file in memory.
    Bytes(Arc<[u8]>),
    /// A numeric array, such as an embedding or a depth map.
    Array(Arc<Array>),
    Time(jiff::Timestamp),
    /// A secret, by the name under which the host keeps it; its text is unknown here.
    Secret(Arc<str>),
}

/// A numeric array of any number of dimensions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "(Vec<usize>, Vec<f32>)", into = "(Vec<usize>, Vec<f32>)")]
pub struct Array {
    /// Length of each dimension; the product is the length of `data`.
    shape: Vec<usize>,
    data: Vec<f32>,
}

impl From<Array> for (Vec<usize>, Vec<f32>) {
    fn from(array: Array) -> Self {
        (array.shape, array.data)
    }
}

impl TryFrom<(Vec<usize>, Vec<f32>)> for Array {
    type Error = String;

    fn try_from((shape, data): (Vec<usize>, Vec<f32>)) -> Result<Self, String> {
        let count = data.len();
        let wrong = format!("{count} numbers don't fit an array of shape {shape:?}");
        Self::new(shape, data).ok_or(wrong)
    }
}

impl Array {
    /// Creates an array in row-major order; `None` if `shape` does not match the length.
    pub fn new(shape: Vec<usize>, data: Vec<f32>) -> Option<Self> {
        let count = shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d))?;
        (count == data.len()).then_some(Self { shape, data })
    }

    pub fn row(data: Vec<f32>) -> Self {
        Self {
            shape: vec![data.len()],
            data,
        }
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers in row-major order.
    pub fn data(&self) -> &[f32] {
        &self.data
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(b) => Self::Bool(b),
            Json::Number(n) => n
                .as_i64()
                .map_or_else(|| Self::Float(n.as_f64().unwrap_or(f64::NAN)), Self::Int),
            Json::String(s) => Self::Text(s.into()),
            Json::Array(items) => Self::List(Arc::new(items.into_iter().map(Self::from).collect())),
            Json::Object(map) => Self::Dict(Arc::new(
                map.into_iter()
                    .map(|(k, v)| (Arc::from(k), Self::from(v)))
                    .collect(),
            )),
        }
    }
}

macro_rules! from {
    ($($value:ident: $source:ty => $made:expr;)*) => {
        $(impl From<$source> for Value {
            fn from($value: $source) -> Self {
                $made
            }
        })*
    };
}

from! {
    flag: bool => Self::Bool(flag);
    number: i64 => Self::Int(number);
    count: u64 => Self::Int(i64::try_from(count).unwrap_or(i64::MAX));
    count: usize => Self::from(count as u64);
    number: f64 => Self::Float(number);
    text: &str => Self::Text(text.into());
    text: String => Self::Text(text.into());
    text: Arc<str> => Self::Text(text);
    items: Vec<Value> => Self::list(items);
    image: ImageValue => Self::Image(Arc::new(image));
    array: Array => Self::Array(Arc::new(array));
    all: Detections => Self::Detections(Arc::new(all));
    all: Arc<Detections> => Self::Detections(all);
}

/// Time from seconds since the Unix epoch, to the microsecond; `None` outside of the supported
/// years.
pub(crate) fn moment(seconds: f64) -> Option<jiff::Timestamp> {
    let micros = (seconds * 1e6).round() as i64;
    jiff::Timestamp::from_microsecond(micros).ok()
}

impl Value {
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(items))
    }

    pub fn dict<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value));
        Self::Dict(Arc::new(entries.collect()))
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Dict(map) => map.get(key),
            _ => None,
        }
    }

    /// Entries of a dictionary; none of anything else.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Arc<str>, &Self)> {
        let map = match self {
            Self::Dict(map) => Some(map.iter()),
            _ => None,
        };
        map.into_iter().flatten()
    }

    /// Name of the variant, for messages.
    pub const fn what(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dictionary",
            Self::Detections(_) => "detections",
            Self::Detection(..) => "a detection",
            Self::Image(_) => "an image",
            Self::Meta(_) => "video metadata",
            Self::Bytes(_) => "bytes",
            Self::Array(_) => "an array",
            Self::Time(_) => "a time",
            Self::Secret(_) => "a secret",
        }
    }

    /// Returns whether it is detections or a picture with more than one holder.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Detections(all) => Arc::strong_count(all) > 1,
            Self::Image(image) => Arc::strong_count(image) > 1,
            _ => false,
        }
    }

    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the number; a boolean counts as 0 or 1, as in Python.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(i) => Some(*i as f64),
            Self::Float(f) => Some(*f),
            Self::Bool(b) => Some(f64::from(u8::from(*b))),
            _ => None,
        }
    }

    /// Returns the integer, also of a float without fraction.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(*i),
            Self::Bool(b) => Some(i64::from(*b)),
            Self::Float(f) if f.fract() == 0.0 => Some(*f as i64),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the numbers of a list or array, in order.
    pub fn as_numbers(&self) -> Option<Vec<f64>> {
        match self {
            Self::List(items) => items.iter().map(Self::as_f64).collect(),
            Self::Array(array) => Some(array.data().iter().copied().map(f64::from).collect()),
            _ => None,
        }
    }

    pub fn as_detection(&self) -> Option<&Detection> {
        match self {
            Self::Detection(all, index) => all.boxes.get(*index),
            _ => None,
        }
    }

    /// Returns the point of `[x, y]`, in pixels.
    pub fn as_point(&self) -> Option<Point> {
        match self.as_list()? {
            [x, y] => Some(Point::new(x.as_f64()?, y.as_f64()?)),
            _ => None,
        }
    }

    /// Returns the points of `[[x, y], …]`, in pixels.
    pub fn as_points(&self) -> Option<Vec<Point>> {
        self.as_list()?.iter().map(Self::as_point).collect()
    }

    /// Returns the polygon of `[[x, y], …]`, or those of a list of polygons. Fails if there is no
    /// polygon, or one has fewer than three points.
    pub(crate) fn as_polygons(&self) -> Result<Vec<Vec<Point>>, String> {
        let wrong = || "a zone is a list of at least three points [x, y], or a list of such lists";
        let list = match self.as_points() {
            Some(one) => vec![one],
            None => self
                .as_list()
                .ok_or_else(wrong)?
                .iter()
                .map(Self::as_points)
                .collect::<Option<Vec<_>>>()
                .ok_or_else(wrong)?,
        };
        if list.is_empty() || list.iter().any(|p| p.len() < 3) {
            return Err(wrong().to_owned());
        }
        Ok(list)
    }

    /// Python's equality: numbers by value whatever their type, everything else by content.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.same(b))
            }
            (Self::Dict(a), Self::Dict(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b.iter())
                        .all(|((ka, va), (kb, vb))| ka == kb && va.same(vb))
            }
            (Self::Detections(a), Self::Detections(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Detection(a, i), Self::Detection(b, j)) => a.boxes.get(*i) == b.boxes.get(*j),
            (Self::Image(a), Self::Image(b)) => {
                // A kept copy has the pixels and the metadata of its frame.
                let shares_meta = Arc::ptr_eq(&a.meta, &b.meta);
                Arc::ptr_eq(a, b) || shares_meta && Arc::ptr_eq(&a.pixels.rgb(), &b.pixels.rgb())
            }
            (Self::Meta(a), Self::Meta(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Time(a), Self::Time(b)) => a == b,
            (Self::Secret(a), Self::Secret(b)) => a == b,
            _ => match (self.as_f64(), other.as_f64()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn numbers_are_equal_by_value() {
        assert!(Value::Int(1).same(&Value::Float(1.0)));
        assert!(Value::Bool(true).same(&Value::Int(1)));
        assert!(!Value::from("1").same(&Value::Int(1)));
        assert!(!Value::Null.same(&Value::Int(0)));
    }
}
