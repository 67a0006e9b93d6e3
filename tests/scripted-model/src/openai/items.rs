//! Checks the items of the input: their form and order.

use std::collections::BTreeMap;

use serde_json::Value;

use super::refusal::{invalid, missing};
use crate::json::text;
use crate::picture;
use crate::provider::Refusal;

const MAX_PICTURES: usize = 500;
/// Values of `detail` of a picture.
const DETAILS: [&str; 4] = ["low", "high", "auto", "original"];

/// Calls without an output.
#[derive(Debug, Default)]
struct Calls<'i> {
    open: Vec<&'i str>,
    /// Whether some of the calls of this turn have their output.
    is_answering: bool,
}

/// Checks the input. `thoughts` maps items that the server made to the thought before them.
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
        check_form(item, &param, &mut pictures)?;
        match text(item, "type") {
            "message" | "" => calls.check_item(text(item, "role") == "assistant")?,
            "function_call" => {
                calls.check_item(true)?;
                calls.open.push(text(item, "call_id"));
            }
            "function_call_output" => calls.add_output(text(item, "call_id"))?,
            "reasoning" => {
                calls.check_item(true)?;
                check_following(item, items.get(at + 1))?;
            }
            _ => calls.check_item(true)?,
        }
        check_thought(item, items.get(..at).unwrap_or_default(), thoughts)?;
    }
    if pictures > MAX_PICTURES {
        let message =
            format!("Too many images in request: {pictures}, the limit is {MAX_PICTURES}.");
        return Err(Refusal::bad(message).about("input"));
    }
    calls.check_all_answered()
}

/// Checks an item by itself.
fn check_form(item: &Value, param: &str, pictures: &mut usize) -> Result<(), Refusal> {
    match text(item, "type") {
        "message" | "" => message(item, param, pictures),
        "function_call" => {
            for name in ["call_id", "name", "arguments"] {
                if !item.get(name).is_some_and(Value::is_string) {
                    return Err(missing(&format!("{param}.{name}")));
                }
            }
            check_id(item, param, "fc")
        }
        "function_call_output" => {
            if text(item, "call_id").is_empty() {
                return Err(missing(&format!("{param}.call_id")));
            }
            output(item, param, pictures)
        }
        "reasoning" => {
            if !item.get("summary").is_some_and(Value::is_array) {
                return Err(missing(&format!("{param}.summary")));
            }
            check_id(item, param, "rs")
        }
        // An item of `UnknownEvents` comes back.
        "future_item" => Ok(()),
        other => {
            let allowed = [
                "message",
                "reasoning",
                "function_call",
                "function_call_output",
            ];
            Err(invalid(param, other, &allowed))
        }
    }
}

impl<'i> Calls<'i> {
    /// Checks an item of either side. The model may add to the turn of its calls until one has an
    /// output.
    fn check_item(&self, is_model: bool) -> Result<(), Refusal> {
        if is_model && !self.is_answering {
            return Ok(());
        }
        self.check_all_answered()
    }

    fn add_output(&mut self, id: &'i str) -> Result<(), Refusal> {
        let Some(at) = self.open.iter().position(|open| *open == id) else {
            let message = format!("No tool call found for function call output with call_id {id}.");
            return Err(Refusal::bad(message).about("input"));
        };
        self.open.remove(at);
        self.is_answering = !self.open.is_empty();
        Ok(())
    }

    fn check_all_answered(&self) -> Result<(), Refusal> {
        match self.open.first() {
            None => Ok(()),
            Some(id) => {
                let message = format!("No tool output found for function call {id}.");
                Err(Refusal::bad(message).about("input"))
            }
        }
    }
}

/// Checks the prefix of an id.
fn check_id(item: &Value, param: &str, prefix: &str) -> Result<(), Refusal> {
    let id = text(item, "id");
    if id.is_empty() || id.starts_with(prefix) {
        return Ok(());
    }
    let message =
        format!("Invalid '{param}.id': '{id}'. Expected an ID that begins with '{prefix}'.");
    let refused = Refusal::bad(message).code("invalid_value");
    Err(refused.about(format!("{param}.id")))
}

/// Refuses a thought without a following item of the model.
fn check_following(thought: &Value, next: Option<&Value>) -> Result<(), Refusal> {
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

/// Refuses an item that came with a thought and is sent back without it.
fn check_thought(
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
    check_id(item, param, "msg")?;
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
