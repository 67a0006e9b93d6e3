//! The OpenAPI description, generated from the routes.

use utoipa::OpenApi;
use watchkeeper_contract::problem::Problem;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Watchkeeper agent",
        description = "HTTP/JSON over a Unix socket, and over TCP with a token. Every refusal is \
         a Problem.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(Problem)),
    tags(
        (name = "conversations", description = "Requests in plain words, and their results"),
        (name = "proposals", description = "Changes that wait for a user's confirmation"),
        (name = "reviews", description = "Events that wait for a person"),
        (name = "archive", description = "Contents by name: ingest, query, retrieve, destroy"),
        (name = "jobs", description = "Plans that organise pictures, and their runs"),
        (name = "references", description = "Pictures that chains compare with"),
        (name = "memory", description = "Notes of the agent"),
        (name = "agent", description = "Status, costs and trace of the agent")
    )
)]
struct Base;

/// Title, description and tags of the OpenAPI document; the routes add the rest.
pub(super) fn base() -> utoipa::openapi::OpenApi {
    Base::openapi()
}
