//! Refusals of requests, except for their contents.

use std::collections::BTreeSet;

use serde_json::Value;

use super::contents::with_roles;
use super::models::signs;
use super::refusal::{bad, check_members, not_found};
use super::{contents, sign, turns};
use crate::http::Request;
use crate::json::{list, text};
use crate::provider::{Form, Refusal};

const MAX_REQUEST: usize = 20 << 20;
const MAX_NAME: usize = 128;

/// The call that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call<'p> {
    pub(super) model: &'p str,
    pub(super) is_streamed: bool,
    /// Whether a stream is sent as events; otherwise it is one JSON list.
    pub(super) is_events: bool,
}

impl<'p> Call<'p> {
    /// Parses `POST /v1beta/models/MODEL:METHOD`.
    pub(super) fn of(request: &'p Request) -> Option<Self> {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let (model, method) = path.strip_prefix("/v1beta/models/")?.rsplit_once(':')?;
        let is_streamed = match method {
            "generateContent" => false,
            "streamGenerateContent" => true,
            _ => return None,
        };
        let is_events = query.split('&').any(|part| part == "alt=sse");
        (request.method == "POST" && !model.is_empty()).then_some(Self {
            model,
            is_streamed,
            is_events,
        })
    }

    /// Transfer format of the answer.
    pub(super) fn form(&self) -> Form {
        if self.is_streamed && self.is_events {
            Form::Events
        } else {
            Form::Whole
        }
    }
}

/// Checks a request and refuses the first error.
pub(super) fn check(request: &Request, key: Option<&str>) -> Result<(), Refusal> {
    let call = Call::of(request).ok_or_else(|| not_found(request))?;
    headers(request, key)?;
    if request.body.len() > MAX_REQUEST {
        let message = format!("Request payload size exceeds the limit: {MAX_REQUEST} bytes.");
        return Err(bad(message));
    }
    let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
        return Err(bad("Invalid JSON payload received. Unexpected token."));
    };
    let body = with_roles(body);
    known(&body)?;
    tools(&body)?;
    generation(call.model, &body)?;
    let all = list(&body, "contents");
    contents::check(call.model, all)?;
    turns::check(all)?;
    sign::check(call.model, all)
}

fn headers(request: &Request, accepted: Option<&str>) -> Result<(), Refusal> {
    let is_json = request
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/json"));
    if !is_json {
        return Err(bad(
            "Invalid JSON payload received: Content-Type has to be application/json.",
        ));
    }
    match (accepted, request.header("x-goog-api-key")) {
        (None, Some(_)) => Ok(()),
        (_, None) => {
            let message = "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.";
            Err(Refusal::new(403, "PERMISSION_DENIED", message))
        }
        (Some(accepted), Some(given)) if given != accepted => {
            let message = "API key not valid. Please pass a valid API key.";
            Err(bad(message).code("API_KEY_INVALID").without_violation())
        }
        (Some(_), Some(_)) => Ok(()),
    }
}

fn known(body: &Value) -> Result<(), Refusal> {
    let names = [
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "safetySettings",
        "generationConfig",
        "cachedContent",
        "labels",
    ];
    check_members(body, "", &names)?;
    if let Some(system) = body.get("systemInstruction") {
        check_members(system, "system_instruction", &["parts", "role"])?;
        let parts = list(system, "parts");
        if parts.is_empty()
            || parts
                .iter()
                .any(|part| !part.get("text").is_some_and(Value::is_string))
        {
            return Err(bad("Developer instruction should only contain text."));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
    begins && name.len() <= MAX_NAME && name.bytes().all(legal)
}

fn tools(body: &Value) -> Result<(), Refusal> {
    let mut names = BTreeSet::new();
    for (n, tool) in list(body, "tools").iter().enumerate() {
        check_members(tool, &format!("tools[{n}]"), &["functionDeclarations"])?;
        for (i, function) in list(tool, "functionDeclarations").iter().enumerate() {
            check_function(function, &format!("tools[{n}].function_declarations[{i}]"))?;
            let name = text(function, "name");
            if !names.insert(name) {
                return Err(bad(format!("Duplicate function declaration found: {name}")));
            }
        }
    }
    check_calling_config(body, names.is_empty())
}

fn check_function(function: &Value, at: &str) -> Result<(), Refusal> {
    let members = [
        "name",
        "description",
        "behavior",
        "parameters",
        "parametersJsonSchema",
        "response",
        "responseJsonSchema",
    ];
    check_members(function, at, &members)?;
    if !is_name(text(function, "name")) {
        return Err(bad(format!(
            "* GenerateContentRequest.{at}.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of {MAX_NAME}."
        )));
    }
    let Some(schema) = function.get("parametersJsonSchema") else {
        return Ok(());
    };
    if function.get("parameters").is_some() {
        return Err(bad(format!(
            "* GenerateContentRequest.{at}: parameters and parameters_json_schema are mutually exclusive."
        )));
    }
    if text(schema, "type") != "object" {
        return Err(bad(format!(
            "* GenerateContentRequest.{at}.parameters_json_schema: schema at top-level must be an object."
        )));
    }
    Ok(())
}

fn check_calling_config(body: &Value, has_no_functions: bool) -> Result<(), Refusal> {
    let Some(config) = body.pointer("/toolConfig/functionCallingConfig") else {
        return Ok(());
    };
    if has_no_functions {
        return Err(bad(
            "Function calling config is set without function_declarations.",
        ));
    }
    let mode = text(config, "mode");
    if !["AUTO", "ANY", "NONE", "VALIDATED", ""].contains(&mode) {
        return Err(bad(format!(
            "Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), \"{mode}\""
        )));
    }
    let allowed = list(config, "allowedFunctionNames");
    if !allowed.is_empty() && !["ANY", "VALIDATED"].contains(&mode) {
        return Err(bad(
            "allowed_function_names should only be set when function calling mode is ANY or VALIDATED.",
        ));
    }
    Ok(())
}

fn generation(model: &str, body: &Value) -> Result<(), Refusal> {
    let Some(config) = body.get("generationConfig") else {
        return Ok(());
    };
    let names = [
        "candidateCount",
        "maxOutputTokens",
        "mediaResolution",
        "responseJsonSchema",
        "responseMimeType",
        "responseModalities",
        "responseSchema",
        "seed",
        "stopSequences",
        "temperature",
        "thinkingConfig",
        "topK",
        "topP",
    ];
    check_members(config, "generation_config", &names)?;
    if config
        .get("maxOutputTokens")
        .is_some_and(|n| n.as_u64().is_none_or(|n| n == 0))
    {
        return Err(bad(
            "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be positive.",
        ));
    }
    let mime = text(config, "responseMimeType");
    let wants_schema = ["responseJsonSchema", "responseSchema"]
        .iter()
        .any(|name| config.get(*name).is_some());
    if wants_schema && mime != "application/json" {
        return Err(bad(
            "* GenerateContentRequest.generation_config.response_schema: only allowed for response_mime_type application/json.",
        ));
    }
    if !["", "text/plain", "application/json", "text/x.enum"].contains(&mime) {
        return Err(bad(format!(
            "* GenerateContentRequest.generation_config.response_mime_type: allowed mimetypes are `text/plain`, `application/json` and `text/x.enum`, not {mime:?}."
        )));
    }
    if mime == "application/json" && !list(body, "tools").is_empty() && !signs(model) {
        return Err(bad(
            "Function calling with a response mime type: 'application/json' is unsupported",
        ));
    }
    thinking(model, config)
}

fn thinking(model: &str, config: &Value) -> Result<(), Refusal> {
    let Some(thinking) = config.get("thinkingConfig") else {
        return Ok(());
    };
    let names = ["includeThoughts", "thinkingBudget", "thinkingLevel"];
    check_members(thinking, "generation_config.thinking_config", &names)?;
    let Some(level) = thinking.get("thinkingLevel") else {
        return Ok(());
    };
    if thinking.get("thinkingBudget").is_some() {
        return Err(bad(
            "You can only set only one of thinking budget and thinking level.",
        ));
    }
    if !signs(model) {
        return Err(bad("Thinking level is not supported for this model."));
    }
    let level = level.as_str().unwrap_or_default();
    if ["minimal", "low", "medium", "high"].contains(&level.to_ascii_lowercase().as_str()) {
        Ok(())
    } else {
        Err(bad(format!(
            "Invalid value at 'generation_config.thinking_config.thinking_level' (type.googleapis.com/google.ai.generativelanguage.v1beta.ThinkingConfig.ThinkingLevel), \"{level}\""
        )))
    }
}
