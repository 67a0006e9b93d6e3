//! Signatures of thoughts.
//!
//! - The first call of a turn carries one, or the last part of a turn without calls.
//! - It covers its part and everything before it. A signature at another position is refused.
//! - A missing signature of a call is refused only after the last message of the user, as by the
//!   provider.
//! - Neither the pieces of a text nor thoughts are covered: the provider accepts both in another
//!   form.

use serde_json::Value;

use super::models::signs;
use super::refusal::bad;
use super::turns;
use crate::json::{is_true, list, text};
use crate::prefix;
use crate::provider::Refusal;

/// Placeholders for the signature of a call that another model made.
const NO_SIGNATURES: [&str; 2] = [
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

/// Signs `part`, behind the parts `before` of its turn, which follows `contents`.
pub(super) fn signature(contents: &[Value], before: &[Value], part: &Value) -> String {
    let mut row = Vec::new();
    for content in contents {
        row.push(text(content, "role").to_owned());
        add_parts(list(content, "parts"), &mut row);
    }
    row.push("model".to_owned());
    add_parts(before, &mut row);
    row.push(unsigned(part).unwrap_or_default());
    prefix::seal(row.iter().map(String::as_str))
}

/// Refuses calls without a signature, and signatures that were changed or moved.
pub(super) fn check(model: &str, contents: &[Value]) -> Result<(), Refusal> {
    let is_asked = |content: &Value| {
        text(content, "role") == "user" && turns::data_of(content, "functionResponse").is_empty()
    };
    let current = contents.iter().rposition(is_asked).unwrap_or(0);
    for (at, content) in contents.iter().enumerate() {
        if text(content, "role") != "model" {
            continue;
        }
        let parts = list(content, "parts");
        let first = parts
            .iter()
            .position(|part| part.get("functionCall").is_some());
        for (n, part) in parts.iter().enumerate() {
            let given = text(part, "thoughtSignature");
            if given.is_empty() {
                if signs(model) && at > current && first == Some(n) {
                    return Err(missing(part, n));
                }
                continue;
            }
            let earlier = contents.get(..at).unwrap_or_default();
            let before = parts.get(..n).unwrap_or_default();
            if !NO_SIGNATURES.contains(&given) && given != signature(earlier, before, part) {
                return Err(bad("Corrupted thought signature."));
            }
        }
    }
    Ok(())
}

fn missing(part: &Value, position: usize) -> Refusal {
    let name = part
        .get("functionCall")
        .map_or("", |call| text(call, "name"));
    bad(format!(
        "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{name}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
        position + 1
    ))
}

/// Appends the contents of parts; pieces of one text are joined.
fn add_parts(parts: &[Value], row: &mut Vec<String>) {
    let mut texts = String::new();
    for part in parts {
        if let Some(piece) = part.get("text").and_then(Value::as_str) {
            if !is_true(part, "thought") {
                texts.push_str(piece);
            }
            continue;
        }
        if !texts.is_empty() {
            row.push(std::mem::take(&mut texts));
        }
        row.extend(unsigned(part));
    }
    if !texts.is_empty() {
        row.push(texts);
    }
}

/// Returns a part without its signature.
fn unsigned(part: &Value) -> Option<String> {
    let members = part.as_object()?;
    let members = members
        .iter()
        .filter(|(name, _)| *name != "thoughtSignature");
    let bare: serde_json::Map<String, Value> = members
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Some(Value::Object(bare).to_string())
}
