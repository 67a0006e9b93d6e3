//! Routes about the runtime itself, and kept pictures.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use watchkeeper_contract::health::Health;
use watchkeeper_http::Refusal;

use super::file::{self, Opened, Wanted};
use super::{App, openapi};
use crate::journal::media;
use crate::metrics;

/// A picture that changes with every request.
pub(super) fn jpeg(bytes: Vec<u8>) -> Response {
    (
        [
            (CONTENT_TYPE, media::CONTENT_TYPE),
            (CACHE_CONTROL, "no-store"),
        ],
        bytes,
    )
        .into_response()
}

/// A kept picture, or the clip of an event once it is kept. It never changes; it goes when room is needed. A range of its bytes may be asked for, as
/// players do.
#[utoipa::path(get, path = "/media/{id}", tag = "events",
    params(("id" = String, Path, description = "Id from an event or a snapshot"),
        ("range" = Option<String>, Header, description = "One range of bytes, such as `bytes=0-1023`; of more than one the whole is sent")),
    responses(
        (status = 200, content(([u8] = "image/jpeg"), ([u8] = "video/mp4"), ([u8] = "video/webm"))),
        (status = 206, content(([u8] = "image/jpeg"), ([u8] = "video/mp4"), ([u8] = "video/webm")))))]
pub(super) async fn media(
    State(app): State<App>,
    Path(id): Path<String>,
    wanted: Wanted,
) -> Result<Response, Refusal> {
    let place = file::place(&app)?;
    // Its id is that of its content.
    let tag = HeaderValue::try_from(format!("\"{id}\"")).ok();
    let kept = app.attempt(move |r| r.media().open_file(&id)).await?;
    let opened = Opened {
        file: kept.file,
        length: kept.bytes,
        content_type: kept.content_type,
        tag,
    };
    let mut response = file::answer(opened, &wanted, place).await?;
    if response.status().is_success() {
        let unchanging = HeaderValue::from_static("private, immutable, max-age=86400");
        response.headers_mut().insert(CACHE_CONTROL, unchanging);
    }
    Ok(response)
}

/// How the runtime is.
#[utoipa::path(get, path = "/health", tag = "runtime", responses((status = 200, body = Health)))]
pub(super) async fn health(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    Ok(Json(app.ask_how_it_is(|r| r.health()).await?))
}

/// Metrics in the OpenMetrics text format, as Prometheus reads it.
#[utoipa::path(get, path = "/metrics", tag = "runtime",
    responses((status = 200, content_type = "application/openmetrics-text", body = String)))]
pub(super) async fn metrics(State(app): State<App>) -> Result<Response, Refusal> {
    let text = app.ask_how_it_is(|r| r.metrics()).await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "runtime",
    responses((status = 200, content_type = "application/json", body = Object)))]
pub(super) async fn openapi() -> Json<serde_json::Value> {
    Json(openapi::document())
}
