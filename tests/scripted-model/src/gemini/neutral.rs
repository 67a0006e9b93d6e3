//! Translates a request into provider-neutral form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::exchange::{Message, NeutralRequest, Part, Picture, Tool};
use crate::json::{is_true, list, text};

/// Translates a valid request to `model`.
pub(super) fn asked(model: &str, body: &Value) -> NeutralRequest {
    let functions = list(body, "tools")
        .iter()
        .flat_map(|tool| list(tool, "functionDeclarations"));
    let tools = functions.map(|function| Tool {
        name: text(function, "name").to_owned(),
        description: text(function, "description").to_owned(),
        parameters: ["parametersJsonSchema", "parameters"]
            .iter()
            .find_map(|name| function.get(*name).cloned())
            .unwrap_or_default(),
    });
    let system = body
        .get("systemInstruction")
        .map_or(&[][..], |s| list(s, "parts"));
    let system: Vec<&str> = system.iter().map(|part| text(part, "text")).collect();
    let contents = list(body, "contents");
    NeutralRequest {
        protocol: "gemini",
        model: model.to_owned(),
        max_output_tokens: body
            .pointer("/generationConfig/maxOutputTokens")
            .and_then(Value::as_u64),
        system: system.join("\n\n"),
        tools: tools.collect(),
        tool_choice: body.pointer("/toolConfig/functionCallingConfig").cloned(),
        answer_schema: body
            .pointer("/generationConfig/responseJsonSchema")
            .cloned(),
        messages: contents
            .iter()
            .enumerate()
            .map(|(at, content)| Message {
                role: role(content),
                parts: parts(at, content),
            })
            .collect(),
    }
}

fn role(content: &Value) -> &'static str {
    if text(content, "role") == "model" {
        "assistant"
    } else {
        "user"
    }
}

/// Translates the parts of content `at`. A call without an id gets its position: `CONTENT.CALL`.
fn parts(at: usize, content: &Value) -> Vec<Part> {
    let (mut calls, mut results) = (0, 0);
    let id = |data: &Value, turn: usize, n: usize| match text(data, "id") {
        "" => format!("{turn}.{n}"),
        id => id.to_owned(),
    };
    let before = at.checked_sub(1);
    let parts = list(content, "parts").iter().filter_map(|part| {
        if let Some(call) = part.get("functionCall") {
            calls += 1;
            return Some(Part::Call {
                id: id(call, at, calls),
                name: text(call, "name").to_owned(),
                arguments: call.get("args").cloned().unwrap_or_default(),
            });
        }
        if let Some(response) = part.get("functionResponse") {
            results += 1;
            let outcome = response.get("response").unwrap_or(&Value::Null);
            let is_error = outcome.get("error").is_some();
            let said = ["error", "output"]
                .iter()
                .find_map(|name| outcome.get(*name));
            let said = said.unwrap_or(outcome);
            let said = said
                .as_str()
                .map_or_else(|| said.to_string(), str::to_owned);
            let mut parts: Vec<Part> = list(response, "parts").iter().filter_map(plain).collect();
            parts.push(Part::Text(said));
            return Some(Part::Result {
                id: id(response, before.unwrap_or(0), results),
                is_error,
                parts,
            });
        }
        plain(part)
    });
    parts.collect()
}

fn plain(part: &Value) -> Option<Part> {
    if let Some(blob) = part.get("inlineData") {
        let bytes = STANDARD.decode(text(blob, "data")).ok()?;
        return Some(Part::Image(Picture::new(text(blob, "mimeType"), bytes)));
    }
    let said = text(part, "text").to_owned();
    match said.as_str() {
        "" => None,
        _ if is_true(part, "thought") => Some(Part::Thinking(said)),
        _ => Some(Part::Text(said)),
    }
}
