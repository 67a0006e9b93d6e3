//! Values in saved state.
//!
//! - Every number is restored exactly.
//! - Pictures, and values nested deeper than [`MAX_DEPTH`], are not saved; the step's state is then
//!   left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use watchkeeper_vision::detections::Detections;

use crate::workflow::values::image::VideoMeta;
use crate::workflow::values::value::{Array, Value};

/// Maximum nesting of lists and dictionaries in saved state.
const MAX_DEPTH: usize = 32;

/// A value that is kept from one frame to a later one.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredValue(pub(crate) Value);

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
