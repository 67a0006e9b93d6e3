//! Renders an answer as a whole, or in pieces that each have the form of a whole one.
//!
//! Calls are sent whole, so none is cut or invalid JSON: a call at the output limit is left out,
//! and a malformed call ends the answer with `MALFORMED_FUNCTION_CALL`.

use serde_json::{Value, json};

use super::contract::Call;
use super::models::signs;
use super::sign;
use crate::http::Answer;
use crate::json::{list, text};
use crate::prefix::Prompt;
use crate::script::{Fault, Step};
use crate::stream::{self, half, pieces};

/// Message of an internal error.
pub(super) const FAILED: &str = "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting";
/// Length of a streamed piece in characters.
const PIECE: usize = 9;

/// Why an answer ended, in the provider's words.
struct Finish {
    reason: String,
    message: Option<String>,
}

/// Renders the answer to `asked`; `number` counts the server's answers.
pub(super) fn answer(
    call: &Call<'_>,
    asked: &Value,
    step: &Step,
    prompt: Prompt,
    number: u64,
) -> Answer {
    let parts = parts(call, asked, step, number);
    let (output, thought) = stream::output_tokens(step, &parts);
    let usage = json!({
        "promptTokenCount": prompt.all, "cachedContentTokenCount": prompt.cached,
        "candidatesTokenCount": output - thought, "thoughtsTokenCount": thought, "totalTokenCount": prompt.all + output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt.all}],
    });
    let begun = json!({"promptTokenCount": prompt.all, "cachedContentTokenCount": prompt.cached, "totalTokenCount": prompt.all});
    let frame = |candidate: Option<Value>, usage: &Value| {
        let mut response = json!({"usageMetadata": usage, "modelVersion": call.model, "responseId": format!("rsp{number:04}")});
        if let Some(candidate) = candidate {
            response["candidates"] = json!([candidate]);
        }
        response
    };
    // A refusal without any part is a refusal of the prompt.
    let is_blocked = matches!(step.fault, Some(Fault::Refusal { .. })) && parts.is_empty();
    let finish = finish(step);
    let mut last = if is_blocked {
        let mut response = frame(None, &begun);
        response["promptFeedback"] = json!({"blockReason": finish.reason});
        response
    } else {
        frame(Some(last_candidate(finish)), &usage)
    };
    let body = if call.is_streamed {
        let (ending, parts) = split_ending(parts);
        if !is_blocked && let Some(candidate) = last.pointer_mut("/candidates/0") {
            candidate["content"] = content(vec![ending]);
        }
        let candidate = |part: Value| json!({"content": content(vec![part]), "index": 0});
        let pieces = parts
            .into_iter()
            .map(|part| frame(Some(candidate(part)), &begun));
        streamed(pieces.collect(), last, step, call)
    } else {
        if !parts.is_empty() {
            last["candidates"][0]["content"] = content(parts);
        }
        whole(&last, step)
    };
    Answer {
        status: 200,
        headers: vec![("content-type", call.form().content_type().to_owned())],
        body: body.into_bytes(),
        chunk: stream::chunk(step),
        end: stream::end(step),
        usage,
    }
}

fn last_candidate(finish: Finish) -> Value {
    let mut candidate = json!({"finishReason": finish.reason, "index": 0});
    if let Some(message) = finish.message {
        candidate["finishMessage"] = json!(message);
    }
    candidate
}

/// Splits off the part of the last piece: an empty text, which may carry a signature.
fn split_ending(mut parts: Vec<Value>) -> (Value, Vec<Value>) {
    let ending = parts.pop_if(|part| part.get("text") == Some(&json!("")));
    (ending.unwrap_or_else(|| json!({"text": ""})), parts)
}

fn content(parts: Vec<Value>) -> Value {
    json!({"parts": parts, "role": "model"})
}

/// Returns the parts of an answer, cut into pieces if it is streamed.
fn parts(call: &Call<'_>, asked: &Value, step: &Step, number: u64) -> Vec<Value> {
    let mut parts = spoken_parts(call, asked, step);
    let reply = &step.reply;
    let is_cut = matches!(
        step.fault,
        Some(Fault::TruncatedCall | Fault::InvalidArguments)
    );
    let contents = list(asked, "contents");
    let signs = signs(call.model);
    for (n, called) in reply.calls.iter().enumerate().filter(|_| !is_cut) {
        let mut function = json!({"name": called.name, "args": called.arguments});
        // The protocol leaves ids to the model: every second answer has some.
        if signs && number % 2 == 1 {
            function["id"] = json!(format!("call-{number:04}-{n}"));
        }
        let mut part = json!({"functionCall": function});
        if n == 0 && signs {
            part["thoughtSignature"] = json!(sign::signature(contents, &parts, &part));
        }
        parts.push(part);
    }
    let has_only_text = !parts.is_empty() && reply.calls.is_empty();
    if has_only_text && signs && reply.thinking.is_some() {
        // The last part carries the signature; in a stream it is an empty text.
        let last = parts.pop_if(|last| !call.is_streamed && last.get("thought").is_none());
        let mut part = last.unwrap_or_else(|| json!({"text": ""}));
        part["thoughtSignature"] = json!(sign::signature(contents, &parts, &part));
        parts.push(part);
    }
    parts
}

/// Returns thought and text of a reply.
fn spoken_parts(call: &Call<'_>, asked: &Value, step: &Step) -> Vec<Value> {
    let cut = |said: &str| {
        if call.is_streamed {
            pieces(said, PIECE)
        } else {
            vec![said.to_owned()]
        }
    };
    let mut parts = Vec::new();
    let reply = &step.reply;
    let is_shown = asked.pointer("/generationConfig/thinkingConfig/includeThoughts")
        == Some(&Value::Bool(true));
    if let Some(thinking) = reply
        .thinking
        .as_deref()
        .filter(|said| is_shown && !said.is_empty())
    {
        parts.extend(
            cut(thinking)
                .iter()
                .map(|said| json!({"text": said, "thought": true})),
        );
    }
    if matches!(step.fault, Some(Fault::UnknownEvents)) {
        parts.push(json!({"futurePart": {"value": [1.5, "x"]}}));
    }
    let is_malformed = matches!(step.fault, Some(Fault::InvalidArguments));
    if let Some(said) = reply
        .text
        .as_deref()
        .filter(|said| !said.is_empty() && !is_malformed)
    {
        parts.extend(cut(said).iter().map(|said| json!({"text": said})));
    }
    parts
}

/// Returns why an answer ends. `STOP` holds for calls too.
fn finish(step: &Step) -> Finish {
    let named = |reason: &str, message: Option<String>| Finish {
        reason: reason.to_owned(),
        message,
    };
    match &step.fault {
        Some(Fault::TruncatedCall) => named("MAX_TOKENS", None),
        Some(Fault::InvalidArguments) => {
            let calls = step.reply.calls.iter();
            let names: Vec<&str> = calls.map(|call| call.name.as_str()).collect();
            let message = format!("Malformed function call: {}", names.join(", "));
            named("MALFORMED_FUNCTION_CALL", Some(message))
        }
        Some(Fault::Refusal { category }) => {
            let is_word = !category.is_empty()
                && category
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b == b'_');
            if is_word {
                named(category, None)
            } else {
                named("SAFETY", Some(category.clone()))
            }
        }
        _ => named(step.reply.stop.as_deref().unwrap_or("STOP"), None),
    }
}

fn whole(response: &Value, step: &Step) -> String {
    match step.fault {
        // A fault that breaks a stream breaks a whole answer in the middle.
        Some(Fault::Stall | Fault::NoMessageStop) => half(&response.to_string()),
        _ => response.to_string(),
    }
}

fn streamed(mut said: Vec<Value>, last: Value, step: &Step, call: &Call<'_>) -> String {
    match step.fault {
        Some(Fault::Stall) => {
            said.truncate(1);
        }
        Some(Fault::NoMessageStop) => {}
        Some(Fault::ErrorInToolInput) => {
            // Calls are sent whole: the error replaces the last part.
            said.pop();
            said.push(json!({"error": {"code": 503, "message": FAILED, "status": "UNAVAILABLE"}}));
        }
        Some(Fault::UnknownEvents) => {
            said.insert(
                0,
                json!({"weather": {"sky": ["blue"]}, "responseId": text(&last, "responseId")}),
            );
            said.push(last);
        }
        _ => said.push(last),
    }
    if call.is_events {
        let events = said
            .iter()
            .map(|response| format!("data: {response}\r\n\r\n"));
        return events.collect();
    }
    let list: Vec<String> = said.iter().map(Value::to_string).collect();
    format!("[{}]", list.join(",\r\n"))
}
