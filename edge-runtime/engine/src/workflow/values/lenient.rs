//! Numbers read from JSON as leniently as the peer reads them.

use serde_json::Value as Json;

use crate::workflow::values::value::Value;

/// A whole number, which may be written as text or as a number with nothing behind its point.
pub(crate) fn integer(json: &Json) -> Option<i64> {
    match json {
        Json::Number(n) => n.as_i64().or_else(|| Value::Float(n.as_f64()?).as_i64()),
        Json::String(text) => text.trim().parse().ok(),
        Json::Bool(b) => Some(i64::from(*b)),
        _ => None,
    }
}

/// A number, which may be written as text or as a boolean.
pub(crate) fn number(json: &Json) -> Option<f64> {
    match json {
        Json::Number(n) => n.as_f64(),
        Json::String(text) => text.trim().parse().ok(),
        Json::Bool(b) => Some(f64::from(u8::from(*b))),
        _ => None,
    }
}
