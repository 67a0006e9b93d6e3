//! Translates a request into provider-neutral form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::exchange::{Message, NeutralRequest, Part, Picture, Tool};
use crate::json::{list, text};
use crate::picture;

/// Translates a valid request.
pub(super) fn asked(body: &Value) -> NeutralRequest {
    let tools = list(body, "tools").iter().map(|tool| Tool {
        name: text(tool, "name").to_owned(),
        description: text(tool, "description").to_owned(),
        parameters: tool.get("parameters").cloned().unwrap_or_default(),
    });
    NeutralRequest {
        protocol: "openai",
        model: text(body, "model").to_owned(),
        max_output_tokens: body.get("max_output_tokens").and_then(Value::as_u64),
        system: text(body, "instructions").to_owned(),
        tools: tools.collect(),
        tool_choice: body.get("tool_choice").cloned(),
        answer_schema: body.pointer("/text/format/schema").cloned(),
        messages: messages(body),
    }
}

/// Joins consecutive items of one side into one message.
fn messages(body: &Value) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    if let Some(Value::String(said)) = body.get("input") {
        let parts = vec![Part::Text(said.clone())];
        return vec![Message {
            role: "user",
            parts,
        }];
    }
    for item in list(body, "input") {
        let is_model = match text(item, "type") {
            "function_call" | "reasoning" => true,
            "function_call_output" => false,
            _ => text(item, "role") == "assistant",
        };
        let role = if is_model { "assistant" } else { "user" };
        match messages.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts_of(item)),
            _ => messages.push(Message {
                role,
                parts: parts_of(item),
            }),
        }
    }
    messages
}

fn parts_of(item: &Value) -> Vec<Part> {
    match text(item, "type") {
        "reasoning" => {
            let summary = list(item, "summary").iter().map(|part| text(part, "text"));
            vec![Part::Thinking(summary.collect::<Vec<_>>().join("\n"))]
        }
        "function_call" => vec![Part::Call {
            id: text(item, "call_id").to_owned(),
            name: text(item, "name").to_owned(),
            arguments: serde_json::from_str(text(item, "arguments")).unwrap_or_default(),
        }],
        "function_call_output" => {
            vec![Part::Result {
                id: text(item, "call_id").to_owned(),
                // The protocol has no mark for a failure; its text says it.
                is_error: false,
                parts: said(item, "output"),
            }]
        }
        _ => said(item, "content"),
    }
}

fn said(item: &Value, name: &str) -> Vec<Part> {
    match item.get(name) {
        Some(Value::String(text)) => vec![Part::Text(text.clone())],
        _ => list(item, name).iter().filter_map(part).collect(),
    }
}

fn part(part: &Value) -> Option<Part> {
    Some(match text(part, "type") {
        "input_text" | "output_text" => Part::Text(text(part, "text").to_owned()),
        "refusal" => Part::Text(text(part, "refusal").to_owned()),
        "input_image" => {
            let (media_type, data) = picture::of_data_url(text(part, "image_url"))?;
            Part::Image(Picture::new(media_type, STANDARD.decode(data).ok()?))
        }
        _ => return None,
    })
}
