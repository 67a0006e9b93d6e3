//! The OpenAPI description, generated from the routes.

use serde_json::{Value, json};
use utoipa::OpenApi;
use watchkeeper_contract::problem::Problem;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Watchkeeper runtime",
        description = "HTTP/JSON over a Unix socket. Every refusal is a Problem.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(Problem)),
    tags(
        (name = "sources", description = "Where frames come from"),
        (name = "pipelines", description = "Workflows deployed on sources"),
        (name = "events", description = "The journal and its pictures"),
        (name = "effects", description = "What workflows want done outside, until the agent has done it"),
        (name = "workflows", description = "What can be deployed"),
        (name = "models", description = "Models on this box"),
        (name = "runtime", description = "The runtime itself")
    )
)]
struct Base;

/// What stands in the description beside the routes.
pub(super) fn base() -> utoipa::openapi::OpenApi {
    Base::openapi()
}

/// The whole description as JSON.
///
/// # Panics
/// Never with the routes of this build; a test makes the document.
#[must_use]
pub fn document() -> Value {
    let (_, openapi) = super::api().split_for_parts();
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
