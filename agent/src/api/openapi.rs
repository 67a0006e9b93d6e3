//! The OpenAPI description, generated from the routes.

use utoipa::OpenApi;
use watchkeeper_contract::problem::Problem;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Watchkeeper agent",
        description = "HTTP/JSON over a Unix socket, and over TCP with a token. Every refusal is a Problem.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(Problem)),
    tags(
        (name = "conversations", description = "Requests in plain words, and what comes of them"),
        (name = "proposals", description = "What waits for a yes"),
        (name = "memory", description = "What the agent remembers"),
        (name = "agent", description = "The agent itself")
    )
)]
struct Base;

/// What stands in the description beside the routes.
pub(super) fn base() -> utoipa::openapi::OpenApi {
    Base::openapi()
}
