//! Renders an answer as a whole or as events.

use serde_json::{Value, json};

use super::seal;
use crate::http::Answer;
use crate::json::{list, text};
use crate::prefix::Prompt;
use crate::provider::Form;
use crate::script::{Fault, Step};
use crate::stream::{self, half, pieces};

/// Fixed time of all answers: 2026-11-22T12:00:00Z.
const NOW: u64 = 1_795_348_800;
/// Length of a streamed piece in characters.
const PIECE: usize = 5;

/// Returns the complete items of a step.
pub(super) fn items(asked: &Value, step: &Step, number: u64) -> Vec<Value> {
    let reply = &step.reply;
    let mut items = Vec::new();
    items.extend(
        reply
            .thinking
            .as_ref()
            .map(|thinking| reasoning(asked, thinking, number)),
    );
    if matches!(step.fault, Some(Fault::UnknownEvents)) {
        items.push(
            json!({"id": format!("fu_{number:04}"), "type": "future_item", "value": [1.5, "x"]}),
        );
    }
    let message = |part: Value| {
        let phase = if reply.calls.is_empty() {
            "final_answer"
        } else {
            "commentary"
        };
        json!({
            "id": format!("msg_{number:04}"), "type": "message", "status": "completed", "role": "assistant",
            "phase": phase, "content": [part],
        })
    };
    if let Some(Fault::Refusal { category }) = &step.fault {
        let refusal = format!("I can't help with that ({category}).");
        items.push(message(json!({"type": "refusal", "refusal": refusal})));
        return items;
    }
    if let Some(said) = &reply.text {
        items.push(message(
            json!({"type": "output_text", "text": said, "annotations": [], "logprobs": []}),
        ));
    }
    items.extend(calls(step, number));
    items
}

fn reasoning(asked: &Value, thinking: &str, number: u64) -> Value {
    let summary = if thinking.is_empty() || asked.pointer("/reasoning/summary").is_none() {
        json!([])
    } else {
        json!([{"type": "summary_text", "text": thinking}])
    };
    let mut item =
        json!({"id": format!("rs_{number:04}"), "type": "reasoning", "summary": summary});
    let mut included = list(asked, "include").iter().filter_map(Value::as_str);
    if included.any(|name| name == "reasoning.encrypted_content") {
        let before = list(asked, "input").len();
        item["encrypted_content"] = json!(seal::content(asked, before, &summary));
    }
    item
}

/// Returns the calls of a step; the output limit ends them after the first.
fn calls(step: &Step, number: u64) -> Vec<Value> {
    let is_cut = matches!(step.fault, Some(Fault::TruncatedCall));
    let max = if is_cut { 1 } else { usize::MAX };
    let calls = step.reply.calls.iter().enumerate().take(max);
    calls
        .map(|(n, call)| {
            let written = call.arguments.to_string();
            let arguments = match step.fault {
                Some(Fault::InvalidArguments) => format!("{}]", written.trim_end_matches('}')),
                Some(Fault::TruncatedCall) => half(&written),
                _ => written,
            };
            let status = if is_cut { "incomplete" } else { "completed" };
            json!({
                "id": format!("fc_{number:04}_{n}"), "type": "function_call", "status": status,
                "call_id": format!("call_{number:04}_{n}"), "name": call.name, "arguments": arguments,
            })
        })
        .collect()
}

/// Renders the answer to `asked`; `number` counts the server's answers.
pub(super) fn answer(
    asked: &Value,
    step: &Step,
    items: Vec<Value>,
    prompt: Prompt,
    number: u64,
    form: Form,
) -> Answer {
    let (output, thought) = stream::output_tokens(step, &items);
    let usage = json!({
        "input_tokens": prompt.all,
        "input_tokens_details": {"cached_tokens": prompt.cached},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": prompt.all + output,
    });
    let (status, details) = stop(step);
    let mut response = begun(asked, number);
    response["status"] = json!(status);
    response["incomplete_details"] = details;
    response["output"] = Value::Array(items);
    response["usage"] = usage.clone();
    let body = match form {
        Form::Events => events(&begun(asked, number), response, step),
        Form::Whole | Form::Lines => whole(response, step),
    };
    Answer {
        status: 200,
        headers: headers(form.content_type(), format!("req_{number:04}")),
        body: body.into_bytes(),
        chunk: stream::chunk(step),
        end: stream::end(step),
        usage,
    }
}

/// Returns the object `response` before any output.
fn begun(asked: &Value, number: u64) -> Value {
    let same = |name: &str| asked.get(name).cloned().unwrap_or_default();
    json!({
        "id": format!("resp_{number:04}"), "object": "response", "created_at": NOW, "status": "in_progress",
        "background": false, "error": null, "incomplete_details": null,
        "instructions": same("instructions"), "max_output_tokens": same("max_output_tokens"),
        "model": text(asked, "model"), "output": [], "parallel_tool_calls": asked.get("parallel_tool_calls") != Some(&Value::Bool(false)),
        "previous_response_id": null, "reasoning": same("reasoning"), "store": same("store"),
        "temperature": 1.0, "text": same("text"), "tool_choice": "auto", "tools": same("tools"), "top_p": 1.0,
        "truncation": "disabled", "usage": null, "user": null, "metadata": {},
    })
}

/// Returns the status, and why the response is incomplete.
///
/// A `stop` of the script is such a reason, except for `completed`.
fn stop(step: &Step) -> (&'static str, Value) {
    let reason = match (&step.fault, step.reply.stop.as_deref()) {
        (Some(Fault::TruncatedCall), _) => "max_output_tokens",
        (_, None | Some("completed")) => return ("completed", Value::Null),
        (_, Some(reason)) => reason,
    };
    ("incomplete", json!({"reason": reason}))
}

fn failure() -> Value {
    json!({"code": "server_error", "message": "The server had an error while processing your request."})
}

fn whole(mut response: Value, step: &Step) -> String {
    let has_calls = !step.reply.calls.is_empty();
    match step.fault {
        // A whole answer has a member for the failure.
        Some(Fault::ErrorInToolInput) => {
            response["status"] = json!("failed");
            response["error"] = failure();
            response["output"] = json!([]);
            response["usage"] = Value::Null;
            response.to_string()
        }
        // A fault that breaks a stream breaks a whole answer in the middle.
        Some(Fault::Stall | Fault::NoMessageStop) => half(&response.to_string()),
        // Without calls, the answer itself is made invalid JSON.
        Some(Fault::InvalidArguments) if !has_calls => half(&response.to_string()),
        _ => response.to_string(),
    }
}

/// Writes events with their sequence numbers.
#[derive(Debug, Default)]
struct Events {
    out: String,
    next: u64,
}

impl Events {
    fn add(&mut self, kind: &str, mut data: Value) {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.next);
        self.next += 1;
        stream::event(&mut self.out, kind, &data);
    }

    /// Adds a text in pieces, then as a whole.
    fn add_text(&mut self, kind: &str, at: &Value, name: &str, text: &str) {
        for piece in pieces(text, PIECE) {
            let mut data = at.clone();
            data["delta"] = json!(piece);
            // Padding that hides the length of a piece.
            data["obfuscation"] = json!("k3Vz");
            self.add(&format!("{kind}.delta"), data);
        }
        let mut data = at.clone();
        data[name] = json!(text);
        self.add(&format!("{kind}.done"), data);
    }
}

fn events(begun: &Value, response: Value, step: &Step) -> String {
    let mut events = Events::default();
    events.add("response.created", json!({"response": begun}));
    if matches!(step.fault, Some(Fault::Stall)) {
        return events.out;
    }
    events.add("response.in_progress", json!({"response": begun}));
    let items = list(&response, "output");
    for (index, item) in items.iter().enumerate() {
        if matches!(step.fault, Some(Fault::UnknownEvents)) {
            events.add("response.weather", json!({"sky": ["blue"]}));
        }
        if matches!(step.fault, Some(Fault::ErrorInToolInput)) && index + 1 == items.len() {
            let before = events.out.len();
            stream_item(&mut events, index, item);
            // Keeps whole events up to the middle of the item.
            let middle = before + (events.out.len() - before) / 2;
            let cut = events.out.get(..middle).and_then(|out| out.rfind("\n\n"));
            events.out.truncate(cut.map_or(before, |cut| cut + 2));
            let mut error = failure();
            error["param"] = Value::Null;
            events.add("error", error);
            return events.out;
        }
        stream_item(&mut events, index, item);
    }
    if matches!(step.fault, Some(Fault::NoMessageStop)) {
        return events.out;
    }
    // Without calls, the last event is made invalid JSON.
    if matches!(step.fault, Some(Fault::InvalidArguments)) && step.reply.calls.is_empty() {
        events
            .out
            .push_str("event: response.completed\ndata: {\"type\": \"response.completed\"]\n\n");
        return events.out;
    }
    let last = format!("response.{}", text(&response, "status"));
    events.add(&last, json!({"response": response}));
    events.out
}

fn stream_item(events: &mut Events, index: usize, item: &Value) {
    let mut empty = item.clone();
    let id = item.get("id").cloned().unwrap_or_default();
    let at = json!({"item_id": id, "output_index": index});
    let kind = text(item, "type");
    match kind {
        "message" => {
            empty["content"] = json!([]);
            empty["status"] = json!("in_progress");
        }
        "reasoning" => {
            empty["summary"] = json!([]);
            if let Some(members) = empty.as_object_mut() {
                members.remove("encrypted_content");
            }
        }
        "function_call" => {
            empty["arguments"] = json!("");
            empty["status"] = json!("in_progress");
        }
        _ => {}
    }
    events.add(
        "response.output_item.added",
        json!({"output_index": index, "item": empty}),
    );
    match kind {
        "message" => {
            for (n, part) in list(item, "content").iter().enumerate() {
                stream_content(events, &at, n, part);
            }
        }
        "reasoning" => {
            for (n, part) in list(item, "summary").iter().enumerate() {
                stream_summary(events, &at, n, part);
            }
        }
        "function_call" => {
            let arguments = text(item, "arguments");
            events.add_text(
                "response.function_call_arguments",
                &at,
                "arguments",
                arguments,
            );
        }
        _ => {}
    }
    events.add(
        "response.output_item.done",
        json!({"output_index": index, "item": item}),
    );
}

fn stream_content(events: &mut Events, at: &Value, n: usize, part: &Value) {
    let mut at = at.clone();
    at["content_index"] = json!(n);
    let (kind, name) = match text(part, "type") {
        "refusal" => ("response.refusal", "refusal"),
        _ => ("response.output_text", "text"),
    };
    let mut empty = part.clone();
    empty[name] = json!("");
    let with = |part: &Value| {
        let mut data = at.clone();
        data["part"] = part.clone();
        data
    };
    events.add("response.content_part.added", with(&empty));
    events.add_text(kind, &at, name, text(part, name));
    events.add("response.content_part.done", with(part));
}

fn stream_summary(events: &mut Events, at: &Value, n: usize, part: &Value) {
    let mut at = at.clone();
    at["summary_index"] = json!(n);
    let with = |part: &Value| {
        let mut data = at.clone();
        data["part"] = part.clone();
        data
    };
    let empty = json!({"type": "summary_text", "text": ""});
    events.add("response.reasoning_summary_part.added", with(&empty));
    events.add_text(
        "response.reasoning_summary_text",
        &at,
        "text",
        text(part, "text"),
    );
    events.add("response.reasoning_summary_part.done", with(part));
}

/// Headers of every answer.
pub(super) fn headers(content_type: &str, id: String) -> Vec<(&'static str, String)> {
    [
        ("content-type", content_type),
        ("openai-version", "2020-10-01"),
        ("openai-organization", "org-scripted"),
        ("x-ratelimit-limit-requests", "500"),
        ("x-ratelimit-remaining-requests", "499"),
        ("x-ratelimit-reset-requests", "120ms"),
        ("x-ratelimit-limit-tokens", "500000"),
        ("x-ratelimit-remaining-tokens", "480000"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ]
    .into_iter()
    .map(|(name, value)| (name, value.to_owned()))
    .chain([("x-request-id", id)])
    .collect()
}
