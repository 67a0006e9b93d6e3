//! Parses command requests: untrusted bytes into a checked value, or the reason of a refusal.
//!
//! - A request has at most [`MAX_PAYLOAD`] bytes and only members that its operation knows.
//! - Its topic names the operation; a member `op` may only repeat it.
//! - Not here: whether the box accepts the operation (`run`), its execution (`fleet::command`).

use serde_json::{Map, Value};
use watchkeeper_contract::assessment::AssessmentAnswer;
use watchkeeper_contract::command::{CommandRequest, Operation};

use super::payload::MAX_PAYLOAD;
use crate::fleet::command::OperationName;

/// Parses the request in `payload`, received on the topic of `operation`.
///
/// # Errors
/// Returns the reason, for the requester.
pub fn parse_request(
    operation: OperationName,
    payload: &[u8],
) -> Result<Box<CommandRequest>, String> {
    if payload.len() > MAX_PAYLOAD {
        // A longer payload arrives cut, so its size is not known.
        return Err(format!(
            "the request has more than {MAX_PAYLOAD} bytes; at most that many are accepted"
        ));
    }
    let mut value: Value = serde_json::from_slice(payload)
        .map_err(|error| format!("the request is not JSON: {error}"))?;
    let Some(object) = value.as_object_mut() else {
        return Err("the request is not a JSON object".to_owned());
    };
    check_names(operation, object)?;
    match object.get("op") {
        None => {
            object.insert("op".to_owned(), Value::from(operation.as_str()));
        }
        Some(op) if op == operation.as_str() => {}
        Some(op) => {
            return Err(format!(
                "the topic asks for {operation}, the member op for {op}"
            ));
        }
    }
    check_members(object)?;
    let request: CommandRequest = serde_json::from_value(value)
        .map_err(|error| format!("the request for {operation} is invalid: {error}"))?;
    check_answer(&request.operation)?;
    Ok(Box::new(request))
}

/// Refuses an answer of a review that the runtime would refuse.
fn check_answer(operation: &Operation) -> Result<(), String> {
    let Operation::Review { answer, label, .. } = operation else {
        return Ok(());
    };
    match (answer, label) {
        (AssessmentAnswer::None, _) => {
            Err("answer = \"none\": not a person's; use approve, reject or correct".to_owned())
        }
        (AssessmentAnswer::Correct, None) => Err(
            "label is missing: answer = \"correct\" needs the class that it really was".to_owned(),
        ),
        (AssessmentAnswer::Approve | AssessmentAnswer::Reject, Some(label)) => Err(format!(
            "label = {label:?}: only for answer = \"correct\"; leave it out"
        )),
        _ => Ok(()),
    }
}

/// The value as text, cut to 80 characters.
fn short_json(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

/// Checks that the operation knows all members: a misspelt `expires_at` would be lost silently.
fn check_names(operation: OperationName, request: &Map<String, Value>) -> Result<(), String> {
    let known = || operation.members().iter().chain(&["expires_at", "op"]);
    match request.keys().find(|name| !known().any(|k| k == name)) {
        None => Ok(()),
        Some(unknown) => Err(format!(
            "unknown member {}; a request for {operation} has {}",
            short_json(&Value::from(unknown.as_str())),
            known().copied().collect::<Vec<_>>().join(", ")
        )),
    }
}

/// Checks members for which the parser's error would not name the member.
fn check_members(request: &Map<String, Value>) -> Result<(), String> {
    if let Some(at) = request.get("expires_at").filter(|at| !at.is_null())
        && at
            .as_str()
            .and_then(|at| at.parse::<jiff::Timestamp>().ok())
            .is_none()
    {
        return Err(format!(
            "expires_at = {}: not an RFC 3339 time; write it as \"2026-01-31T12:00:00Z\"",
            short_json(at)
        ));
    }
    let pipeline = request
        .get("pipeline")
        .filter(|_| request.get("op").is_some_and(|op| op == "deploy"));
    match pipeline {
        Some(pipeline) if !pipeline.is_object() => Err(format!(
            "pipeline = {}: must be an object, as in the body of POST /v1/pipelines",
            short_json(pipeline)
        )),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn topic_gives_the_operation_when_the_body_has_none() {
        let request = parse_request(OperationName::Stop, br#"{"pipeline":"door"}"#).expect("fine");
        assert!(matches!(request.operation, Operation::Stop { .. }));
    }

    #[test]
    fn every_member_of_a_review_is_known() {
        let payload = br#"{"op":"review","event":1,"answer":"correct","label":"cat","note":"n",
            "by":"Ada","expires_at":"2026-01-31T12:00:00Z"}"#;
        let request = parse_request(OperationName::Review, payload);
        assert!(matches!(
            request.expect("fine").operation,
            Operation::Review { .. }
        ));
    }

    #[test]
    fn every_refusal_names_its_reason() {
        let huge = vec![b' '; MAX_PAYLOAD + 1];
        for (operation, payload, expected) in [
            (OperationName::Stop, &b"nope"[..], "not JSON"),
            (OperationName::Stop, b"[]", "not a JSON object"),
            (
                OperationName::Stop,
                br#"{"op":"deploy"}"#,
                "the topic asks for stop",
            ),
            (
                OperationName::Stop,
                br#"{"pipeline":"../x"}"#,
                "not a valid name",
            ),
            (OperationName::Snapshot, b"{}", "missing field"),
            (
                OperationName::Review,
                br#"{"event":3,"answer":"none"}"#,
                "not a person's",
            ),
            (
                OperationName::Review,
                br#"{"event":3,"answer":"correct"}"#,
                "label is missing",
            ),
            (
                OperationName::Review,
                br#"{"event":3,"answer":"reject","label":"dog"}"#,
                "leave it out",
            ),
            (
                OperationName::Stop,
                br#"{"pipeline":"door","expires_at":"soon"}"#,
                "expires_at = \"soon\"",
            ),
            (
                OperationName::Deploy,
                br#"{"pipeline":"door"}"#,
                "pipeline = \"door\": must be an object",
            ),
            (
                OperationName::Snapshot,
                br#"{"source":"gate","expire_at":"2026-01-31T12:00:00Z"}"#,
                "unknown member \"expire_at\"; a request for snapshot has source, expires_at, op",
            ),
            (OperationName::Stop, &huge, "at most"),
        ] {
            let reason = parse_request(operation, payload).expect_err("refused");
            assert!(reason.contains(expected), "{reason} lacks {expected}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            op in 0_usize..3,
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ignored = parse_request(OperationName::ALL[op], &bytes).is_ok();
        }

        #[test]
        fn arbitrary_json_never_panics(
            op in 0_usize..3,
            text in r#"\{("[a-z_]{0,10}":(null|[0-9]{1,4}|"[a-z-]{0,8}"),?){0,4}\}"#,
        ) {
            let _ignored = parse_request(OperationName::ALL[op], text.as_bytes()).is_ok();
        }
    }
}
