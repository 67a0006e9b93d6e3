//! Routes about sources.
//!
//! - A handler decides nothing: it calls the manager and converts the result.
//! - No response contains a credential.

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

use super::app::App;

/// Lists all sources.
#[utoipa::path(get, path = "/sources", tag = "sources",
    responses((status = 200, body = Vec<SourceStatus>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<SourceStatus>>, Refusal> {
    Ok(Json(app.call(|r| r.manager.sources()).await?))
}

/// Returns one source.
#[utoipa::path(get, path = "/sources/{id}", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 200, body = SourceStatus)))]
pub(super) async fn get(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<Json<SourceStatus>, Refusal> {
    Ok(Json(app.try_call(move |r| r.manager.source(&id)).await?))
}

/// Adds or replaces a source. The body may omit `id`. Pipelines of the source continue on the new
/// one, failed ones included. A source from the configuration file stays replaced until its section
/// is edited.
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
    Ok(Json(
        app.try_call(move |r| r.manager.put_source(spec)).await?,
    ))
}

/// Removes a source; refused while a pipeline uses it. A source from the configuration file stays
/// removed until its section is edited.
#[utoipa::path(delete, path = "/sources/{id}", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 204, description = "Removed")))]
pub(super) async fn delete(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<StatusCode, Refusal> {
    app.try_call(move |r| r.manager.delete_source(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the latest frame of a source as JPEG, without drawings. Refused where a privacy mask
/// hides classes of objects: only a pipeline can apply that.
#[utoipa::path(get, path = "/sources/{id}/frame.jpg", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 200, content_type = "image/jpeg", body = [u8])))]
pub(super) async fn frame(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<Response, Refusal> {
    Ok(jpeg(app.try_call(move |r| r.source_frame_jpeg(&id)).await?))
}

/// Saves the latest frame of a source as media, and reports it as an event `frame_kept`. Refused
/// where a privacy mask hides classes of objects.
#[utoipa::path(post, path = "/sources/{id}/snapshot", tag = "sources",
    params(("id" = SourceId, Path, description = "Name of the source")),
    responses((status = 201, body = Media)))]
pub(super) async fn snapshot(
    State(app): State<App>,
    Named(id): Named<SourceId>,
) -> Result<(StatusCode, Json<Media>), Refusal> {
    let media = app.try_call(move |r| r.snapshot(&id)).await?;
    Ok((StatusCode::CREATED, Json(media)))
}
