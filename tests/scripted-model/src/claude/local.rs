//! The Messages API as Ollama serves it.
//!
//! - Ollama ignores tool choices, cache breakpoints, strict tools and answer schemas. Here they are
//!   refused, because a request that has them relies on them.
//! - The order of blocks is checked as for Claude. Ollama is laxer, but the templates of its models
//!   are not.

use serde_json::{Value, json};

use super::body::with_blocks;
use super::refusal::Refusal;
use super::{blocks, images};
use crate::http::Request;
use crate::json::{count, is_true, list, text};
use crate::script::{Fault, Step};

/// Checks a request and refuses the first error.
pub(super) fn check(request: &Request) -> Result<(), Refusal> {
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return Err(Refusal::bad("invalid request body"));
    };
    let body = with_blocks(body);
    if text(&body, "model").is_empty() {
        return Err(Refusal::bad("model is required"));
    }
    let room = body.get("max_tokens").and_then(Value::as_i64);
    if room.is_none_or(|room| room <= 0) {
        return Err(Refusal::bad("max_tokens is required and must be positive"));
    }
    if list(&body, "messages").is_empty() {
        return Err(Refusal::bad("messages is required"));
    }
    unsupported(&body)?;
    blocks::messages(list(&body, "messages"))?;
    images::check(&body)
}

fn unsupported(body: &Value) -> Result<(), Refusal> {
    let is_strict = list(body, "tools")
        .iter()
        .any(|tool| is_true(tool, "strict"));
    let asked = [
        ("tool_choice", body.get("tool_choice").is_some()),
        ("cache_control", count(body, "cache_control") > 0),
        ("strict", is_strict),
        (
            "output_config.format",
            body.pointer("/output_config/format").is_some(),
        ),
        (
            "thinking.budget_tokens",
            body.pointer("/thinking/budget_tokens").is_some(),
        ),
    ];
    match asked.iter().find(|(_, is_asked)| *is_asked) {
        Some((name, _)) => Err(Refusal::bad(format!(
            "{name} is not supported by this server"
        ))),
        None => Ok(()),
    }
}

/// Counts the bytes of a request's text.
pub(super) fn text_bytes(value: &Value) -> usize {
    match value {
        Value::Object(members) if text(value, "type") != "image" => {
            members.values().map(text_bytes).sum()
        }
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::String(text) => text.len(),
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Adapts a step: a model refuses in plain words, and a call that was cut off is left out.
pub(super) fn step(step: &Step) -> Step {
    let mut step = step.clone();
    step.reply.thinking = step.reply.thinking.filter(|said| !said.is_empty());
    match &step.fault {
        Some(Fault::Refusal { category }) => {
            step.reply.text = Some(format!("I can't help with that ({category})."));
            step.reply.calls.clear();
            step.fault = None;
        }
        Some(Fault::TruncatedCall) => {
            step.reply.calls.clear();
            step.reply.stop = Some("max_tokens".to_owned());
            step.fault = None;
        }
        _ => {}
    }
    step
}

/// Removes the members of an answer that Ollama does not send.
pub(super) fn simplify(message: &mut Value) {
    let usage = ["input_tokens", "output_tokens"].map(|name| {
        (
            name.to_owned(),
            json!(message.pointer(&format!("/usage/{name}"))),
        )
    });
    if let Some(members) = message.as_object_mut() {
        for name in ["stop_sequence", "stop_details", "container"] {
            members.remove(name);
        }
        members.insert("usage".to_owned(), usage.into_iter().collect());
        // Go writes a nil slice as `null`.
        if members
            .get("content")
            .is_some_and(|content| content == &json!([]))
        {
            members.insert("content".to_owned(), Value::Null);
        }
    }
    let blocks = message.get_mut("content").and_then(Value::as_array_mut);
    for block in blocks
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        block.remove("signature");
        block.remove("caller");
    }
}
