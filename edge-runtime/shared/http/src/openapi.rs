//! The description of an API, as it is served.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

/// Converts a description to JSON and adds a problem as the default answer of every operation. Its
/// components have to name the schema `Problem`.
///
/// # Panics
/// Never with the routes of a build; a test makes each document.
pub fn document(openapi: OpenApi) -> Value {
    let mut document = serde_json::to_value(openapi)
        .expect("a description has only text keys, so it has a JSON form");
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for operation in paths
        .into_iter()
        .flat_map(|paths| paths.values_mut())
        .filter_map(Value::as_object_mut)
        .flat_map(|path| path.values_mut())
    {
        if let Some(responses) = operation
            .get_mut("responses")
            .and_then(Value::as_object_mut)
        {
            responses.insert(
                "default".to_owned(),
                json!({
                    "description": "Refused, with the reason",
                    "content": {
                        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                    }
                }),
            );
        }
    }
    document
}
