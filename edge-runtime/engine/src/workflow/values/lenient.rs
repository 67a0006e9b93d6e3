//! Numbers read from JSON as leniently as the peer reads them.

use serde_json::Value as Json;

use crate::workflow::values::value::Value;

/// Reads an integer, also from text or from a number with a zero fraction.
pub(crate) fn integer(json: &Json) -> Option<i64> {
    match json {
        Json::Number(n) => n.as_i64().or_else(|| Value::Float(n.as_f64()?).as_i64()),
        Json::String(text) => text.trim().parse().ok(),
        Json::Bool(b) => Some(i64::from(*b)),
        _ => None,
    }
}

/// Reads a number, also from text or a boolean.
pub(crate) fn number(json: &Json) -> Option<f64> {
    match json {
        Json::Number(n) => n.as_f64(),
        Json::String(text) => text.trim().parse().ok(),
        Json::Bool(b) => Some(f64::from(u8::from(*b))),
        _ => None,
    }
}
