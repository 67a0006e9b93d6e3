//! Finds JSON in the answer of a language model: in a fenced block, within prose, or as a sequence
//! of values.
//!
//! - Only documents that are in the text as such are found; nothing is completed.

use std::sync::LazyLock;

use regex::Regex;

use crate::workflow::block_api::prelude::*;

/// First properties of every block that reads an LLM's answer.
pub(crate) const IMAGE: Property =
    Property::data("image", &[Kind::Image]).about("the picture that the language model described");
pub(crate) const VLM_OUTPUT: Property = Property::data("vlm_output", &[Kind::LanguageModelOutput])
    .about("the answer of the language model");

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

static JSON_FENCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)```json([\s\S]*?)```"));
static ANY_FENCE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"```[a-zA-Z0-9_+-]*[ \t]*\r?\n?([\s\S]*?)```"));
static FENCE_LINE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^[ \t]*```[a-zA-Z0-9_+-]*[ \t]*$"));

/// Returns the first fenced JSON block, or the whole text.
pub(crate) fn fenced(text: &str) -> &str {
    let block = JSON_FENCE.captures(text).and_then(|c| c.get(1));
    block.map_or(text, |m| m.as_str())
}

/// Returns the dictionary or list in a text, if it can be delimited.
pub(crate) fn payload(text: &str) -> Option<Json> {
    let bare = FENCE_LINE.replace_all(text, "");
    let in_fence = |fence: &Regex| Some(fence.captures(text)?.get(1)?.as_str().to_owned());
    let candidates = [
        in_fence(&JSON_FENCE),
        in_fence(&ANY_FENCE),
        Some(text.to_owned()),
        Some(bare.to_string()),
    ];
    candidates
        .iter()
        .flatten()
        .find_map(|t| document(t))
        .or_else(|| sequence(&bare))
        .or_else(|| outermost(&bare, '[', ']'))
        .or_else(|| outermost(&bare, '{', '}'))
}

/// Parses the whole text as a dictionary or a list.
fn document(text: &str) -> Option<Json> {
    let json: Json = serde_json::from_str(text).ok()?;
    (json.is_object() || json.is_array()).then_some(json)
}

/// Parses from the first opening to the last closing bracket.
fn outermost(text: &str, open: char, close: char) -> Option<Json> {
    document(text.get(text.find(open)?..=text.rfind(close)?)?)
}

/// Parses dictionaries and lists separated by commas and blanks as one list.
fn sequence(text: &str) -> Option<Json> {
    let is_gap = |t: &str| t.chars().all(|c| c.is_whitespace() || c == ',');
    let mut entries = Vec::new();
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(['{', '[']) {
        if !is_gap(rest.get(..start)?) {
            return None;
        }
        let from = rest.get(start..)?;
        let (value, length) = first_value(from)?;
        match value {
            Json::Array(items) => entries.extend(items),
            one => entries.push(one),
        }
        found = true;
        rest = from.get(length..)?;
    }
    // One extra closing bracket is accepted.
    let tail = match rest.split_once(']') {
        Some((before, after)) if is_gap(before) => after,
        _ => rest,
    };
    (found && is_gap(tail)).then_some(Json::Array(entries))
}

/// Parses the value at the start of a text and returns its length in bytes.
fn first_value(text: &str) -> Option<(Json, usize)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Json>();
    let value = stream.next()?.ok()?;
    Some((value, stream.byte_offset()))
}

/// Returns every dictionary in a text with all of these fields, for answers cut off within a list.
pub(crate) fn entries_with(text: &str, fields: &[&str]) -> Vec<Json> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let Some(from) = rest.get(start..) else { break };
        let step = match first_value(from) {
            Some((value, length)) => {
                if fields.iter().all(|field| value.get(field).is_some()) {
                    found.push(value);
                }
                length
            }
            None => 1,
        };
        rest = from.get(step..).unwrap_or_default();
    }
    found
}

/// A number, also from text.
pub(crate) fn number(json: &Json) -> Option<f64> {
    match json {
        Json::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    }
}

/// A score, limited to `0.0..=1.0`.
pub(crate) fn confidence(json: &Json) -> Option<f64> {
    number(json).map(|n| n.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{entries_with, payload};

    #[test]
    fn json_is_found_anywhere_in_an_answer() {
        let wanted = Some(json!({"a": 1}));
        for text in [
            "{\"a\": 1}",
            "Here you are:\n```json\n{\"a\": 1}\n```\nAnything else?",
            "```\n{\"a\": 1}\n```",
            "The answer is {\"a\": 1}, I think.",
        ] {
            assert_eq!(payload(text), wanted, "{text}");
        }
        assert_eq!(
            payload("{\"a\": 1},\n{\"b\": 2}]"),
            Some(json!([{"a": 1}, {"b": 2}]))
        );
        assert_eq!(payload("[1] [2, 3]"), Some(json!([1, 2, 3])));
    }

    #[test]
    fn text_without_document_gives_none() {
        for text in ["", "7", "no idea", "{\"a\": ", "[1, {\"a\"", "```json\n```"] {
            assert_eq!(payload(text), None, "{text}");
        }
    }

    #[test]
    fn entries_are_read_from_a_cut_off_list() {
        let cut = "[{\"x\": 1, \"y\": 2}, {\"x\": 3}, {\"x\": 4, \"y\": 5}, {\"x\": 6, \"";
        assert_eq!(
            entries_with(cut, &["x", "y"]),
            [json!({"x": 1, "y": 2}), json!({"x": 4, "y": 5})]
        );
    }
}
