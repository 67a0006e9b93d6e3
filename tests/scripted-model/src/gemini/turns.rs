//! Checks the order of contents, and the responses to calls.

use serde_json::Value;

use super::refusal::bad;
use crate::json::{list, text};
use crate::provider::Refusal;

/// Checks roles, order, and that every call has its response.
pub(super) fn check(contents: &[Value]) -> Result<(), Refusal> {
    fn role(content: Option<&Value>) -> &str {
        content.map_or("", |content| text(content, "role"))
    }
    let mut before = None;
    for content in contents {
        let calls = before.map_or(Vec::new(), |before| data_of(before, "functionCall"));
        let responses = data_of(content, "functionResponse");
        if role(Some(content)) == "model" {
            if !calls.is_empty() {
                return Err(unequal());
            }
            let has_calls = !data_of(content, "functionCall").is_empty();
            if has_calls && role(before) != "user" {
                return Err(bad(
                    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
                ));
            }
        } else if calls.is_empty() && !responses.is_empty() {
            return Err(bad(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        } else {
            check_responses(&calls, &responses)?;
        }
        before = Some(content);
    }
    if role(contents.first()) != "user" {
        return Err(bad(
            "Please ensure that multiturn requests start with a user turn.",
        ));
    }
    if role(contents.last()) != "user" {
        return Err(bad(
            "Please ensure that multiturn requests end with a user role or a function response.",
        ));
    }
    Ok(())
}

/// Returns the data of a kind in the parts of a content.
pub(super) fn data_of<'c>(content: &'c Value, kind: &str) -> Vec<&'c Value> {
    list(content, "parts")
        .iter()
        .filter_map(|part| part.get(kind))
        .collect()
}

/// Checks that every call has its response, matched by id or, without ids, by position.
fn check_responses(calls: &[&Value], responses: &[&Value]) -> Result<(), Refusal> {
    if calls.len() != responses.len() {
        return Err(unequal());
    }
    for (at, response) in responses.iter().enumerate() {
        let id = text(response, "id");
        let call = if id.is_empty() {
            calls.get(at)
        } else {
            calls.iter().find(|call| text(call, "id") == id)
        };
        let name = text(response, "name");
        if call.is_none_or(|call| text(call, "name") != name) {
            return Err(bad(format!(
                "Please ensure that the name of each function response is equal to the name of its function call: {name:?} (id {id:?}) answers none."
            )));
        }
        if id.is_empty() && call.is_some_and(|call| !text(call, "id").is_empty()) {
            return Err(bad(format!(
                "Please ensure that the function response {name:?} has the id of its function call."
            )));
        }
    }
    Ok(())
}

fn unequal() -> Refusal {
    bad(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
    )
}
