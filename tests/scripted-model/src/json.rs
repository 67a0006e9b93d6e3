//! Reads JSON of unknown shape.

use serde_json::Value;

/// Returns the array member `name`; empty without one.
pub(crate) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the string member `name`; empty without one.
pub(crate) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the member `name` is `true`.
pub(crate) fn is_true(value: &Value, name: &str) -> bool {
    value.get(name) == Some(&Value::Bool(true))
}

/// Counts members of this name at any depth.
pub(crate) fn count(value: &Value, name: &str) -> usize {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| usize::from(key == name) + count(value, name))
            .sum(),
        Value::Array(items) => items.iter().map(|item| count(item, name)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
