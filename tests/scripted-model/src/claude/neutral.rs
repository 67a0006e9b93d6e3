//! Translates a request into provider-neutral form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::exchange::{Message, NeutralRequest, Part, Picture, Tool};
use crate::json::{list, text};

/// Translates a valid request.
pub(super) fn asked(body: &Value) -> NeutralRequest {
    let tools = list(body, "tools").iter().map(|tool| Tool {
        name: text(tool, "name").to_owned(),
        description: text(tool, "description").to_owned(),
        parameters: tool.get("input_schema").cloned().unwrap_or_default(),
    });
    let messages = list(body, "messages").iter().map(|message| Message {
        role: if text(message, "role") == "assistant" {
            "assistant"
        } else {
            "user"
        },
        parts: parts(message),
    });
    NeutralRequest {
        model: text(body, "model").to_owned(),
        max_output_tokens: body.get("max_tokens").and_then(Value::as_u64),
        system: texts(body, "system"),
        tools: tools.collect(),
        tool_choice: body.get("tool_choice").cloned(),
        answer_schema: body.pointer("/output_config/format/schema").cloned(),
        messages: messages.collect(),
    }
}

/// Reads a member that is a text or a list of text blocks.
fn texts(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => text.clone(),
        _ => {
            let blocks = list(value, name).iter().map(|block| text(block, "text"));
            blocks.collect::<Vec<_>>().join("\n\n")
        }
    }
}

fn parts(of: &Value) -> Vec<Part> {
    match of.get("content") {
        Some(Value::String(text)) => vec![Part::Text(text.clone())],
        _ => list(of, "content").iter().filter_map(part).collect(),
    }
}

fn part(block: &Value) -> Option<Part> {
    Some(match text(block, "type") {
        "text" => Part::Text(text(block, "text").to_owned()),
        "thinking" => Part::Thinking(text(block, "thinking").to_owned()),
        "tool_use" => Part::Call {
            id: text(block, "id").to_owned(),
            name: text(block, "name").to_owned(),
            arguments: block.get("input").cloned().unwrap_or_default(),
        },
        "tool_result" => Part::Result {
            id: text(block, "tool_use_id").to_owned(),
            is_error: block.get("is_error") == Some(&Value::Bool(true)),
            parts: parts(block),
        },
        "image" => {
            let source = block.get("source")?;
            let bytes = STANDARD.decode(text(source, "data")).ok()?;
            Part::Image(Picture::new(text(source, "media_type"), bytes))
        }
        _ => return None,
    })
}
