//! Routes about the runtime itself and about media.

use std::io::Seek as _;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use watchkeeper_contract::board::BoardReport;
use watchkeeper_contract::health::Health;
use watchkeeper_contract::problem::Problem;
use watchkeeper_http::Refusal;

use super::app::App;
use super::file::{self, OpenedFile, RangeRequest};
use crate::api::Api;
use crate::journal::Hash;
use crate::journal::media::{self, MediaError, OpenedMedia};
use crate::metrics;

/// How media are checked.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct MediaQuery {
    /// Refuse a file that has not the hash of its record; default: send it as it is. A snapshot
    /// that no event has is sent unchecked.
    #[serde(default)]
    verify: bool,
}

/// Builds the response for a picture that changes with every request.
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

/// Returns a snapshot, or the clip of an event once it is complete. The content of an id never
/// changes, until retention deletes it. Range requests are supported.
#[utoipa::path(get, path = "/media/{id}", tag = "events",
    params(("id" = String, Path, description = "Id from an event or a snapshot"),
        MediaQuery,
        ("range" = Option<String>, Header,
            description = "One range of bytes, such as `bytes=0-1023`; several return the whole")),
    responses(
        (status = 200, content(([u8] = "image/jpeg"), ([u8] = "video/mp4"), ([u8] = "video/webm"))),
        (status = 206, content(([u8] = "image/jpeg"), ([u8] = "video/mp4"), ([u8] = "video/webm")))))]
pub(super) async fn media(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<MediaQuery>,
    wanted: RangeRequest,
) -> Result<Response, Refusal> {
    let permit = file::acquire_transfer(&app)?;
    // An id is given once, and its content never changes.
    let etag = HeaderValue::try_from(format!("\"{id}\"")).ok();
    let open = move |api: &Api| match query.verify {
        true => open_verified(api, &id),
        false => Ok(api.media().open_file(&id)?),
    };
    let kept = app.try_call(open).await?;
    let opened = OpenedFile {
        file: kept.file,
        length: kept.bytes,
        content_type: kept.content_type,
        etag,
    };
    let mut response = file::respond(opened, &wanted, permit);
    if response.status().is_success() {
        let unchanging = HeaderValue::from_static("private, immutable, max-age=86400");
        response.headers_mut().insert(CACHE_CONTROL, unchanging);
    }
    Ok(response)
}

/// Opens media whose bytes have the hash of their record, or that no record has.
fn open_verified(api: &Api, id: &str) -> Result<OpenedMedia, Refusal> {
    let mut opened = api.media().open_file(id)?;
    let Some(recorded) = api.journal().recorded_hash(id)? else {
        return Ok(opened);
    };
    let found = Hash::of_all(&mut opened.file).and_then(|hash| {
        opened.file.rewind()?;
        Ok(hash)
    });
    let found = found.map_err(|error| Problem::storage(format!("{id}: {error}")))?;
    if found.to_string() != recorded {
        return Err(MediaError::Damaged { id: id.to_owned() }.into());
    }
    Ok(opened)
}

/// Returns the health of the runtime.
#[utoipa::path(get, path = "/health", tag = "runtime", responses((status = 200, body = Health)))]
pub(super) async fn health(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    Ok(Json(
        app.call_when_free(|r| r.health(), &app.status_calls)
            .await?,
    ))
}

/// Returns what the board is, and what its sensors read in the last hour.
#[utoipa::path(get, path = "/board", tag = "runtime",
    responses((status = 200, body = BoardReport)))]
pub(super) async fn board(State(app): State<App>) -> Result<Json<BoardReport>, Refusal> {
    Ok(Json(
        app.call_when_free(|r| r.board.report(), &app.status_calls)
            .await?,
    ))
}

/// Returns metrics in the OpenMetrics text format for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "runtime",
    responses((status = 200, content_type = "application/openmetrics-text", body = String)))]
pub(super) async fn metrics(State(app): State<App>) -> Result<Response, Refusal> {
    let text = app.call_when_free(|r| r.metrics(), &app.metrics_calls);
    let text = text.await?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
