//! Request bodies, names in paths and numbers in queries, read so that a refusal says which field, which value and
//! what would be accepted.

use std::str::FromStr;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;
use watchkeeper_contract::problem::ProblemCode;

use super::refusal::Refusal;

/// Longest value that a refusal repeats, in characters.
const SHOWN: usize = 120;

/// A body as it came, or why it did not.
pub(crate) type Body = Result<Bytes, BytesRejection>;

/// Reads a JSON body of any shape.
pub(crate) fn json(body: Body) -> Result<Value, Refusal> {
    let bytes = body.map_err(|rejection| {
        let status = rejection.into_response().status();
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            Refusal::new(
                status,
                ProblemCode::InvalidRequest,
                format!(
                    "the body is too large; at most {} bytes are read",
                    super::MAX_BODY
                ),
            )
        } else {
            Refusal::invalid("the body could not be read; the connection may have broken")
        }
    })?;
    if bytes.is_empty() {
        return Err(Refusal::invalid("a JSON body is needed and none came"));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::invalid(format!("the body is not JSON: {error}")))
}

/// Reads a `T` from `value`.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Refusal> {
    serde_path_to_error::deserialize(&value).map_err(|error| explain(&value, &error))
}

/// Reads a `T` whose field `id` must be `id`; a body without the field gets it from the path.
pub(super) fn read_named<T: DeserializeOwned>(mut value: Value, id: &str) -> Result<T, Refusal> {
    if let Some(map) = value.as_object_mut() {
        match map.get("id") {
            None => {
                map.insert("id".to_owned(), Value::from(id));
            }
            Some(Value::String(given)) if given == id => {}
            Some(other) => {
                let given = other.as_str().map_or_else(|| shown(other), str::to_owned);
                let mut refusal = Refusal::invalid(format!(
                    "the body is about {given:?} and the path about {id:?}; they must name the same"
                ))
                .at("id", given);
                refusal.0.allowed = vec![id.to_owned()];
                return Err(refusal);
            }
        }
    }
    read(value)
}

/// Reads a name from a path.
pub(super) fn name<T>(text: &str) -> Result<T, Refusal>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| Refusal::invalid(error.to_string()).at("id", clip(text)))
}

/// Reads a whole number from a query or header; absent means `default`.
pub(super) fn number(field: &str, text: Option<&str>, default: u64) -> Result<u64, Refusal> {
    text.map_or(Ok(default), |text| {
        text.parse().map_err(|_| {
            Refusal::invalid(format!("{field} must be a whole number from 0 on"))
                .at(field, clip(text))
        })
    })
}

fn explain(body: &Value, error: &serde_path_to_error::Error<serde_json::Error>) -> Refusal {
    let said = error.inner().to_string();
    let mut field = String::new();
    let mut found = Some(body);
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => {
                field.push_str(&format!("[{index}]"));
                found = found.and_then(|v| v.get(index));
            }
            Segment::Map { key } => {
                push(&mut field, key);
                found = found.and_then(|v| v.get(key));
            }
            // Not a part of the document: the variant is named in the message.
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    // serde names a missing or unknown field only in its message.
    if let Some(name) = said.strip_prefix("missing field ").and_then(first_quoted) {
        push(&mut field, name);
        found = None;
    } else if let Some(name) = said.strip_prefix("unknown field ").and_then(first_quoted)
        && !field.ends_with(name)
    {
        found = found.and_then(|v| v.get(name));
        push(&mut field, name);
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
    refusal.0.value = found.map(shown);
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
    field.push_str(name);
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

fn shown(value: &Value) -> String {
    clip(&value.to_string())
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
    fn a_wrong_word_is_shown_with_the_words_that_are_accepted() {
        let problem = refused::<SourceSpec>(json!({"id": "s", "uri": "demo:", "pace": "quick"}));
        assert_eq!(problem.field.as_deref(), Some("pace"));
        assert_eq!(problem.value.as_deref(), Some("\"quick\""));
        assert_eq!(problem.allowed, ["fast", "native"]);
    }

    #[test]
    fn a_bad_name_deep_inside_is_shown_with_its_place() {
        let problem = refused::<SourceSpec>(json!({"id": "A B", "uri": "demo:"}));
        assert_eq!(problem.field.as_deref(), Some("id"));
        assert!(problem.detail.contains("not a valid name"), "{problem:?}");
    }

    #[test]
    fn the_name_in_the_path_stands_for_the_one_in_the_body() {
        let spec: SourceSpec = read_named(json!({"uri": "demo:"}), "gate").unwrap();
        assert_eq!(spec.id.as_str(), "gate");
        let refused = read_named::<SourceSpec>(json!({"id": "yard", "uri": "demo:"}), "gate");
        assert_eq!(refused.unwrap_err().0.allowed, ["gate"]);
    }
}
