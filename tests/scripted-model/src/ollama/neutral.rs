//! Translates a request into provider-neutral form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::exchange::{Message, NeutralRequest, Part, Picture, Tool};
use crate::json::{list, text};

/// Translates a valid request.
pub(super) fn asked(body: &Value) -> NeutralRequest {
    let functions = list(body, "tools")
        .iter()
        .filter_map(|tool| tool.get("function"));
    let tools = functions.map(|function| Tool {
        name: text(function, "name").to_owned(),
        description: text(function, "description").to_owned(),
        parameters: function.get("parameters").cloned().unwrap_or_default(),
    });
    let all = list(body, "messages");
    let system = all
        .iter()
        .filter(|message| text(message, "role") == "system");
    let system: Vec<&str> = system.map(|message| text(message, "content")).collect();
    let said = all
        .iter()
        .filter(|message| text(message, "role") != "system");
    NeutralRequest {
        protocol: "ollama",
        model: text(body, "model").to_owned(),
        max_output_tokens: body.pointer("/options/num_predict").and_then(Value::as_u64),
        system: system.join("\n\n"),
        tools: tools.collect(),
        tool_choice: None,
        answer_schema: body
            .get("format")
            .filter(|format| format.is_object())
            .cloned(),
        messages: said
            .map(|message| Message {
                role: if text(message, "role") == "assistant" {
                    "assistant"
                } else {
                    "user"
                },
                parts: parts(message),
            })
            .collect(),
    }
}

fn parts(message: &Value) -> Vec<Part> {
    let mut parts = Vec::new();
    let thinking = text(message, "thinking");
    if !thinking.is_empty() {
        parts.push(Part::Thinking(thinking.to_owned()));
    }
    for image in list(message, "images").iter().filter_map(Value::as_str) {
        if let Ok(bytes) = STANDARD.decode(image) {
            parts.push(Part::Image(Picture::new(media_type(&bytes), bytes)));
        }
    }
    let content = text(message, "content");
    if !content.is_empty() {
        parts.push(Part::Text(content.to_owned()));
    }
    for call in list(message, "tool_calls") {
        let function = call.get("function").unwrap_or(&Value::Null);
        parts.push(Part::Call {
            id: call_id(text(call, "id"), text(function, "name")),
            name: text(function, "name").to_owned(),
            arguments: function.get("arguments").cloned().unwrap_or_default(),
        });
    }
    if text(message, "role") == "tool" {
        let id = call_id(text(message, "tool_call_id"), text(message, "tool_name"));
        let is_error = false;
        return vec![Part::Result {
            id,
            is_error,
            parts,
        }];
    }
    parts
}

/// Returns the id of a call, or its tool where it has none.
fn call_id(id: &str, tool: &str) -> String {
    if id.is_empty() { tool } else { id }.to_owned()
}

/// Guesses the media type, which the protocol does not carry.
fn media_type(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', ..] => "image/png",
        [0xff, 0xd8, ..] => "image/jpeg",
        _ => "application/octet-stream",
    }
}
