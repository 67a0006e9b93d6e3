//! Refusals of requests, except for the items of their input.

use std::collections::BTreeMap;

use serde_json::Value;

use super::refusal::{invalid, missing};
use super::{items, schema, seal};
use crate::http::Request;
use crate::json::{list, text, unknown_member};
use crate::provider::Refusal;

const MIN_OUTPUT_TOKENS: u64 = 16;
const MAX_TOOLS: usize = 128;
const MAX_NAME: usize = 64;

/// Allowed members of a request.
const KNOWN: [&str; 26] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "max_tool_calls",
    "reasoning",
    "text",
    "store",
    "include",
    "stream",
    "stream_options",
    "metadata",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "truncation",
    "temperature",
    "top_p",
    "top_logprobs",
    "background",
    "user",
];

/// Checks a request and refuses the first error.
///
/// `thoughts` maps items that the server made to the thought before them.
pub(super) fn check(
    request: &Request,
    key: Option<&str>,
    thoughts: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    if (request.method.as_str(), request.path.as_str()) != ("POST", "/v1/responses") {
        let message = format!("Invalid URL ({} {})", request.method, request.path);
        return Err(Refusal::new(404, "invalid_request_error", message));
    }
    headers(request, key)?;
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return Err(Refusal::bad(
            "We could not parse the JSON body of your request.",
        ));
    };
    parameters(&body)?;
    reasoning(&body)?;
    tools(&body)?;
    format(&body)?;
    items::check(&body, thoughts)?;
    seal::check(&body)
}

/// Returns the API key of a request.
pub(super) fn key(request: &Request) -> Option<&str> {
    request.header("authorization")?.strip_prefix("Bearer ")
}

fn headers(request: &Request, accepted: Option<&str>) -> Result<(), Refusal> {
    if request.header("content-type") != Some("application/json") {
        let message = "Unsupported content type: you must provide 'application/json'.";
        return Err(Refusal::new(415, "invalid_request_error", message));
    }
    match (accepted, key(request)) {
        (None, Some(_)) => Ok(()),
        (_, None) => {
            let message = "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).";
            Err(Refusal::new(401, "invalid_request_error", message))
        }
        (Some(accepted), Some(given)) if given != accepted => {
            // A careless server repeats the key in its message.
            let message = format!("Incorrect API key provided: {given}.");
            let refused = Refusal::new(401, "invalid_request_error", message);
            Err(refused.code("invalid_api_key").without_violation())
        }
        (Some(_), Some(_)) => Ok(()),
    }
}

fn parameters(body: &Value) -> Result<(), Refusal> {
    if let Some(name) = unknown_member(body, &KNOWN) {
        let message = format!("Unknown parameter: '{name}'.");
        return Err(Refusal::bad(message).code("unknown_parameter").about(name));
    }
    if text(body, "model").is_empty() {
        return Err(missing("model"));
    }
    for name in ["temperature", "top_p", "top_logprobs"] {
        if body.get(name).is_some() {
            let message =
                format!("Unsupported parameter: '{name}' is not supported with this model.");
            return Err(Refusal::bad(message).about(name));
        }
    }
    if let Some(earlier) = body.get("previous_response_id").and_then(Value::as_str) {
        let message = format!("Previous response with id '{earlier}' not found.");
        let refused = Refusal::bad(message).code("previous_response_not_found");
        return Err(refused.about("previous_response_id"));
    }
    let room = body.get("max_output_tokens").and_then(Value::as_u64);
    if let Some(room) = room.filter(|room| *room < MIN_OUTPUT_TOKENS) {
        let message = format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {MIN_OUTPUT_TOKENS}, but got {room} instead."
        );
        let refused = Refusal::bad(message).code("integer_below_min_value");
        return Err(refused.about("max_output_tokens"));
    }
    Ok(())
}

fn reasoning(body: &Value) -> Result<(), Refusal> {
    let Some(reasoning) = body.get("reasoning") else {
        return Ok(());
    };
    let words: [(&str, &[&str]); 2] = [
        (
            "effort",
            &["none", "minimal", "low", "medium", "high", "xhigh"],
        ),
        ("summary", &["auto", "concise", "detailed"]),
    ];
    for (name, allowed) in words {
        if let Some(word) = reasoning.get(name).and_then(Value::as_str)
            && !allowed.contains(&word)
        {
            return Err(invalid(&format!("reasoning.{name}"), word, allowed));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(legal)
}

fn pattern(param: &str) -> Refusal {
    let message = format!(
        "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    );
    Refusal::bad(message).code("invalid_value").about(param)
}

fn tools(body: &Value) -> Result<(), Refusal> {
    let tools = list(body, "tools");
    if tools.len() > MAX_TOOLS {
        let found = tools.len();
        let message = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {MAX_TOOLS}, but got an array with length {found} instead."
        );
        let refused = Refusal::bad(message).code("array_above_max_length");
        return Err(refused.about("tools"));
    }
    for (at, tool) in tools.iter().enumerate() {
        if text(tool, "type") != "function" {
            let param = format!("tools[{at}].type");
            return Err(invalid(&param, text(tool, "type"), &["function"]));
        }
        let name = text(tool, "name");
        if tool.get("name").is_none() {
            return Err(missing(&format!("tools[{at}].name")));
        }
        if !is_name(name) {
            return Err(pattern(&format!("tools[{at}].name")));
        }
        let param = format!("tools[{at}].parameters");
        let parameters = tool.get("parameters").unwrap_or(&Value::Null);
        // A function is strict by default.
        let is_strict = tool.get("strict") != Some(&Value::Bool(false));
        schema::check(parameters, is_strict).map_err(|why| {
            let message = format!("Invalid schema for function '{name}': {why}");
            let refused = Refusal::bad(message).code("invalid_function_parameters");
            refused.about(param)
        })?;
    }
    choice(body, tools)
}

fn choice(body: &Value, tools: &[Value]) -> Result<(), Refusal> {
    let about = |message: &str| Refusal::bad(message).about("tool_choice");
    match body.get("tool_choice") {
        None => Ok(()),
        Some(Value::String(word)) => match word.as_str() {
            "auto" | "none" => Ok(()),
            "required" if tools.is_empty() => Err(about(
                "Tool choice 'required' must be specified with 'tools' parameter.",
            )),
            "required" => Ok(()),
            word => Err(invalid("tool_choice", word, &["none", "auto", "required"])),
        },
        Some(named) => {
            let name = text(named, "name");
            if tools.iter().any(|tool| text(tool, "name") == name) {
                Ok(())
            } else {
                Err(about(
                    "Tool choice 'function' not found in 'tools' parameter.",
                ))
            }
        }
    }
}

fn format(body: &Value) -> Result<(), Refusal> {
    let Some(format) = body.pointer("/text/format") else {
        return Ok(());
    };
    match text(format, "type") {
        "text" | "json_object" => Ok(()),
        "json_schema" => {
            if format.get("name").is_none() {
                return Err(missing("text.format.name"));
            }
            let name = text(format, "name");
            if !is_name(name) {
                return Err(pattern("text.format.name"));
            }
            let schema = format.get("schema").unwrap_or(&Value::Null);
            let is_strict = crate::json::is_true(format, "strict");
            schema::check(schema, is_strict).map_err(|why| {
                let message = format!("Invalid schema for response_format '{name}': {why}");
                let refused = Refusal::bad(message).code("invalid_json_schema");
                refused.about("text.format.schema")
            })
        }
        other => Err(invalid(
            "text.format.type",
            other,
            &["json_object", "json_schema", "text"],
        )),
    }
}
