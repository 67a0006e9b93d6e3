//! Conversions of single values: numbers, properties of classifications, images and frames, times.

use std::sync::Arc;

use super::grammar::{ClassificationProperty, FrameProperty, ImageProperty, NumberType};
use super::python::{expected, shared, to_int};
use crate::workflow::values::codec;
use crate::workflow::values::value::{Value, moment};

pub(super) fn text(v: &Value) -> Result<&str, String> {
    v.as_str().ok_or_else(|| expected("a string", v))
}

/// A number that stays an integer as long as possible.
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub(super) fn as_f64(&self) -> f64 {
        match self {
            Self::Int(i) => *i as f64,
            Self::Float(f) => *f,
        }
    }

    pub(super) fn multiply(&self, other: f64) -> Value {
        if let (Self::Int(i), Some(o)) = (self, Value::Float(other).as_i64())
            && let Some(product) = i.checked_mul(o)
        {
            return Value::Int(product);
        }
        Value::Float(self.as_f64() * other)
    }
}

pub(super) fn number(v: &Value) -> Result<Number, String> {
    match v {
        Value::Int(i) => Ok(Number::Int(*i)),
        Value::Bool(b) => Ok(Number::Int(i64::from(*b))),
        v => v
            .as_f64()
            .map(Number::Float)
            .ok_or_else(|| expected("a number", v)),
    }
}

pub(super) fn to_number(v: &Value, cast: NumberType) -> Result<Value, String> {
    let refuse = || format!("{} can't be read as a number", v.what());
    match cast {
        NumberType::Int => match v {
            Value::Text(t) => match (t.trim().parse(), t.trim().parse()) {
                (Ok(whole), _) => Ok(Value::Int(whole)),
                (Err(_), Ok(other)) => to_number(&Value::Float(other), cast),
                (Err(_), Err(_)) => Err(refuse()),
            },
            v => v
                .as_f64()
                .filter(|f| f.is_finite())
                .map(|f| Value::Int(f.trunc() as i64))
                .ok_or_else(refuse),
        },
        NumberType::Float => match v {
            Value::Text(t) => t.trim().parse().map(Value::Float).map_err(|_| refuse()),
            v => v.as_f64().map(Value::Float).ok_or_else(refuse),
        },
    }
}

pub(super) fn round(v: &Value, digits: i32) -> Result<Value, String> {
    if let Value::Int(i) = v
        && digits >= 0
    {
        return Ok(Value::Int(*i));
    }
    let scale = 10_f64.powi(digits.clamp(-300, 300));
    let n = number(v)?.as_f64();
    let scaled = n * scale;
    Ok(Value::Float(if scaled.is_finite() {
        scaled.round_ties_even() / scale
    } else {
        n
    }))
}

/// Position of a Python index in a sequence of `len`.
pub(super) fn place(index: i64, len: usize) -> usize {
    let len = to_int(len);
    let at = if index < 0 {
        index.saturating_add(len)
    } else {
        index
    };
    usize::try_from(at.clamp(0, len)).unwrap_or(0)
}

pub(super) fn classification(v: &Value, property: ClassificationProperty) -> Result<Value, String> {
    use ClassificationProperty as P;
    let Value::Dict(map) = v else {
        return Err(expected("a classification", v));
    };
    // A single-label model returns a list of rows, a multi-label one a dictionary by class.
    let row = |row: &Value, class: Option<&Arc<str>>| {
        let named = class.map(|c| Value::Text(Arc::clone(c)));
        let class = named
            .or_else(|| row.get("class").cloned())
            .unwrap_or_default();
        (class, row.get("confidence").cloned().unwrap_or_default())
    };
    let rows: Vec<(Value, Value)> = match map.get("predictions") {
        Some(Value::List(rows)) => rows.iter().map(|r| row(r, None)).collect(),
        // In the order of the model's classes.
        Some(Value::Dict(rows)) => {
            let mut rows: Vec<_> = rows.iter().collect();
            rows.sort_by_key(|(_, r)| r.get("class_id").and_then(Value::as_i64));
            let rows = rows.into_iter();
            rows.map(|(class, r)| row(r, Some(class))).collect()
        }
        _ => Vec::new(),
    };
    let several = map.get("predicted_classes");
    let score_of = |class: &Value| {
        let found = rows.iter().find(|(c, _)| c.same(class));
        found.map(|(_, score)| score.clone()).unwrap_or_default()
    };
    Ok(match (property, several) {
        (P::TopClass, Some(classes)) => classes.clone(),
        (P::TopClassConfidence, Some(classes)) => Value::list(
            classes
                .as_list()
                .unwrap_or_default()
                .iter()
                .map(score_of)
                .collect(),
        ),
        (P::TopClassConfidenceSingle, Some(classes)) => {
            let scores = classes.as_list().unwrap_or_default().iter().map(score_of);
            let best = scores.filter_map(|s| s.as_f64()).fold(f64::NAN, f64::max);
            Value::Float(if best.is_nan() { 0.0 } else { best })
        }
        (P::TopClass, None) => map.get("top").cloned().unwrap_or_default(),
        (P::TopClassConfidence | P::TopClassConfidenceSingle, None) => {
            map.get("confidence").cloned().unwrap_or_default()
        }
        (P::AllClasses, _) => Value::list(rows.into_iter().map(|(class, _)| class).collect()),
        (P::AllConfidences, _) => Value::list(rows.into_iter().map(|(_, score)| score).collect()),
    })
}

pub(super) fn jpeg(v: &Value, quality: u8) -> Result<Vec<u8>, String> {
    match v {
        Value::Image(image) => codec::jpeg(&image.pixels.rgb(), quality),
        other => Err(expected("an image", other)),
    }
}

pub(super) fn image_property(v: &Value, property: ImageProperty) -> Result<Value, String> {
    let Value::Image(image) = v else {
        return Err(expected("an image", v));
    };
    let [width, height] = image.size().map(i64::from);
    Ok(match property {
        ImageProperty::Size => Value::Int(width * height),
        ImageProperty::Height => Value::Int(height),
        ImageProperty::Width => Value::Int(width),
        ImageProperty::AspectRatio => Value::Float(if height == 0 {
            0.0
        } else {
            width as f64 / height as f64
        }),
    })
}

pub(super) fn frame_property(v: &Value, property: FrameProperty) -> Result<Value, String> {
    let meta = match v {
        Value::Image(image) => &image.meta,
        Value::Meta(meta) => meta,
        other => return Err(expected("an image", other)),
    };
    Ok(match property {
        FrameProperty::FrameNumber => Value::from(meta.frame_number),
        FrameProperty::FrameTimestamp => Value::Float(meta.frame_timestamp),
        FrameProperty::SecondsSinceStart => Value::Float(meta.time_s()),
    })
}

/// Formats seconds since the Unix epoch as UTC in ISO 8601.
pub(super) fn iso(v: &Value) -> Result<Value, String> {
    if let Value::Time(_) = v {
        return Ok(Value::from(v.to_json()));
    }
    let seconds = number(v)?.as_f64();
    moment(seconds)
        .map(|t| shared(&t.to_string()).into())
        .ok_or_else(|| format!("{seconds} is not a time"))
}
