//! The items of the input: their form, and which may follow which.

use std::collections::BTreeMap;

use serde_json::Value;

use super::refusal::{invalid, missing};
use crate::json::text;
use crate::picture;
use crate::provider::Refusal;

const MAX_PICTURES: usize = 500;
/// How much a picture is looked at.
const DETAILS: [&str; 4] = ["low", "high", "auto", "original"];

/// A call that has no output yet.
#[derive(Debug, Default)]
struct Calls<'i> {
    open: Vec<&'i str>,
    /// Whether one of them got its output already.
    is_answering: bool,
}

/// Checks the input. `thoughts` says which thought stands before which item that was made here.
pub(super) fn check(body: &Value, thoughts: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let items = match body.get("input") {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(items)) if !items.is_empty() => items,
        _ => {
            let message =
                "One of \"input\" or \"previous_response_id\" or \"prompt\" must be provided.";
            return Err(Refusal::bad(message).about("input"));
        }
    };
    let mut calls = Calls::default();
    let mut pictures = 0;
    for (at, item) in items.iter().enumerate() {
        let param = format!("input[{at}]");
        match text(item, "type") {
            "message" | "" => {
                message(item, &param, &mut pictures)?;
                let is_model = text(item, "role") == "assistant";
                calls.speaks(is_model)?;
            }
            "function_call" => {
                for name in ["call_id", "name", "arguments"] {
                    if !item.get(name).is_some_and(Value::is_string) {
                        return Err(missing(&format!("{param}.{name}")));
                    }
                }
                begins(item, &param, "fc")?;
                calls.speaks(true)?;
                calls.open.push(text(item, "call_id"));
            }
            "function_call_output" => {
                if text(item, "call_id").is_empty() {
                    return Err(missing(&format!("{param}.call_id")));
                }
                output(item, &param, &mut pictures)?;
                calls.answered(text(item, "call_id"))?;
            }
            "reasoning" => {
                if !item.get("summary").is_some_and(Value::is_array) {
                    return Err(missing(&format!("{param}.summary")));
                }
                begins(item, &param, "rs")?;
                calls.speaks(true)?;
                followed(item, items.get(at + 1))?;
            }
            "future_item" => calls.speaks(true)?,
            other => {
                let allowed = [
                    "message",
                    "reasoning",
                    "function_call",
                    "function_call_output",
                ];
                return Err(invalid(&param, other, &allowed));
            }
        }
        preceded(item, items.get(..at).unwrap_or_default(), thoughts)?;
    }
    if pictures > MAX_PICTURES {
        let message =
            format!("Too many images in request: {pictures}, the limit is {MAX_PICTURES}.");
        return Err(Refusal::bad(message).about("input"));
    }
    calls.closed()
}

impl<'i> Calls<'i> {
    /// The model or somebody else says something: a model may go on with the turn that its calls are in, until they are answered.
    fn speaks(&self, is_model: bool) -> Result<(), Refusal> {
        if is_model && !self.is_answering {
            return Ok(());
        }
        self.closed()
    }

    fn answered(&mut self, id: &'i str) -> Result<(), Refusal> {
        let Some(at) = self.open.iter().position(|open| *open == id) else {
            let message = format!("No tool call found for function call output with call_id {id}.");
            return Err(Refusal::bad(message).about("input"));
        };
        self.open.remove(at);
        self.is_answering = !self.open.is_empty();
        Ok(())
    }

    fn closed(&self) -> Result<(), Refusal> {
        match self.open.first() {
            None => Ok(()),
            Some(id) => {
                let message = format!("No tool output found for function call {id}.");
                Err(Refusal::bad(message).about("input"))
            }
        }
    }
}

/// An id that came from here begins as it did.
fn begins(item: &Value, param: &str, prefix: &str) -> Result<(), Refusal> {
    let id = text(item, "id");
    if id.is_empty() || id.starts_with(prefix) {
        return Ok(());
    }
    let message =
        format!("Invalid '{param}.id': '{id}'. Expected an ID that begins with '{prefix}'.");
    let refused = Refusal::bad(message).code("invalid_value");
    Err(refused.about(format!("{param}.id")))
}

/// A thought stands before something that came of it.
fn followed(thought: &Value, next: Option<&Value>) -> Result<(), Refusal> {
    let is_followed = next.is_some_and(|next| match text(next, "type") {
        "message" | "" => text(next, "role") == "assistant",
        "function_call" | "future_item" => true,
        _ => false,
    });
    if is_followed {
        return Ok(());
    }
    let id = text(thought, "id");
    let message = format!(
        "Item '{id}' of type 'reasoning' was provided without its required following item."
    );
    Err(Refusal::bad(message).about("input"))
}

/// What came of a thought does not come back without it.
fn preceded(
    item: &Value,
    before: &[Value],
    thoughts: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let Some(thought) = thoughts.get(text(item, "id")) else {
        return Ok(());
    };
    if before.iter().any(|item| text(item, "id") == thought) {
        return Ok(());
    }
    let message = format!(
        "Item '{}' of type '{}' was provided without its required 'reasoning' item: '{thought}'.",
        text(item, "id"),
        text(item, "type")
    );
    Err(Refusal::bad(message).about("input"))
}

fn message(item: &Value, param: &str, pictures: &mut usize) -> Result<(), Refusal> {
    let allowed: &[&str] = match text(item, "role") {
        "user" | "system" | "developer" => &["input_text", "input_image", "input_file"],
        "assistant" => &["output_text", "refusal"],
        other => {
            let roles = ["assistant", "system", "developer", "user"];
            return Err(invalid(&format!("{param}.role"), other, &roles));
        }
    };
    begins(item, param, "msg")?;
    match item.get("content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(content)) => {
            parts(content, &format!("{param}.content"), allowed, pictures)
        }
        _ => Err(missing(&format!("{param}.content"))),
    }
}

fn output(item: &Value, param: &str, pictures: &mut usize) -> Result<(), Refusal> {
    let allowed = &["input_text", "input_image", "input_file"];
    match item.get("output") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(content)) => {
            parts(content, &format!("{param}.output"), allowed, pictures)
        }
        _ => Err(missing(&format!("{param}.output"))),
    }
}

fn parts(
    content: &[Value],
    param: &str,
    allowed: &[&str],
    pictures: &mut usize,
) -> Result<(), Refusal> {
    for (n, part) in content.iter().enumerate() {
        let param = format!("{param}[{n}]");
        let kind = text(part, "type");
        if !allowed.contains(&kind) {
            return Err(invalid(&param, kind, allowed));
        }
        let has = |name: &str| part.get(name).is_some_and(Value::is_string);
        match kind {
            "input_text" | "output_text" if !has("text") => {
                return Err(missing(&format!("{param}.text")));
            }
            "refusal" if !has("refusal") => return Err(missing(&format!("{param}.refusal"))),
            "input_image" => {
                *pictures += 1;
                image(part, &param)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn image(part: &Value, param: &str) -> Result<(), Refusal> {
    let detail = part.get("detail").and_then(Value::as_str);
    if let Some(word) = detail.filter(|word| !DETAILS.contains(word)) {
        return Err(invalid(&format!("{param}.detail"), word, &DETAILS));
    }
    let param = format!("{param}.image_url");
    let Some((media_type, data)) = picture::of_data_url(text(part, "image_url")) else {
        let message = format!(
            "Invalid '{param}'. Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value with an invalid format."
        );
        return Err(Refusal::bad(message).code("invalid_value").about(param));
    };
    picture::size(Some(media_type), data).map(drop).map_err(|_| {
        let message = "The image data you provided does not represent a valid image. Please check your input and try again.";
        Refusal::bad(message).code("invalid_image_format").about(param)
    })
}
