//! The body of a request in its long form.

use serde_json::{Value, json};

use crate::json::text;

/// Turns texts into lists of one block, in messages and in tool results.
pub(super) fn with_blocks(mut body: Value) -> Value {
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        wrap_text(message);
        let blocks = message.get_mut("content").and_then(Value::as_array_mut);
        let results = blocks
            .into_iter()
            .flatten()
            .filter(|block| text(block, "type") == "tool_result");
        results.for_each(wrap_text);
    }
    body
}

fn wrap_text(of: &mut Value) {
    if let Some(content) = of.get_mut("content")
        && let Value::String(said) = content
    {
        *content = match said.as_str() {
            "" => json!([]),
            said => json!([{"type": "text", "text": said}]),
        };
    }
}
