//! Renders an answer as a whole or as events.

use serde_json::{Value, json};

use super::cache::Prompt;
use super::dialect::Dialect;
use super::refusal::Form;
use super::{local, sign};
use crate::http::Answer;
use crate::json::{list, text};
use crate::script::{Fault, Step};
use crate::stream::{self, event, half, pieces};

/// Renders the answer to `asked`; `number` counts the server's answers.
pub(super) fn answer(
    dialect: Dialect,
    asked: &Value,
    step: &Step,
    prompt: &Prompt,
    number: u64,
    form: Form,
) -> Answer {
    let is_local = dialect == Dialect::Ollama;
    let local_step;
    let step = if is_local {
        local_step = local::step(step);
        &local_step
    } else {
        step
    };
    let content = content(asked, step, number);
    let stop = stop(step);
    let usage = usage(step, &content, prompt);
    let mut message = json!({
        "id": format!("msg_{number:04}"),
        "type": "message",
        "role": "assistant",
        "model": text(asked, "model"),
        "content": content,
        "stop_reason": stop.0,
        "stop_sequence": null,
        "stop_details": stop.1,
        "container": null,
        "usage": usage,
    });
    let mut headers = vec![("content-type", form.content_type().to_owned())];
    if is_local {
        local::simplify(&mut message);
    } else {
        headers.push(("request-id", format!("req_{number:04}")));
        headers.push(("anthropic-ratelimit-requests-remaining", "49".to_owned()));
    }
    let body = match form {
        Form::Events => events(dialect, &message, step),
        Form::Whole => whole(&message, step),
    };
    Answer {
        status: 200,
        headers,
        body: body.into_bytes(),
        chunk: stream::chunk(step),
        end: stream::end(step),
        usage: message.get("usage").cloned().unwrap_or_default(),
    }
}

fn content(asked: &Value, step: &Step, number: u64) -> Vec<Value> {
    let mut content = Vec::new();
    if let Some(thinking) = &step.reply.thinking {
        let messages = list(asked, "messages").len();
        let signature = sign::signature(asked, messages, &[], thinking);
        content.push(json!({"type": "thinking", "thinking": thinking, "signature": signature}));
    }
    if matches!(step.fault, Some(Fault::UnknownEvents)) {
        content.push(json!({"type": "future_block", "value": [1.5, "x"]}));
    }
    if let Some(said) = &step.reply.text {
        content.push(json!({"type": "text", "text": said}));
    }
    for (n, call) in step.reply.calls.iter().enumerate() {
        let id = format!("toolu_{number:04}_{n}");
        content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments, "caller": {"type": "direct"}}));
    }
    content
}

fn stop(step: &Step) -> (String, Value) {
    match &step.fault {
        Some(Fault::Refusal { category }) => {
            let details =
                json!({"type": "refusal", "category": category, "explanation": "It may do harm."});
            ("refusal".to_owned(), details)
        }
        Some(Fault::TruncatedCall) => ("max_tokens".to_owned(), Value::Null),
        _ => {
            let usual = if step.reply.calls.is_empty() {
                "end_turn"
            } else {
                "tool_use"
            };
            let stop = step.reply.stop.clone();
            (stop.unwrap_or_else(|| usual.to_owned()), Value::Null)
        }
    }
}

fn usage(step: &Step, content: &[Value], prompt: &Prompt) -> Value {
    let (output, thinking) = stream::output_tokens(step, content);
    json!({
        "input_tokens": prompt.fresh,
        "cache_creation_input_tokens": prompt.written,
        "cache_read_input_tokens": prompt.read,
        "cache_creation": {"ephemeral_5m_input_tokens": prompt.written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": thinking},
        "service_tier": "standard",
    })
}

/// Writes the input of a call, damaged where the step says so.
fn call_input(step: &Step, input: &Value) -> String {
    let text = input.to_string();
    match step.fault {
        Some(Fault::InvalidArguments) => format!("{}]", text.trim_end_matches('}')),
        Some(Fault::TruncatedCall | Fault::ErrorInToolInput) => half(&text),
        _ => text,
    }
}

fn whole(message: &Value, step: &Step) -> String {
    match step.fault {
        // A fault that breaks a stream breaks a whole answer in the middle.
        Some(
            Fault::Stall | Fault::NoMessageStop | Fault::ErrorInToolInput | Fault::InvalidArguments,
        ) => half(&message.to_string()),
        _ => message.to_string(),
    }
}

fn events(dialect: Dialect, message: &Value, step: &Step) -> String {
    let is_local = dialect == Dialect::Ollama;
    let mut out = String::new();
    message_start(&mut out, message, is_local);
    if matches!(step.fault, Some(Fault::Stall)) {
        return out;
    }
    if !is_local {
        event(&mut out, "ping", &json!({"type": "ping"}));
    }
    for (index, block) in list(message, "content").iter().enumerate() {
        if matches!(step.fault, Some(Fault::UnknownEvents)) {
            event(
                &mut out,
                "weather",
                &json!({"type": "weather", "sky": ["blue"]}),
            );
        }
        if !stream_block(&mut out, index, block, step) {
            // Ollama has no error event: the stream just ends.
            if !is_local {
                let error = json!({"type": "overloaded_error", "message": "Overloaded"});
                event(&mut out, "error", &json!({"type": "error", "error": error}));
            }
            return out;
        }
    }
    message_delta(&mut out, message, is_local);
    if !matches!(step.fault, Some(Fault::NoMessageStop)) {
        event(&mut out, "message_stop", &json!({"type": "message_stop"}));
    }
    out
}

/// Writes the first event: the message without content.
fn message_start(out: &mut String, message: &Value, is_local: bool) {
    let mut start = message.clone();
    if let Some(start) = start.as_object_mut() {
        start.insert("content".to_owned(), json!([]));
        if is_local {
            start.remove("stop_reason");
        } else {
            start.insert("stop_reason".to_owned(), Value::Null);
        }
    }
    if let Some(usage) = start.get_mut("usage").and_then(Value::as_object_mut) {
        usage.insert("output_tokens".to_owned(), json!(u64::from(!is_local)));
    }
    event(
        out,
        "message_start",
        &json!({"type": "message_start", "message": start}),
    );
}

/// Writes the event with stop reason and usage.
fn message_delta(out: &mut String, message: &Value, is_local: bool) {
    let mut delta = json!({"stop_reason": message.get("stop_reason")});
    let mut usage = json!({"output_tokens": message.pointer("/usage/output_tokens")});
    if is_local {
        usage["input_tokens"] = json!(message.pointer("/usage/input_tokens"));
    } else {
        delta["stop_sequence"] = Value::Null;
        delta["stop_details"] = json!(message.get("stop_details"));
    }
    event(
        out,
        "message_delta",
        &json!({"type": "message_delta", "delta": delta, "usage": usage}),
    );
}

/// Streams one block; returns false when an error interrupts it.
fn stream_block(out: &mut String, index: usize, block: &Value, step: &Step) -> bool {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    match text(block, "type") {
        "text" => {
            start["text"] = json!("");
            deltas.extend(
                pieces(text(block, "text"), 5)
                    .iter()
                    .map(|p| json!({"type": "text_delta", "text": p})),
            );
        }
        "thinking" => {
            start["thinking"] = json!("");
            deltas.extend(
                pieces(text(block, "thinking"), 5)
                    .iter()
                    .map(|p| json!({"type": "thinking_delta", "thinking": p})),
            );
            if let Some(signature) = block.get("signature") {
                start["signature"] = json!("");
                deltas.push(json!({"type": "signature_delta", "signature": signature}));
            }
        }
        "tool_use" => {
            start["input"] = json!({});
            // The provider sends an empty piece first.
            deltas.push(json!({"type": "input_json_delta", "partial_json": ""}));
            let input = call_input(step, block.get("input").unwrap_or(&Value::Null));
            deltas.extend(
                pieces(&input, 5)
                    .iter()
                    .map(|p| json!({"type": "input_json_delta", "partial_json": p})),
            );
        }
        _ => {}
    }
    let event_of = |kind: &str| json!({"type": kind, "index": index});
    let mut begun = event_of("content_block_start");
    begun["content_block"] = start;
    event(out, "content_block_start", &begun);
    for delta in deltas {
        let mut piece = event_of("content_block_delta");
        piece["delta"] = delta;
        event(out, "content_block_delta", &piece);
    }
    if matches!(step.fault, Some(Fault::UnknownEvents)) {
        let mut piece = event_of("content_block_delta");
        piece["delta"] = json!({"type": "future_delta", "future": 1});
        event(out, "content_block_delta", &piece);
    }
    if matches!(step.fault, Some(Fault::ErrorInToolInput)) && text(block, "type") == "tool_use" {
        return false;
    }
    event(out, "content_block_stop", &event_of("content_block_stop"));
    true
}
