//! The encrypted content of thoughts.
//!
//! It covers the thought and everything before it: instructions, tools and input items. A thought
//! that was changed or moved cannot be verified.

use serde_json::Value;

use crate::json::{list, text};
use crate::prefix;
use crate::provider::Refusal;

/// Prefix of every encrypted content.
const PREFIX: &str = "gAAAAAB";

/// Encrypts a thought by its summary, behind the first `items` items of the input.
pub(super) fn content(asked: &Value, items: usize, summary: &Value) -> String {
    let fixed = ["instructions", "tools"].map(|name| asked.get(name).unwrap_or(&Value::Null));
    let input = list(asked, "input").iter().take(items);
    let row = fixed.into_iter().chain(input).chain([summary]);
    let row: Vec<String> = row.map(Value::to_string).collect();
    format!("{PREFIX}{}", prefix::seal(row.iter().map(String::as_str)))
}

/// Refuses thoughts that were changed or moved.
pub(super) fn check(asked: &Value) -> Result<(), Refusal> {
    let items = list(asked, "input").iter().enumerate();
    for (at, item) in items.filter(|(_, item)| text(item, "type") == "reasoning") {
        let id = text(item, "id");
        let Some(given) = item.get("encrypted_content").and_then(Value::as_str) else {
            let message = format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
            );
            return Err(Refusal::bad(message).about("input"));
        };
        if given != content(asked, at, item.get("summary").unwrap_or(&Value::Null)) {
            let message = format!(
                "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be decrypted or parsed."
            );
            return Err(Refusal::bad(message).code("invalid_encrypted_content"));
        }
    }
    Ok(())
}
