//! The typed answer in a response.

use serde_json::{Value, json};
use watchkeeper_config::lookups::{AnswerKind, Extraction};

use crate::source::{SourceAnswer, in_unit};

/// Longest answer of the kind text, in characters.
const MAX_CHARS: usize = 300;

/// Reads the answer that `extraction` names, with its confidence at `confidence_at` or as given. A
/// blank text is not an answer, unless `expect` has it.
///
/// # Errors
/// A phrase after "the answer of HOST": what is missing, or of another type.
pub(super) fn extract(
    extraction: &Extraction,
    confidence: f64,
    confidence_at: Option<&str>,
    body: &[u8],
) -> Result<SourceAnswer, String> {
    let body: Value = serde_json::from_slice(body).map_err(|_| "is not JSON".to_owned())?;
    let pointer = &extraction.pointer;
    let found = body
        .pointer(pointer)
        .ok_or_else(|| format!("has no {pointer}"))?;
    let of_type = |what: &str| format!("has no {what} at {pointer}");
    let supports = match (&extraction.kind, found) {
        (AnswerKind::Text, Value::String(text))
            if text.trim().is_empty() && !extraction.expect.contains(text) =>
        {
            return Ok(SourceAnswer::no_answer(format!(
                "answered with a blank {pointer}"
            )));
        }
        (AnswerKind::Bool, Value::Bool(is_true)) => *is_true,
        (AnswerKind::Number, Value::Number(_)) => true,
        (AnswerKind::Text, Value::String(text)) if text.chars().count() <= MAX_CHARS => {
            extraction.expect.is_empty() || extraction.expect.contains(text)
        }
        (AnswerKind::Choice(choices), Value::String(text)) if choices.contains(text) => {
            extraction.expect.is_empty() || extraction.expect.contains(text)
        }
        (AnswerKind::Bool, _) => return Err(of_type("true or false")),
        (AnswerKind::Number, _) => return Err(of_type("number")),
        (AnswerKind::Text, _) => return Err(of_type("text of at most 300 characters")),
        (AnswerKind::Choice(choices), _) => {
            return Err(of_type(&format!("text of {}", choices.join(", "))));
        }
    };
    let confidence = match confidence_at {
        None => confidence,
        Some(at) => {
            let number = body.pointer(at).and_then(Value::as_f64);
            let number = number.filter(|c| (0.0..=1.0).contains(c));
            number.ok_or_else(|| format!("has no confidence of 0 to 1 at {at}"))?
        }
    };
    let (confidence, word) = match supports {
        true => (confidence, "answered"),
        false => (1.0 - confidence, "answered against it:"),
    };
    Ok(SourceAnswer::Answered {
        confidence: in_unit(confidence),
        note: format!("{word} {found}"),
        data: json!({"answer": found}),
    })
}
