//! Signatures of thoughts.
//!
//! - A signature covers the thought and everything before it: system, tools, earlier messages, and
//!   earlier blocks of its turn. So an edited history is refused, as by the provider.
//! - Cache breakpoints are not covered.

use serde_json::Value;

use super::refusal::Refusal;
use crate::json::{list, text};
use crate::prefix::seal;

/// Signs `thought`, after the blocks `before` of a turn that follows the first `messages` messages.
pub(super) fn signature(asked: &Value, messages: usize, before: &[Value], thought: &str) -> String {
    let fixed = ["system", "tools"].map(|name| asked.get(name).unwrap_or(&Value::Null));
    let messages = list(asked, "messages").iter().take(messages);
    let row = fixed.into_iter().chain(messages).chain(before);
    let row: Vec<String> = row
        .map(|part| without_breakpoints(part).to_string())
        .collect();
    seal(row.iter().map(String::as_str).chain([thought]))
}

/// Refuses thoughts that were changed or moved.
pub(super) fn check(asked: &Value) -> Result<(), Refusal> {
    for (at, message) in list(asked, "messages").iter().enumerate() {
        if text(message, "role") != "assistant" {
            continue;
        }
        let content = list(message, "content");
        for (n, block) in content.iter().enumerate() {
            let before = content.get(..n).unwrap_or_default();
            if text(block, "type") == "thinking"
                && text(block, "signature") != signature(asked, at, before, text(block, "thinking"))
            {
                let message = format!(
                    "messages.{at}.content.{n}: Invalid `signature` in `thinking` block. The block is bound to a different conversation"
                );
                return Err(Refusal::bad(message));
            }
        }
    }
    Ok(())
}

/// Copies a value without cache breakpoints.
pub(super) fn without_breakpoints(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != "cache_control")
            .map(|(name, value)| (name.clone(), without_breakpoints(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_breakpoints).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
