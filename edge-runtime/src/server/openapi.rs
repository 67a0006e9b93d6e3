//! The parts of the OpenAPI description that do not come from routes.

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
        (name = "events", description = "The journal and its media"),
        (name = "effects", description = "Effects of workflows that wait for the agent"),
        (name = "workflows", description = "What can be deployed"),
        (name = "models", description = "Models on this box"),
        (name = "runtime", description = "The runtime itself")
    )
)]
struct Base;

/// Returns the parts of the description that do not come from routes.
pub(super) fn base() -> utoipa::openapi::OpenApi {
    Base::openapi()
}
