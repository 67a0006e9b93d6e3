//! Routes of the API.
//!
//! - [`talk`]: conversations. [`proposals`]: changes that wait for confirmation.
//!   [`review_link`]: pages behind the links of notifications.
//!   [`reviews`]: events that wait for a person. [`heartbeat`]: its switch. [`archive`]: contents
//!   by name. [`jobs`]: plans that the agent runs, [`submission`]: how they come in.
//!   [`references`]: pictures that chains compare with. [`health`]: problems and parts of the
//!   agent. [`about`] and [`observations`]: other read-only routes.

mod about;
mod archive;
mod health;
mod heartbeat;
mod jobs;
mod lookups;
mod observations;
mod problem;
mod proposals;
mod references;
pub(super) mod review_link;
mod reviews;
mod submission;
mod talk;

use axum::Json;
use axum::extract::DefaultBodyLimit;
use serde_json::Value;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;

pub(super) use health::send_problems;

use super::app::{App, MAX_MESSAGE};
use super::openapi;

/// Returns the router of all routes, with their OpenAPI description.
pub(super) fn all() -> OpenApiRouter<App> {
    let v1 = OpenApiRouter::new()
        .routes(routes!(talk::list, talk::begin))
        .routes(routes!(talk::get, talk::end))
        .routes(routes!(talk::say).layer(DefaultBodyLimit::max(MAX_MESSAGE)))
        .routes(routes!(talk::events))
        .routes(routes!(talk::stream))
        .routes(routes!(proposals::list))
        .routes(routes!(proposals::get))
        .routes(routes!(proposals::picture))
        .routes(routes!(proposals::confirm))
        .routes(routes!(proposals::refuse))
        .routes(routes!(reviews::list))
        .routes(routes!(reviews::answer))
        .routes(routes!(archive::list))
        .routes(routes!(archive::stats))
        .routes(routes!(archive::query))
        .routes(routes!(archive::find))
        .routes(routes!(archive::ingest).layer(DefaultBodyLimit::max(MAX_MESSAGE)))
        .routes(routes!(archive::prune))
        .routes(routes!(archive::destroy))
        .routes(routes!(archive::protect))
        .routes(routes!(archive::unprotect))
        .routes(routes!(archive::verify))
        .routes(routes!(archive::get, archive::delete))
        .routes(routes!(archive::put).layer(DefaultBodyLimit::disable()))
        .routes(routes!(archive::stat))
        .routes(routes!(jobs::list))
        .routes(
            routes!(submission::submit).layer(DefaultBodyLimit::max(submission::MAX_SUBMISSION)),
        )
        .routes(routes!(jobs::get, jobs::delete))
        .routes(routes!(jobs::result))
        .routes(routes!(jobs::bundle))
        .routes(routes!(jobs::cancel))
        .routes(routes!(jobs::resume))
        .routes(routes!(jobs::stream))
        .routes(routes!(lookups::look_up))
        .routes(routes!(references::list))
        .routes(routes!(references::show, references::delete))
        .routes(routes!(references::put).layer(DefaultBodyLimit::disable()))
        .routes(routes!(references::add_event))
        .routes(routes!(about::memory))
        .routes(routes!(observations::observations))
        .routes(routes!(health::health))
        .routes(routes!(heartbeat::get, heartbeat::put))
        .routes(routes!(about::cost))
        .routes(routes!(about::opinions))
        .routes(routes!(about::chains))
        .routes(routes!(about::trace))
        .routes(routes!(openapi));
    OpenApiRouter::with_openapi(openapi::base()).nest("/v1", v1)
}

/// Parsers of outside data, public for the fuzz targets only.
pub(super) mod fuzzing {
    pub use super::talk::message;
}

/// OpenAPI description of all routes, as JSON.
pub fn document() -> Value {
    let (_, openapi) = all().split_for_parts();
    watchkeeper_http::openapi::document(openapi)
}

/// This description, as OpenAPI JSON.
#[utoipa::path(get, path = "/openapi.json", tag = "agent",
    responses((status = 200, content_type = "application/json", body = Object)))]
async fn openapi() -> Json<Value> {
    Json(document())
}
