//! The OpenAPI description, generated from the routes.

use serde_json::Value;
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
    watchkeeper_http::openapi::document(openapi)
}
