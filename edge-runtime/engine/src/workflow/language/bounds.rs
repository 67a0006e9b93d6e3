//! Bounds of the values in a definition.

use serde_json::Value as Json;

/// Maximum number of entries of a list in a property or a parameter, of inputs, and of outputs.
pub const MAX_ITEMS: usize = 10_000;

/// Returns the length of the longest list in a value; 0 without one.
pub(crate) fn longest_list(json: &Json) -> usize {
    match json {
        Json::Array(items) => {
            let inner = items.iter().map(longest_list).max();
            items.len().max(inner.unwrap_or(0))
        }
        Json::Object(map) => map.values().map(longest_list).max().unwrap_or(0),
        _ => 0,
    }
}
