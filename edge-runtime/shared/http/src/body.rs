//! Request bodies, names in paths and numbers in queries.
//!
//! A refusal names the field, the value and what would be accepted. Whatever it repeats of a
//! request has no credentials in it.

use std::error::Error;
use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;
use watchkeeper_config::redact;
use watchkeeper_contract::problem::ProblemCode;

use crate::deadlines::{IDLE, Stalled, WHOLE};
use crate::refusal::Refusal;

/// Longest value that a refusal repeats, in characters.
const SHOWN: usize = 120;

/// A body, or why it did not come.
pub type Body = Result<Bytes, BytesRejection>;

/// Reads a JSON body of any shape, of at most [`MAX_BODY`](crate::MAX_BODY) bytes.
///
/// # Errors
/// When it is too large, did not come or is not JSON.
pub fn json(body: Body) -> Result<Value, Refusal> {
    json_up_to(body, crate::MAX_BODY)
}

/// Reads a JSON body with the definition of a workflow, of at most
/// [`MAX_DEFINITION_BODY`](crate::MAX_DEFINITION_BODY) bytes.
///
/// # Errors
/// As [`json`].
pub fn with_definition(body: Body) -> Result<Value, Refusal> {
    json_up_to(body, crate::MAX_DEFINITION_BODY)
}

/// Reads a JSON body of a route that takes `most` bytes.
///
/// # Errors
/// When it is too large, did not come or is not JSON.
pub fn json_up_to(body: Body, most: usize) -> Result<Value, Refusal> {
    let bytes = body.map_err(|rejection| {
        if is_stalled(&rejection) {
            return Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                ProblemCode::InvalidRequest,
                format!(
                    "the body did not come in time: nothing of it for {} s, or not all of it within {} s; send it again",
                    IDLE.as_secs(),
                    WHOLE.as_secs()
                ),
            );
        }
        let status = rejection.into_response().status();
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            Refusal::new(
                status,
                ProblemCode::InvalidRequest,
                format!("the body is too large; at most {most} bytes are read"),
            )
        } else {
            Refusal::invalid("the body could not be read; the connection may have broken")
        }
    })?;
    if bytes.is_empty() {
        return Err(Refusal::invalid("a JSON body is required; none was sent"));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::invalid(format!("the body is not JSON: {error}")))
}

/// Returns whether the client stopped sending the body.
fn is_stalled(rejection: &BytesRejection) -> bool {
    let mut error: Option<&(dyn Error + 'static)> = Some(rejection);
    while let Some(cause) = error {
        if cause.is::<Stalled>() {
            return true;
        }
        error = cause.source();
    }
    false
}

/// Reads a `T` from `value`.
///
/// # Errors
/// With the field that does not fit, the value found there and what is allowed.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(&value).map_err(|error| explain(&value, &error))
}

/// Reads a `T` whose field `id` must be `id`; a body without the field gets it from the path.
///
/// # Errors
/// As [`read`], and where body and path are about different things.
pub fn read_named<T: DeserializeOwned>(mut value: Value, id: &str) -> Result<T, Refusal> {
    if let Some(map) = value.as_object_mut() {
        match map.get("id") {
            None => {
                map.insert("id".to_owned(), Value::from(id));
            }
            Some(Value::String(given)) if given == id => {}
            Some(other) => {
                let given = match other {
                    Value::String(text) => clip(&redact::uri(text)),
                    other => format_for_refusal(None, other),
                };
                let mut refusal = Refusal::invalid(format!(
                    "the body names {given:?} and the path {id:?}; they must be equal"
                ))
                .at("id", given);
                refusal.0.allowed = vec![id.to_owned()];
                return Err(refusal);
            }
        }
    }
    read(value)
}

fn name<T>(text: &str) -> Result<T, Refusal>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| {
        Refusal::invalid(without(text, error.to_string())).at("id", clip(&redact::uri(text)))
    })
}

/// The name in a path: its segment `{id}`.
#[derive(Debug)]
pub struct Named<T>(pub T);

impl<S, T> FromRequestParts<S> for Named<T>
where
    S: Send + Sync,
    T: FromStr,
    T::Err: std::fmt::Display,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Refusal::invalid(rejection.body_text()))?;
        name(&text).map(Self)
    }
}

/// The query of an address. One that a route does not read is refused with the names that it does,
/// where `T` denies unknown fields.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<S, T> FromRequestParts<S> for Query<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let read = axum::extract::Query::from_request_parts(parts, state).await;
        let axum::extract::Query(query) = read.map_err(|rejection| {
            let text = rejection.body_text();
            Refusal::invalid(redact::message(&text).unwrap_or(text))
        })?;
        Ok(Self(query))
    }
}

/// Reads a whole number from a query or header; absent means `default`.
///
/// # Errors
/// When it is not a whole number.
pub fn number(field: &str, text: Option<&str>, default: u64) -> Result<u64, Refusal> {
    text.map_or(Ok(default), |text| {
        text.parse().map_err(|_| {
            Refusal::invalid(format!("{field} must be a whole number of 0 or more"))
                .at(field, clip(text))
        })
    })
}

/// Reads a number like [`number`], within `range`, both ends included.
///
/// # Errors
/// When it is not a whole number, or out of range.
pub fn number_within(
    field: &str,
    text: Option<&str>,
    default: u64,
    range: [u64; 2],
) -> Result<u64, Refusal> {
    let number = number(field, text, default)?;
    if (range[0]..=range[1]).contains(&number) {
        return Ok(number);
    }
    let detail = format!(
        "{field} must be a whole number from {} to {}",
        range[0], range[1]
    );
    Err(Refusal::invalid(detail).at(field, number.to_string()))
}

fn explain(body: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> Refusal {
    let mut field = String::new();
    let mut name = None;
    let mut found = Some(body);
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => {
                field.push_str(&format!("[{index}]"));
                found = found.and_then(|v| v.get(index));
            }
            Segment::Map { key } => {
                push(&mut field, key);
                name = Some(key.as_str());
                found = found.and_then(|v| v.get(key));
            }
            // The message names the variant.
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let mut said = error.inner().to_string();
    // serde names a missing or unknown field only in its message.
    let unknown = said.strip_prefix("unknown field ").and_then(first_quoted);
    let unknown = unknown.map(str::to_owned);
    if let Some(missing) = said.strip_prefix("missing field ").and_then(first_quoted) {
        push(&mut field, missing);
        found = None;
    } else if let Some(unknown) = &unknown
        && name != Some(unknown)
    {
        found = found.and_then(|v| v.get(unknown));
        push(&mut field, unknown);
        name = Some(unknown);
    }
    // The message repeats the text that it is about.
    let about = found.and_then(Value::as_str).into_iter();
    for text in about.chain(unknown.as_deref()) {
        said = without(text, said);
    }
    let detail = if field.is_empty() {
        format!("the body can't be used: {said}")
    } else {
        format!("{field}: {said}")
    };
    let mut refusal = Refusal::invalid(detail);
    if !field.is_empty() {
        refusal.0.field = Some(field);
    }
    refusal.0.value = found.map(|value| format_for_refusal(name, value));
    refusal.0.allowed = said
        .split_once("expected ")
        .map(|(_, expected)| quoted(expected))
        .unwrap_or_default();
    refusal
}

fn push(field: &mut String, name: &str) {
    if !field.is_empty() {
        field.push('.');
    }
    field.push_str(&redact::uri(name));
}

fn first_quoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.split('`').next()
}

fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Formats what the field `name` holds for a refusal.
fn format_for_refusal(name: Option<&str>, value: &Value) -> String {
    clip(&redact::json(name, value).to_string())
}

/// Removes credentials from a message about `text`.
fn without(text: &str, message: String) -> String {
    if redact::uri(text) == text {
        return message;
    }
    let hidden = "this value holds a credential and is not accepted";
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("{hidden}, expected {expected}"),
        None => hidden.to_owned(),
    }
}

fn clip(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use serde_json::json;
    use watchkeeper_contract::pipeline::PipelineSpec;
    use watchkeeper_contract::problem::Problem;
    use watchkeeper_contract::source::SourceSpec;

    use super::*;

    fn refused<T: DeserializeOwned + std::fmt::Debug>(body: Value) -> Problem {
        *read::<T>(body).unwrap_err().0
    }

    #[test]
    fn a_missing_field_is_named_with_its_path() {
        let problem = refused::<PipelineSpec>(json!({
            "id": "p", "source": "s", "workflow": {}, "rules": [{"when": {"kind": "enters", "zone": "z"}}]
        }));
        assert_eq!(problem.field.as_deref(), Some("rules[0].name"));
        assert_eq!(problem.value, None);
    }

    #[test]
    fn an_unknown_field_is_named_with_what_is_known() {
        let problem = refused::<SourceSpec>(json!({"id": "s", "uri": "demo:", "url": 3}));
        assert_eq!(problem.field.as_deref(), Some("url"));
        assert_eq!(problem.value.as_deref(), Some("3"));
        assert!(problem.allowed.contains(&"uri".to_owned()), "{problem:?}");
    }

    #[test]
    fn wrong_word_is_shown_with_accepted_ones() {
        let problem = refused::<SourceSpec>(json!({"id": "s", "uri": "demo:", "pace": "quick"}));
        assert_eq!(problem.field.as_deref(), Some("pace"));
        assert_eq!(problem.value.as_deref(), Some("\"quick\""));
        assert_eq!(problem.allowed, ["fast", "native"]);
    }

    #[test]
    fn bad_name_deep_inside_is_shown_with_its_path() {
        let problem = refused::<SourceSpec>(json!({"id": "A B", "uri": "demo:"}));
        assert_eq!(problem.field.as_deref(), Some("id"));
        assert!(problem.detail.contains("not a valid name"), "{problem:?}");
    }

    #[test]
    fn no_refusal_repeats_a_credential() {
        let uri = "rtsp://admin:hunter2@cam/live";
        let long = format!("rtsp://admin:hunter2{}@cam/live", "x".repeat(200));
        let bodies = [
            json!({"id": "s", "uri": [uri]}),
            json!({"id": "s", "uri": {"url": uri, "password": "hunter2"}}),
            json!({"id": "s", "uri": "demo:", "url": uri}),
            json!({"id": "s", "uri": "demo:", "password": "hunter2"}),
            json!({"id": "s", "uri": "demo:", "pace": uri}),
            json!({"id": "s", "uri": "demo:", "max_fps": uri}),
            json!({"id": uri, "uri": "demo:"}),
            json!({"id": long, "uri": "demo:"}),
            json!({"id": "s", "uri": "demo:", uri: 1}),
            json!({"id": "s", "uri": "demo:", "pace": "admin:hunter2@cam"}),
            json!([uri]),
            json!(uri),
        ];
        for body in bodies {
            let told = serde_json::to_string(&refused::<SourceSpec>(body.clone())).unwrap();
            assert!(!told.contains("hunter2"), "{body}: {told}");
        }
        let problem = refused::<SourceSpec>(json!({"id": "s", "uri": "demo:", "pace": uri}));
        assert_eq!(problem.value.as_deref(), Some("\"rtsp://***@cam/live\""));
        assert_eq!(problem.allowed, ["fast", "native"]);
        for refusal in [
            name::<watchkeeper_contract::id::SourceId>(uri).unwrap_err(),
            read_named::<SourceSpec>(json!({"id": uri, "uri": "demo:"}), "s").unwrap_err(),
            read_named::<SourceSpec>(json!({"id": [uri], "uri": "demo:"}), "s").unwrap_err(),
        ] {
            let told = serde_json::to_string(&refusal.0).unwrap();
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    #[test]
    fn name_in_path_replaces_the_one_in_body() {
        let spec: SourceSpec = read_named(json!({"uri": "demo:"}), "gate").unwrap();
        assert_eq!(spec.id.as_str(), "gate");
        let refused = read_named::<SourceSpec>(json!({"id": "yard", "uri": "demo:"}), "gate");
        assert_eq!(refused.unwrap_err().0.allowed, ["gate"]);
    }
}
