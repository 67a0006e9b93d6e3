//! Renders an answer as one object, or as a line for each piece.

use serde_json::{Value, json};

use crate::http::Answer;
use crate::json::{list, text};
use crate::picture;
use crate::prefix;
use crate::provider::Form;
use crate::script::{Fault, Step};
use crate::stream::{self, half, pieces};

/// Error for a call that the server cannot parse.
pub(super) const NO_CALL: &str =
    "error parsing tool call: raw='{\"name\": ', err=unexpected end of JSON input";
/// Error for a model that failed.
pub(super) const FAILED: &str = "an error was encountered while running the model: unexpected EOF";
/// Fixed time of all answers.
const NOW: &str = "2026-11-22T12:00:00.000000Z";
/// Length of a streamed piece in characters.
const PIECE: usize = 6;

/// Renders the answer to `asked`; `number` counts the server's answers.
pub(super) fn answer(asked: &Value, step: &Step, number: u64, form: Form) -> Answer {
    let messages = messages(asked, step, number, form);
    let (output, _) = stream::output_tokens(step, &messages);
    let reason = match (&step.fault, step.reply.stop.as_deref()) {
        (Some(Fault::TruncatedCall), _) => "length",
        (_, Some(reason)) => reason,
        _ if list(asked, "messages").is_empty() => "load",
        _ => "stop",
    };
    let counts = json!({"prompt_eval_count": prompt_tokens(asked), "eval_count": output});
    let frame = |message: &Value| json!({"model": text(asked, "model"), "created_at": NOW, "message": message, "done": false});
    let mut last = frame(&json!({"role": "assistant", "content": ""}));
    last["done"] = json!(true);
    last["done_reason"] = json!(reason);
    for name in [
        "total_duration",
        "load_duration",
        "prompt_eval_duration",
        "eval_duration",
    ] {
        last[name] = json!(1_000_000);
    }
    for name in ["prompt_eval_count", "eval_count"] {
        last[name] = counts[name].clone();
    }
    let body = if form == Form::Lines {
        lines(messages.iter().map(frame).collect(), last, step)
    } else {
        if let Some(message) = messages.first() {
            last["message"] = message.clone();
        }
        match step.fault {
            // A fault that breaks a stream breaks a whole answer in the middle.
            Some(Fault::Stall | Fault::NoMessageStop) => half(&last.to_string()),
            _ => last.to_string(),
        }
    };
    Answer {
        status: 200,
        headers: vec![("content-type", form.content_type().to_owned())],
        body: body.into_bytes(),
        chunk: stream::chunk(step),
        end: stream::end(step),
        usage: counts,
    }
}

/// Returns the messages of the answer: one, or one for each piece.
fn messages(asked: &Value, step: &Step, number: u64, form: Form) -> Vec<Value> {
    let reply = &step.reply;
    let refusal = match &step.fault {
        Some(Fault::Refusal { category }) => Some(format!("I can't help with that ({category}).")),
        _ => None,
    };
    let is_cut = matches!(step.fault, Some(Fault::TruncatedCall));
    let thinks = asked
        .get("think")
        .is_some_and(|think| think != &Value::Bool(false));
    let thinking = reply
        .thinking
        .as_deref()
        .filter(|said| thinks && !said.is_empty());
    let content = refusal.as_deref().or(reply.text.as_deref());
    let calls = reply
        .calls
        .iter()
        .enumerate()
        .filter(|_| refusal.is_none() && !is_cut);
    let calls: Vec<Value> = calls
        .map(|(n, call)| {
            let function = json!({"index": n, "name": call.name, "arguments": call.arguments});
            json!({"id": format!("call_{number:04}_{n}"), "function": function})
        })
        .collect();
    let message = || json!({"role": "assistant", "content": ""});
    let with = |name: &str, value: Value| {
        let mut message = message();
        message[name] = value;
        message
    };
    if form == Form::Lines {
        let thinking = thinking.map(|said| pieces(said, PIECE)).unwrap_or_default();
        let content = content.map(|said| pieces(said, PIECE)).unwrap_or_default();
        let thinking = thinking
            .into_iter()
            .map(|said| with("thinking", json!(said)));
        let content = content.into_iter().map(|said| with("content", json!(said)));
        let calls = calls
            .into_iter()
            .map(|call| with("tool_calls", json!([call])));
        return thinking.chain(content).chain(calls).collect();
    }
    let mut whole = with("content", json!(content.unwrap_or_default()));
    if let Some(said) = thinking {
        whole["thinking"] = json!(said);
    }
    if !calls.is_empty() {
        whole["tool_calls"] = Value::Array(calls);
    }
    vec![whole]
}

fn lines(mut said: Vec<Value>, last: Value, step: &Step) -> String {
    match step.fault {
        Some(Fault::Stall) => said.truncate(1),
        Some(Fault::NoMessageStop) => {}
        // The error replaces the last piece.
        Some(Fault::ErrorInToolInput) => {
            said.pop();
            said.push(json!({"error": FAILED}));
        }
        Some(Fault::InvalidArguments) => {
            said.pop();
            said.push(json!({"error": NO_CALL}));
        }
        Some(Fault::UnknownEvents) => {
            said.insert(0, json!({"weather": {"sky": ["blue"]}, "done": false}));
            said.push(last);
        }
        _ => said.push(last),
    }
    said.iter().map(|line| format!("{line}\n")).collect()
}

fn prompt_tokens(asked: &Value) -> u64 {
    let messages = list(asked, "messages").iter();
    let messages = messages.map(|message| {
        let images = list(message, "images").iter().filter_map(Value::as_str);
        let images =
            images.map(|data| picture::squares(picture::size(None, data).unwrap_or_default(), 32));
        let said = text(message, "content").len() + text(message, "thinking").len();
        let calls = message
            .get("tool_calls")
            .map_or(0, |calls| calls.to_string().len());
        images.sum::<u64>() + prefix::tokens(said + calls)
    });
    let tools = asked
        .get("tools")
        .map_or(0, |tools| prefix::tokens(tools.to_string().len()));
    messages.sum::<u64>() + tools
}
