//! Values that outlive their frame, in memory and in saved state.
//!
//! - Steps that collect values keep at most [`MAX_KEPT_BYTES`] of them.
//! - Every number is restored exactly.
//! - Pictures, and values nested deeper than [`MAX_DEPTH`], are not saved; the step's state is then
//!   left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use watchkeeper_vision::detections::{Detections, Extra};
use watchkeeper_vision::mask::Mask;

use crate::workflow::values::image::{Packed, VideoMeta};
use crate::workflow::values::value::{Array, Value};

/// Maximum nesting of lists and dictionaries in saved state.
const MAX_DEPTH: usize = 32;

/// Maximum bytes of the values that one step which collects them, or the shared store, keeps for
/// later frames.
pub(crate) const MAX_KEPT_BYTES: usize = 256 << 20;

/// A value that is kept from one frame to a later one.
#[derive(Debug, Clone)]
pub(crate) struct StoredValue {
    value: Value,
    /// Approximate memory of the value.
    bytes: usize,
}

impl StoredValue {
    /// Keeps a value; its pictures are copied, because a decoder stops while all its frames are
    /// held. A detection no longer holds the others of its frame.
    pub(crate) fn copied(value: &Value) -> Self {
        Self::from_value(if holds_frame(value) {
            copy_of(value)
        } else {
            value.clone()
        })
    }

    fn from_value(value: Value) -> Self {
        let bytes = bytes_of(&value);
        Self { value, bytes }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn into_value(self) -> Value {
        self.value
    }

    /// Returns the approximate memory of the value in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns whether a value shares the memory of its frame.
fn holds_frame(value: &Value) -> bool {
    match value {
        Value::Image(_) | Value::Detection(..) => true,
        Value::List(items) => items.iter().any(holds_frame),
        Value::Dict(map) => map.values().any(holds_frame),
        _ => false,
    }
}

fn copy_of(value: &Value) -> Value {
    match value {
        Value::Image(image) => {
            let pixels = Packed(image.pixels.rgb());
            image.with_pixels(Arc::new(pixels)).into()
        }
        Value::Detection(all, index) => {
            let boxes = all.boxes.get(*index).cloned().into_iter().collect();
            let size = all.size;
            Value::Detection(Arc::new(Detections { boxes, size }), 0)
        }
        Value::List(items) => Value::list(items.iter().map(copy_of).collect()),
        Value::Dict(map) => {
            let entries = map.iter();
            Value::dict(entries.map(|(key, v)| (Arc::clone(key), copy_of(v))))
        }
        other => other.clone(),
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
    let extras = all.boxes.iter().filter_map(|d| d.extra.as_deref());
    size_of_val(all.boxes.as_slice()) + extras.map(bytes_of_extra).sum::<usize>()
}

fn bytes_of_extra(extra: &Extra) -> usize {
    let mask = match extra.mask.as_deref() {
        Some(Mask::Bitmap(bitmap)) => bitmap.size().iter().map(|n| *n as usize).product(),
        Some(Mask::Polygon(points)) => size_of_val(points.as_slice()),
        None => 0,
    };
    let keypoints = extra.keypoints.as_deref().map_or(0, size_of_val);
    let data = extra.data.iter();
    let data = data.map(|(key, json)| key.len() + bytes_of_json(json));
    size_of::<Extra>() + mask + keypoints + data.sum::<usize>()
}

fn bytes_of_json(json: &Json) -> usize {
    let further = match json {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(bytes_of_json).sum(),
        Json::Object(map) => map
            .iter()
            .map(|(key, v)| key.len() + bytes_of_json(v))
            .sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
    };
    size_of::<Json>() + further
}

/// Returns how many of these values fit into `max_bytes` together.
pub(crate) fn count_fitting<'a>(
    values: impl Iterator<Item = &'a StoredValue>,
    max_bytes: usize,
) -> usize {
    let mut left = max_bytes;
    let fits = values.take_while(|kept| match left.checked_sub(kept.bytes) {
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
        let form = Form::from_value(&self.value, 0).map_err(S::Error::custom)?;
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StoredValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Form::deserialize(deserializer).map(|form| Self::from_value(form.into()))
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_vision::detections::{Detection, DetectionId, Keypoint};
    use watchkeeper_vision::geometry::{BBox, Point};

    use super::{Arc, Detections, Extra, StoredValue, Value};

    fn detection(extra: Extra) -> Detection {
        let id = DetectionId::Local {
            stream: 0,
            number: 0,
        };
        let bbox = BBox::new(0.0, 0.0, 1.0, 1.0);
        Detection {
            extra: Some(Box::new(extra)),
            ..Detection::new(bbox, 0.5, 0, "cat", id)
        }
    }

    #[test]
    fn kept_detection_counts_and_holds_only_itself() {
        let boxes = vec![detection(Extra::default()); 100];
        let all = Arc::new(Detections {
            boxes,
            size: [4, 4],
        });
        let one = StoredValue::copied(&Value::Detection(Arc::clone(&all), 7));
        let each = (0..100).map(|n| Value::Detection(Arc::clone(&all), n));
        let each = StoredValue::copied(&Value::list(each.collect()));
        assert_eq!(Arc::strong_count(&all), 1);
        assert!(one.bytes() * 101 > each.bytes(), "{}", each.bytes());
        assert!(one.value().same(&Value::Detection(all, 7)));
    }

    #[test]
    fn attached_data_and_keypoints_of_a_detection_count() {
        let bytes = |extra: Extra| {
            let all = Detections {
                boxes: vec![detection(extra)],
                size: [4, 4],
            };
            StoredValue::copied(&all.into()).bytes()
        };
        let text = serde_json::json!(["x".repeat(10_000)]);
        let keypoint = Keypoint {
            at: Point::new(0.0, 0.0),
            confidence: 0.5,
            class_id: 0,
            class: "eye".into(),
        };
        let heavy = Extra {
            data: [("notes".into(), text)].into(),
            keypoints: Some(vec![keypoint; 1_000].into()),
            ..Extra::default()
        };
        assert!(bytes(heavy) > bytes(Extra::default()) + 10_000 + 1_000 * size_of::<Keypoint>());
    }
}
