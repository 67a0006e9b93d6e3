//! Routes about pipelines.
//!
//! - A handler decides nothing: it calls the manager and converts the result.
//! - Results have a bounded size; a video is sent in pieces.

use std::fs::File;
use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PauseRequest, PipelineResults, PipelineSpec, PipelineStatus};
use watchkeeper_contract::problem::Problem;
use watchkeeper_http::Refusal;
use watchkeeper_http::body::Query;
use watchkeeper_http::body::{self, Named};

use super::about::jpeg;
use super::app::App;
use super::file::{self, OpenedFile, RangeRequest};
use crate::api::Api;

/// Lists all pipelines.
#[utoipa::path(get, path = "/pipelines", tag = "pipelines",
    responses((status = 200, body = Vec<PipelineStatus>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<PipelineStatus>>, Refusal> {
    Ok(Json(app.call(|r| r.manager.pipelines()).await?))
}

/// Deploys a workflow on a source; refused when the name is taken.
#[utoipa::path(post, path = "/pipelines", tag = "pipelines", request_body = PipelineSpec,
    responses((status = 201, body = PipelineStatus)))]
pub(super) async fn create(
    State(app): State<App>,
    body: body::Body,
) -> Result<(StatusCode, Json<PipelineStatus>), Refusal> {
    let spec: PipelineSpec = body::read(body::with_definition(body)?)?;
    let status = app
        .try_call(move |r| r.manager.create_pipeline(spec))
        .await?;
    Ok((StatusCode::CREATED, Json(status)))
}

/// Returns one pipeline.
#[utoipa::path(get, path = "/pipelines/{id}", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, body = PipelineStatus)))]
pub(super) async fn get(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Json<PipelineStatus>, Refusal> {
    Ok(Json(app.try_call(move |r| r.manager.pipeline(&id)).await?))
}

/// Deploys a workflow under a name and replaces the pipeline of that name. The body may omit `id`.
/// A pipeline from the configuration file stays replaced until its section is edited. With
/// `paused`, a resume time of the replaced pipeline is kept.
#[utoipa::path(put, path = "/pipelines/{id}", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    request_body = PipelineSpec,
    responses((status = 200, body = PipelineStatus)))]
pub(super) async fn put(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
    body: body::Body,
) -> Result<Json<PipelineStatus>, Refusal> {
    let spec: PipelineSpec = body::read_named(body::with_definition(body)?, id.as_str())?;
    Ok(Json(
        app.try_call(move |r| r.manager.put_pipeline(spec)).await?,
    ))
}

/// Stops and deletes a pipeline. One from the configuration file stays listed as stopped until its
/// section is edited.
#[utoipa::path(delete, path = "/pipelines/{id}", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 204, description = "Deleted")))]
pub(super) async fn delete(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<StatusCode, Refusal> {
    app.try_call(move |r| r.manager.delete_pipeline(&id))
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a pipeline: it takes no frames and keeps counts, tracks and events, over a restart too.
/// With `until` it resumes within ten seconds of that moment. A recording without any other
/// pipeline on it starts from its beginning on resume, and is counted again.
#[utoipa::path(post, path = "/pipelines/{id}/pause", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    request_body = Option<PauseRequest>,
    responses((status = 200, body = PipelineStatus)))]
pub(super) async fn pause(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
    body: body::Body,
) -> Result<Json<PipelineStatus>, Refusal> {
    let PauseRequest { until } = match &body {
        Ok(bytes) if bytes.is_empty() => PauseRequest::default(),
        _ => body::read(body::json(body)?)?,
    };
    let work = move |r: &Api| r.manager.pause(&id, until);
    Ok(Json(app.try_call(work).await?))
}

/// Resumes a pipeline. One that was stopped, failed or ended restarts from zero; one that could not
/// start yet resumes from its checkpoint.
#[utoipa::path(post, path = "/pipelines/{id}/resume", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, body = PipelineStatus)))]
pub(super) async fn resume(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Json<PipelineStatus>, Refusal> {
    Ok(Json(app.try_call(move |r| r.manager.resume(&id)).await?))
}

/// Returns the results so far: counts, visits, the workflow's latest outputs.
#[utoipa::path(get, path = "/pipelines/{id}/results", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, body = PipelineResults)))]
pub(super) async fn results(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Json<PipelineResults>, Refusal> {
    Ok(Json(app.try_call(move |r| r.manager.results(&id)).await?))
}

/// Returns the latest frame with the workflow's drawings as JPEG.
#[utoipa::path(get, path = "/pipelines/{id}/frame.jpg", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, content_type = "image/jpeg", body = [u8])))]
pub(super) async fn frame(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Response, Refusal> {
    Ok(jpeg(
        app.try_call(move |r| r.pipeline_frame_jpeg(&id)).await?,
    ))
}

/// Part of the annotated video to return.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PartQuery {
    /// Number of the part; default: the last complete one. Numbers start at 1 with each deployment,
    /// resume after an end, and start of the runtime.
    #[param(value_type = Option<u64>)]
    part: Option<String>,
}

/// Returns a complete part of the annotated video: MP4, or WebM on a box without an MP4 encoder.
/// Range requests are supported.
#[utoipa::path(get, path = "/pipelines/{id}/recording", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline"), PartQuery,
        ("range" = Option<String>, Header,
            description = "One range of bytes, such as `bytes=0-1023`; several return the whole")),
    responses(
        (status = 200, content(([u8] = "video/mp4"), ([u8] = "video/webm"))),
        (status = 206, content(([u8] = "video/mp4"), ([u8] = "video/webm")))))]
pub(super) async fn recording(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
    Query(query): Query<PartQuery>,
    wanted: RangeRequest,
) -> Result<Response, Refusal> {
    let number = |part| body::number("part", Some(part), 0);
    let part = query.part.as_deref().map(number).transpose()?;
    let part = part.map(|part| usize::try_from(part).unwrap_or(usize::MAX));
    let permit = file::acquire_transfer(&app)?;
    let opened = app
        .try_call(move |r| opened(&r.manager.worker(&id)?.recording(part)?))
        .await?;
    Ok(file::respond(opened, &wanted, permit))
}

fn opened(path: &Path) -> Result<OpenedFile, Refusal> {
    let unreadable = |error: std::io::Error| {
        tracing::warn!(path = %path.display(), %error, "cannot read recording");
        Problem::not_found(format!("the recording cannot be read: {error}"))
    };
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let content_type = match path.extension().and_then(|e| e.to_str()) {
        Some("mp4") => "video/mp4",
        Some("webm") => "video/webm",
        _ => "application/octet-stream",
    };
    Ok(OpenedFile {
        file,
        length,
        content_type,
        // A deployment reuses the numbers of parts.
        etag: None,
    })
}
