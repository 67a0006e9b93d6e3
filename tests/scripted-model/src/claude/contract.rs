//! Refusals of requests, except for single blocks.

use serde_json::Value;

use super::body::with_blocks;
use super::dialect::Dialect;
use super::models::is_newest;
use super::refusal::Refusal;
use super::{blocks, images, local, models, schema, sign};
use crate::http::Request;
use crate::json::{count, list, text};

const MAX_REQUEST: usize = 32 << 20;
const MAX_BREAKPOINTS: usize = 4;

/// Checks a request and refuses the first error.
///
/// `more` are models that are served besides the provider's own.
pub(super) fn check(
    dialect: Dialect,
    request: &Request,
    key: Option<&str>,
    more: &[String],
) -> Result<(), Refusal> {
    if (request.method.as_str(), request.path.as_str()) != ("POST", "/v1/messages") {
        let message = format!("{} {}", request.method, request.path);
        return Err(Refusal::new(404, "not_found_error", message));
    }
    if dialect == Dialect::Ollama {
        return local::check(request);
    }
    headers(request, key)?;
    if request.body.len() > MAX_REQUEST {
        return Err(Refusal::new(
            413,
            "request_too_large",
            "Request exceeds the maximum size",
        ));
    }
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return Err(Refusal::bad("The request body is not valid JSON"));
    };
    let body = with_blocks(body);
    parameters(&body)?;
    models::check(text(&body, "model"), more)?;
    schema::check(&body)?;
    blocks::messages(list(&body, "messages"))?;
    images::check(&body)?;
    let breakpoints = count(&body, "cache_control");
    if breakpoints > MAX_BREAKPOINTS {
        let message = "A maximum of 4 blocks with cache_control may be provided. Found";
        return Err(Refusal::bad(format!("{message} {breakpoints}.")));
    }
    sign::check(&body)
}

fn headers(request: &Request, key: Option<&str>) -> Result<(), Refusal> {
    if request.header("anthropic-version") != Some("2023-06-01") {
        return Err(Refusal::bad("anthropic-version: header is required"));
    }
    if request.header("content-type") != Some("application/json") {
        return Err(Refusal::bad("content-type: must be application/json"));
    }
    let given = request.header("x-api-key");
    if given.is_some() && request.header("authorization").is_some() {
        return Err(Refusal::new(401, "authentication_error", "two credentials"));
    }
    // A client with an OAuth token has no key.
    if given.is_none() && (key.is_some() || request.header("authorization").is_none()) {
        let message = "x-api-key header is required";
        return Err(Refusal::new(401, "authentication_error", message));
    }
    if key.is_some() && given != key {
        // A careless server repeats the key in its message.
        let message = format!("invalid x-api-key: {}", given.unwrap_or_default());
        return Err(Refusal::new(401, "authentication_error", message).without_violation());
    }
    Ok(())
}

fn parameters(body: &Value) -> Result<(), Refusal> {
    let model = text(body, "model");
    if model.is_empty() {
        return Err(Refusal::bad("model: Field required"));
    }
    let room = body.get("max_tokens").and_then(Value::as_u64);
    if room.is_none_or(|room| room == 0) {
        return Err(Refusal::bad("max_tokens: Field required"));
    }
    for name in ["temperature", "top_p", "top_k"] {
        if body.get(name).is_some() {
            return Err(Refusal::bad(format!(
                "`{name}` is not supported for this model."
            )));
        }
    }
    let choice = text(body.get("tool_choice").unwrap_or(&Value::Null), "type");
    if matches!(choice, "any" | "tool") && is_newest(model) {
        let message = "tool_choice: type \"tool\" and \"any\" are not supported for this model.";
        return Err(Refusal::bad(message));
    }
    if !choice.is_empty() && list(body, "tools").is_empty() {
        return Err(Refusal::bad(
            "tool_choice: may only be specified while providing `tools`.",
        ));
    }
    thinking(body, model, choice)
}

fn thinking(body: &Value, model: &str, choice: &str) -> Result<(), Refusal> {
    let Some(thinking) = body.get("thinking") else {
        return Ok(());
    };
    let is_old = model.contains("-4-5");
    match text(thinking, "type") {
        "adaptive" if is_old => Err(Refusal::bad(
            "thinking.type: adaptive is not supported for this model",
        )),
        "adaptive" => Ok(()),
        "enabled" if !is_old => Err(Refusal::bad(
            "thinking.type: enabled is not supported for this model",
        )),
        "enabled" => {
            let budget = thinking
                .get("budget_tokens")
                .and_then(Value::as_u64)
                .unwrap_or(0);
            let most = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(0);
            if budget < 1_024 || budget >= most {
                return Err(Refusal::bad(
                    "thinking.budget_tokens: must be at least 1024 and less than max_tokens",
                ));
            }
            if matches!(choice, "any" | "tool") {
                return Err(Refusal::bad(
                    "Thinking may not be enabled when tool_choice forces tool use.",
                ));
            }
            Ok(())
        }
        "disabled" if is_newest(model) => Err(Refusal::bad(
            "thinking.type: disabled is not supported for this model",
        )),
        "disabled" => Ok(()),
        other => Err(Refusal::bad(format!("thinking.type: unknown {other:?}"))),
    }
}
