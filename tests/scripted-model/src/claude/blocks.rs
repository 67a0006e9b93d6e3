//! Checks the order of content blocks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::refusal::Refusal;
use crate::json::{list, text};

/// Checks roles, contents and the order of calls and results.
pub(super) fn messages(messages: &[Value]) -> Result<(), Refusal> {
    let Some(first) = messages.first() else {
        return Err(Refusal::bad("messages: at least one message is required"));
    };
    if text(first, "role") != "user" {
        return Err(Refusal::bad(
            "messages: first message must use the \"user\" role",
        ));
    }
    if messages
        .last()
        .is_some_and(|last| text(last, "role") != "user")
    {
        let message = "This model does not support assistant message prefill. The conversation must end with a user message.";
        return Err(Refusal::bad(message));
    }
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        let content = list(message, "content");
        if content.is_empty() {
            return Err(Refusal::bad(format!(
                "messages.{at}: all messages must have non-empty content"
            )));
        }
        for (n, block) in content.iter().enumerate() {
            known(block)
                .map_err(|why| Refusal::bad(format!("messages.{at}.content.{n}: {why}")))?;
        }
        match text(message, "role") {
            "user" => results(at, content, &mut open)?,
            "assistant" => {
                if !open.is_empty() {
                    return Err(unanswered(at, &open));
                }
                for block in content.iter().filter(|b| text(b, "type") == "tool_use") {
                    if !open.insert(text(block, "id")) {
                        return Err(Refusal::bad(format!(
                            "messages.{at}: `tool_use` ids must be unique"
                        )));
                    }
                }
            }
            role => {
                return Err(Refusal::bad(format!(
                    "messages.{at}: Unexpected role {role:?}"
                )));
            }
        }
    }
    Ok(())
}

fn results<'m>(
    at: usize,
    content: &'m [Value],
    open: &mut BTreeSet<&'m str>,
) -> Result<(), Refusal> {
    let mut other = false;
    for block in content {
        if text(block, "type") != "tool_result" {
            other = true;
            continue;
        }
        let id = text(block, "tool_use_id");
        if other {
            return Err(Refusal::bad(format!(
                "messages.{at}: tool_result blocks must come first in the content"
            )));
        }
        if !open.remove(id) {
            return Err(Refusal::bad(format!(
                "messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}."
            )));
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(unanswered(at, open))
    }
}

fn unanswered(at: usize, open: &BTreeSet<&str>) -> Refusal {
    let ids: Vec<&str> = open.iter().copied().collect();
    let ids = ids.join(", ");
    Refusal::bad(format!(
        "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}.",
        at.saturating_sub(1)
    ))
}

fn known(block: &Value) -> Result<(), String> {
    let has = |name: &str| !text(block, name).is_empty();
    match text(block, "type") {
        "text" if !has("text") => Err("text content blocks must be non-empty".to_owned()),
        "tool_use" if !has("id") || !has("name") => Err("id and name: Field required".to_owned()),
        "tool_use" if !block.get("input").is_some_and(Value::is_object) => {
            Err("tool_use.input: Input should be a valid dictionary".to_owned())
        }
        "tool_result" if !has("tool_use_id") => Err("tool_use_id: Field required".to_owned()),
        "thinking" | "redacted_thinking" if block.get("cache_control").is_some() => {
            Err("thinking blocks can't have cache_control".to_owned())
        }
        "tool_result" => list(block, "content").iter().try_for_each(known),
        "text" | "image" | "tool_use" | "thinking" | "redacted_thinking" | "future_block" => Ok(()),
        other => Err(format!(
            "Input tag {other:?} does not match any of the expected tags"
        )),
    }
}
