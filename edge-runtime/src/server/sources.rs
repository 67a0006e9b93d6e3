//! Routes about sources: requests become calls of [`super::Runtime`], answers become JSON or pictures.
//!
//! Invariant: nothing is decided here, and no answer carries a credential.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use watchkeeper_contract::event::Media;
use watchkeeper_contract::id::SourceId;
use watchkeeper_contract::source::{SourceSpec, SourceStatus};

use super::about::jpeg;
use watchkeeper_http::Refusal;
use watchkeeper_http::body::{self, Named};

use super::App;

/// Every source.
#[utoipa::path(get, path = "/sources", tag = "sources", responses((status = 200, body = Vec<SourceStatus>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<SourceStatus>>, Refusal> {
    Ok(Json(app.ask(|r| r.sources()).await?))
}

/// One source.
#[utoipa::path(get, path = "/sources/{id}", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 200, body = SourceStatus)))]
pub(super) async fn get(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<Json<SourceStatus>, Refusal> {
    Ok(Json(app.attempt(move |r| r.source(&id)).await?))
}

/// Adds a source, or replaces the one of that name. The body may leave out `id`. Its pipelines go on with the new one, also those that failed
/// because of the old one. In place of a source of the configuration file it holds until its section there is edited.
#[utoipa::path(put, path = "/sources/{id}", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    request_body = SourceSpec,
    responses((status = 200, body = SourceStatus)))]
pub(super) async fn put(
    State(app): State<App>,
    Named(id): Named<SourceId>,
    body: body::Body,
) -> Result<Json<SourceStatus>, Refusal> {
    let spec: SourceSpec = body::read_named(body::json(body)?, id.as_str())?;
    Ok(Json(app.attempt(move |r| r.put_source(spec)).await?))
}

/// Removes a source; refused while a pipeline watches it. One that the configuration file names stays away until its section is edited.
#[utoipa::path(delete, path = "/sources/{id}", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<StatusCode, Refusal> {
    app.attempt(move |r| r.delete_source(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Latest frame as it came.
#[utoipa::path(get, path = "/sources/{id}/frame.jpg", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 200, content_type = "image/jpeg", body = [u8])))]
pub(super) async fn frame(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<Response, Refusal> {
    Ok(jpeg(app.attempt(move |r| r.source_frame_jpeg(&id)).await?))
}

/// Keeps the latest frame as media.
#[utoipa::path(post, path = "/sources/{id}/snapshot", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 201, body = Media)))]
pub(super) async fn snapshot(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<(StatusCode, Json<Media>), Refusal> {
    let media = app.attempt(move |r| r.snapshot(&id)).await?;
    Ok((StatusCode::CREATED, Json(media)))
}
