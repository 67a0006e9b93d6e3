//! Refusals of requests.

use serde_json::Value;

use crate::http::Request;
use crate::json::{list, text, unknown_member};
use crate::picture;
use crate::provider::Refusal;

/// Allowed members of a request.
const KNOWN: [&str; 10] = [
    "model",
    "messages",
    "tools",
    "stream",
    "format",
    "options",
    "think",
    "keep_alive",
    "truncate",
    "shift",
];

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "", message)
}

/// Checks a request and refuses the first error.
pub(super) fn check(request: &Request) -> Result<(), Refusal> {
    if (request.method.as_str(), request.path.as_str()) != ("POST", "/api/chat") {
        return Err(Refusal::new(404, "", "404 page not found"));
    }
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return Err(bad("invalid character in the request body"));
    };
    if let Some(name) = unknown_member(&body, &KNOWN) {
        return Err(bad(format!("{name} is not supported by this server")));
    }
    if text(&body, "model").is_empty() {
        return Err(bad("model is required"));
    }
    form(&body)?;
    tools(&body)?;
    messages(list(&body, "messages"))
}

fn form(body: &Value) -> Result<(), Refusal> {
    match body.get("format") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(Value::String(word)) if word == "json" || word.is_empty() => {}
        Some(other) => {
            return Err(bad(format!(
                "invalid format: {other}; expected \"json\" or a valid JSON Schema object"
            )));
        }
    }
    match body.get("think") {
        None | Some(Value::Bool(_)) => Ok(()),
        Some(Value::String(word)) if ["high", "medium", "low", "max"].contains(&word.as_str()) => {
            Ok(())
        }
        Some(other) => Err(bad(format!(
            "invalid think value: {other} (must be \"high\", \"medium\", \"low\", \"max\", true, or false)"
        ))),
    }
}

fn tools(body: &Value) -> Result<(), Refusal> {
    for tool in list(body, "tools") {
        let function = tool.get("function").unwrap_or(&Value::Null);
        let parameters = function.get("parameters").unwrap_or(&Value::Null);
        let is_whole = text(tool, "type") == "function"
            && !text(function, "name").is_empty()
            && text(parameters, "type") == "object";
        if !is_whole {
            return Err(bad(
                "tools: each needs \"type\": \"function\" and a function with a name and parameters of type object",
            ));
        }
    }
    Ok(())
}

fn messages(messages: &[Value]) -> Result<(), Refusal> {
    let mut open: Vec<&Value> = Vec::new();
    for message in messages {
        let role = text(message, "role");
        if !["system", "user", "assistant", "tool"].contains(&role) {
            return Err(bad(format!(
                "invalid role: {role}, must be one of [system user assistant tool]"
            )));
        }
        if message
            .get("content")
            .is_some_and(|content| !content.is_string())
        {
            return Err(bad(
                "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string",
            ));
        }
        for image in list(message, "images") {
            if picture::size(None, image.as_str().unwrap_or_default()).is_err() {
                return Err(bad(
                    "illegal base64 data, or no picture, in ChatRequest.messages.images",
                ));
            }
        }
        if role == "tool" {
            close_call(message, &mut open)?;
        } else if !open.is_empty() {
            return Err(unanswered(&open));
        }
        open.extend(list(message, "tool_calls"));
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(unanswered(&open))
    }
}

/// Removes the call of a result, matched by id or else by tool.
fn close_call(message: &Value, open: &mut Vec<&Value>) -> Result<(), Refusal> {
    let (id, name) = (text(message, "tool_call_id"), text(message, "tool_name"));
    let at = open.iter().position(|call| {
        if id.is_empty() {
            call.pointer("/function/name").and_then(Value::as_str) == Some(name)
        } else {
            text(call, "id") == id
        }
    });
    match at {
        Some(at) => {
            open.remove(at);
            Ok(())
        }
        None => Err(bad(format!(
            "messages: the tool message for {name:?} {id:?} answers no call of the message before"
        ))),
    }
}

fn unanswered(open: &[&Value]) -> Refusal {
    let names = open
        .iter()
        .filter_map(|call| call.pointer("/function/name"));
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    bad(format!(
        "messages: the calls of {} have no tool messages",
        names.join(", ")
    ))
}
