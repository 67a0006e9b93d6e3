//! Python's notions of truth, length and order.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::workflow::values::value::Value;

pub(super) fn shared(text: &str) -> Arc<str> {
    Arc::from(text)
}

pub(super) fn to_int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Number of elements; of a text, of characters.
pub(super) fn length(v: &Value) -> Result<i64, String> {
    Ok(to_int(match v {
        Value::List(items) => items.len(),
        Value::Dict(map) => map.len(),
        Value::Text(t) => t.chars().count(),
        Value::Detections(all) => all.boxes.len(),
        other => return Err(expected("a sequence", other)),
    }))
}

/// Python's truth of a value.
pub(super) fn truthy(v: &Value) -> bool {
    match v {
        Value::Null => false,
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => v.as_f64() != Some(0.0),
        Value::Text(_) | Value::List(_) | Value::Dict(_) | Value::Detections(_) => {
            length(v) != Ok(0)
        }
        Value::Bytes(bytes) => !bytes.is_empty(),
        Value::Detection(..)
        | Value::Image(_)
        | Value::Meta(_)
        | Value::Array(_)
        | Value::Time(_)
        | Value::Secret(_) => true,
    }
}

/// Orders two numbers, texts or lists; `None` if one is not a number. Fails if values of these
/// types have no order.
pub(super) fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, String> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => Ok(Some(a.cmp(b))),
        (Value::List(a), Value::List(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            match pairs.find(|(a, b)| !a.same(b)) {
                Some((a, b)) => order(a, b),
                None => Ok(Some(a.len().cmp(&b.len()))),
            }
        }
        _ => match (left.as_f64(), right.as_f64()) {
            (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
            (None, _) => Err(format!("a number expected, got {}", left.what())),
            (_, None) => Err(format!("a number expected, got {}", right.what())),
        },
    }
}

/// The error about a value of another type.
pub(super) fn expected(what: &str, got: &Value) -> String {
    format!("{what} expected, got {}", got.what())
}
