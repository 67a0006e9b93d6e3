//! Values that outlive their frame, in memory and in saved state.
//!
//! - A step keeps at most [`MAX_KEPT_BYTES`] of them.
//! - Every number is restored exactly.
//! - Pictures, and values nested deeper than [`MAX_DEPTH`], are not saved; the step's state is then
//!   left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use watchkeeper_vision::detections::{Detection, Detections};
use watchkeeper_vision::mask::Mask;

use crate::workflow::values::image::{Packed, VideoMeta};
use crate::workflow::values::value::{Array, Value};

/// Maximum nesting of lists and dictionaries in saved state.
const MAX_DEPTH: usize = 32;

/// Maximum bytes of the values that one step, or the shared store, keeps for later frames.
pub(crate) const MAX_KEPT_BYTES: usize = 256 << 20;

/// A value that is kept from one frame to a later one.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredValue(pub(crate) Value);

impl StoredValue {
    /// Keeps a value; its pictures are copied, because a decoder stops while all its frames are
    /// held.
    pub(crate) fn copied(value: &Value) -> Self {
        Self(match value {
            Value::Image(image) => {
                let pixels = Packed(image.pixels.rgb());
                image.with_pixels(Arc::new(pixels)).into()
            }
            Value::List(items) => Value::list(items.iter().map(|v| Self::copied(v).0).collect()),
            Value::Dict(map) => {
                let entries = map.iter();
                Value::dict(entries.map(|(key, v)| (Arc::clone(key), Self::copied(v).0)))
            }
            other => other.clone(),
        })
    }

    /// Returns the approximate memory of the value in bytes.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(&self.0)
    }
}

fn bytes_of(value: &Value) -> usize {
    let further = match value {
        Value::Text(text) => text.len(),
        Value::List(items) => items.iter().map(bytes_of).sum(),
        Value::Dict(map) => map.iter().map(|(key, v)| key.len() + bytes_of(v)).sum(),
        Value::Detections(all) => bytes_of_detections(all),
        Value::Detection(all, _) => bytes_of_detections(all),
        Value::Image(image) => {
            image
                .size()
                .map(|side| side as usize)
                .iter()
                .product::<usize>()
                * 3
        }
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(array) => size_of_val(array.data()),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Meta(_)
        | Value::Time(_)
        | Value::Secret(_) => 0,
    };
    size_of::<Value>() + further
}

fn bytes_of_detections(all: &Detections) -> usize {
    let mask = |d: &Detection| match d.mask().map(|mask| &**mask) {
        Some(Mask::Bitmap(bitmap)) => bitmap.size().iter().product(),
        Some(Mask::Polygon(points)) => size_of_val(points.as_slice()),
        None => 0,
    };
    size_of_val(all.boxes.as_slice()) + all.boxes.iter().map(mask).sum::<usize>()
}

/// Returns how many of these values fit into [`MAX_KEPT_BYTES`] together.
pub(crate) fn count_fitting<'a>(values: impl Iterator<Item = &'a StoredValue>) -> usize {
    let mut left = MAX_KEPT_BYTES;
    let fits = values.take_while(|kept| match left.checked_sub(kept.bytes()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    });
    fits.count()
}

/// The variants of [`Value`] that can be saved.
#[derive(Serialize, Deserialize)]
enum Form {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(Vec<Form>),
    Dict(BTreeMap<Arc<str>, Form>),
    Detections(Arc<Detections>),
    Detection(Arc<Detections>, usize),
    Meta(Arc<VideoMeta>),
    Bytes(Arc<[u8]>),
    Array(Arc<Array>),
    Time(jiff::Timestamp),
    Secret(Arc<str>),
}

impl Form {
    fn from_value(value: &Value, depth: usize) -> Result<Self, &'static str> {
        if depth > MAX_DEPTH {
            return Err("it holds a value that is nested too deeply");
        }
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(i) => Self::Int(*i),
            Value::Float(f) => Self::Float(*f),
            Value::Text(text) => Self::Text(Arc::clone(text)),
            Value::List(items) => {
                let items = items.iter().map(|v| Self::from_value(v, depth + 1));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Value::Dict(map) => {
                let mut entries = BTreeMap::new();
                for (key, v) in map.iter() {
                    entries.insert(Arc::clone(key), Self::from_value(v, depth + 1)?);
                }
                Self::Dict(entries)
            }
            Value::Detections(all) => Self::Detections(Arc::clone(all)),
            Value::Detection(all, index) => Self::Detection(Arc::clone(all), *index),
            Value::Image(_) => return Err("it holds a picture, and pictures are not saved"),
            Value::Meta(meta) => Self::Meta(Arc::clone(meta)),
            Value::Bytes(bytes) => Self::Bytes(Arc::clone(bytes)),
            Value::Array(array) => Self::Array(Arc::clone(array)),
            Value::Time(time) => Self::Time(*time),
            Value::Secret(name) => Self::Secret(Arc::clone(name)),
        })
    }
}

impl From<Form> for Value {
    fn from(form: Form) -> Self {
        match form {
            Form::Null => Self::Null,
            Form::Bool(b) => Self::Bool(b),
            Form::Int(i) => Self::Int(i),
            Form::Float(f) => Self::Float(f),
            Form::Text(text) => Self::Text(text),
            Form::List(items) => Self::list(items.into_iter().map(Self::from).collect()),
            Form::Dict(map) => Self::dict(map.into_iter().map(|(k, v)| (k, Self::from(v)))),
            Form::Detections(all) => Self::Detections(all),
            Form::Detection(all, index) => Self::Detection(all, index),
            Form::Meta(meta) => Self::Meta(meta),
            Form::Bytes(bytes) => Self::Bytes(bytes),
            Form::Array(array) => Self::Array(array),
            Form::Time(time) => Self::Time(time),
            Form::Secret(name) => Self::Secret(name),
        }
    }
}

impl Serialize for StoredValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = Form::from_value(&self.0, 0).map_err(S::Error::custom)?;
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StoredValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Form::deserialize(deserializer).map(|form| Self(form.into()))
    }
}
