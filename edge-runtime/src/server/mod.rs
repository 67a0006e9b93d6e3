//! The runtime's API: HTTP/JSON over a Unix socket, whose permission is the only access control.
//!
//! - Owns the routes, refusals, event stream, OpenAPI description and metrics.
//! - Every refusal, the router's included, is a
//!   [`Problem`](watchkeeper_contract::problem::Problem) as JSON.
//! - Every route is in the OpenAPI description: both come from one attribute.
//! - A client makes the runtime hold at most one page of events, one body and a few pieces of a
//!   file. A body has at most [`MAX_BODY`] bytes, [`MAX_DEFINITION_BODY`] with a workflow
//!   definition, [`MAX_PICTURES_BODY`] with pictures.
//! - No request blocks the async threads. Calls of [`Api`] run on the blocking pool, at most
//!   [`MAX_CALLS`] at a time, so that health checks always find a thread. Files and bundles are
//!   sent from there too, each kind with its own limit.
//! - Not here: sources, pipelines and models. The server reaches them through [`Api`] alone.

mod about;
mod app;
mod bundles;
mod catalogue;
mod coverage;
mod effects;
mod event_bundle;
mod events;
mod file;
mod limits;
mod openapi;
mod pipelines;
mod refusal;
mod reviews;
mod sources;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::{Json, Router};
use serde_json::Value;
use tokio::sync::watch;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;
use watchkeeper_http::MAX_DEFINITION_BODY;

use self::app::App;
use self::limits::MAX_JOB_BUNDLE_BODY;
pub use self::limits::{MAX_CALLS, MAX_FOLLOWERS, MAX_PICTURES_BODY, MAX_TRANSFERS, RUN_WAIT};
use crate::api::Api;
pub use watchkeeper_http::{MAX_BODY, Server, SocketError};

/// Body limit of routes that take a workflow definition.
fn definition() -> DefaultBodyLimit {
    DefaultBodyLimit::max(MAX_DEFINITION_BODY)
}

fn api() -> OpenApiRouter<App> {
    let v1 = OpenApiRouter::new()
        .routes(routes!(sources::list))
        .routes(routes!(sources::get, sources::put, sources::delete))
        .routes(routes!(sources::frame))
        .routes(routes!(sources::snapshot))
        .routes(routes!(pipelines::list, pipelines::create).layer(definition()))
        .routes(routes!(pipelines::get, pipelines::put, pipelines::delete).layer(definition()))
        .routes(routes!(pipelines::pause))
        .routes(routes!(pipelines::resume))
        .routes(routes!(pipelines::results))
        .routes(routes!(pipelines::recording))
        .routes(routes!(pipelines::frame))
        .routes(routes!(events::page))
        .routes(routes!(events::verify))
        .routes(routes!(events::stream))
        .routes(routes!(reviews::list))
        .routes(routes!(reviews::assess))
        .routes(routes!(reviews::answers))
        .routes(routes!(bundles::event))
        .routes(routes!(bundles::job).layer(DefaultBodyLimit::max(MAX_JOB_BUNDLE_BODY)))
        .routes(routes!(bundles::key))
        .routes(routes!(coverage::report))
        .routes(routes!(coverage::statement))
        .routes(routes!(effects::list))
        .routes(routes!(effects::get))
        .routes(routes!(effects::settle))
        .routes(routes!(catalogue::validate).layer(definition()))
        .routes(routes!(catalogue::run).layer(DefaultBodyLimit::max(MAX_PICTURES_BODY)))
        .routes(routes!(catalogue::dry_run).layer(definition()))
        .routes(routes!(catalogue::backtest).layer(definition()))
        .routes(routes!(catalogue::blocks))
        .routes(routes!(catalogue::block))
        .routes(routes!(catalogue::block_by_path))
        .routes(routes!(catalogue::models))
        .routes(routes!(catalogue::backends))
        .routes(routes!(about::media))
        .routes(routes!(about::health))
        .routes(routes!(about::board))
        .routes(routes!(about::metrics))
        .routes(routes!(openapi));
    OpenApiRouter::with_openapi(openapi::base()).nest("/v1", v1)
}

/// Returns the OpenAPI description as JSON.
///
/// # Panics
/// Never with the routes of this build; a test makes the document.
pub fn document() -> Value {
    let (_, openapi) = api().split_for_parts();
    watchkeeper_http::openapi::document(openapi)
}

/// Returns the OpenAPI description of this API.
#[utoipa::path(get, path = "/openapi.json", tag = "runtime",
    responses((status = 200, content_type = "application/json", body = Object)))]
async fn openapi() -> Json<Value> {
    Json(document())
}

fn router(app: App) -> Router {
    let (router, _) = api().split_for_parts();
    router
        .fallback(watchkeeper_http::refusal::unknown_route)
        .method_not_allowed_fallback(watchkeeper_http::refusal::wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(app)
}

/// Serves `api` on its socket until `shutdown` is ready.
///
/// Event streams end then; other requests get a few seconds to finish.
///
/// # Errors
/// When the socket fails.
pub async fn run(
    server: Server,
    api: Arc<Api>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (close, closing) = watch::channel(false);
    serve(server, App::new(api, closing), close, shutdown).await
}

async fn serve(
    server: Server,
    app: App,
    close: watch::Sender<bool>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let closing = app.closing.clone();
    tokio::spawn(async move {
        shutdown.await;
        close.send_replace(true);
    });
    server.run(router(app), closing).await
}

#[cfg(test)]
mod tests;
