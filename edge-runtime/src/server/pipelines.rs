//! Routes about pipelines: requests become calls of [`super::Runtime`], answers become JSON, pictures or a video in pieces.
//!
//! Invariant: nothing is decided here, and no answer is held in memory as a whole whose size somebody else chose.

use std::fs::File;
use std::path::Path;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use watchkeeper_contract::id::PipelineId;
use watchkeeper_contract::pipeline::{PauseRequest, PipelineResults, PipelineSpec, PipelineStatus};
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_http::Refusal;
use watchkeeper_http::body::{self, Named};

use super::about::jpeg;
use super::file::{self, Opened, Wanted};
use super::{App, Runtime};

/// Every pipeline.
#[utoipa::path(get, path = "/pipelines", tag = "pipelines", responses((status = 200, body = Vec<PipelineStatus>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<PipelineStatus>>, Refusal> {
    Ok(Json(app.ask(|r| r.pipelines()).await?))
}

/// Deploys a workflow on a source; refused when the name is taken.
#[utoipa::path(post, path = "/pipelines", tag = "pipelines", request_body = PipelineSpec,
    responses((status = 201, body = PipelineStatus)))]
pub(super) async fn create(
    State(app): State<App>,
    body: body::Body,
) -> Result<(StatusCode, Json<PipelineStatus>), Refusal> {
    let spec: PipelineSpec = body::read(body::with_definition(body)?)?;
    let status = app.attempt(move |r| r.create_pipeline(spec, false)).await?;
    Ok((StatusCode::CREATED, Json(status)))
}

/// One pipeline.
#[utoipa::path(get, path = "/pipelines/{id}", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, body = PipelineStatus)))]
pub(super) async fn get(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Json<PipelineStatus>, Refusal> {
    Ok(Json(app.attempt(move |r| r.pipeline(&id)).await?))
}

/// Deploys a workflow, in place of the pipeline of that name. The body may leave out `id`. Over a section of the configuration file it holds until
/// that section is edited. With `paused` in the place of one that is paused until some moment, it goes on at that moment too.
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
        app.attempt(move |r| r.create_pipeline(spec, true)).await?,
    ))
}

/// Stops and forgets a pipeline. One that the configuration file names stays listed as stopped until its section is edited.
#[utoipa::path(delete, path = "/pipelines/{id}", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<StatusCode, Refusal> {
    app.attempt(move |r| r.delete_pipeline(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stops taking frames and keeps counts, tracks and events as they are; holds over a restart. With `until` it goes on by itself within ten seconds of that
/// moment, also when the runtime was restarted meanwhile. A recording that nobody watches any more begins again when it is resumed, and is counted again.
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
    let work = move |r: &dyn Runtime| r.pause_pipeline(&id, until);
    Ok(Json(app.attempt(work).await?))
}

/// Takes frames again. What was stopped, has failed or has ended begins anew; what could not run so far goes on from what it remembers.
#[utoipa::path(post, path = "/pipelines/{id}/resume", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, body = PipelineStatus)))]
pub(super) async fn resume(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Json<PipelineStatus>, Refusal> {
    Ok(Json(app.attempt(move |r| r.resume_pipeline(&id)).await?))
}

/// What it has seen so far: counts, visits, the workflow's last outputs.
#[utoipa::path(get, path = "/pipelines/{id}/results", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, body = PipelineResults)))]
pub(super) async fn results(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Json<PipelineResults>, Refusal> {
    Ok(Json(app.attempt(move |r| r.results(&id)).await?))
}

/// Latest frame with what the workflow draws.
#[utoipa::path(get, path = "/pipelines/{id}/frame.jpg", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline")),
    responses((status = 200, content_type = "image/jpeg", body = [u8])))]
pub(super) async fn frame(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
) -> Result<Response, Refusal> {
    Ok(jpeg(
        app.attempt(move |r| r.pipeline_frame_jpeg(&id)).await?,
    ))
}

/// Which part of the annotated video.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PartQuery {
    /// Number of the part, from 1 since the pipeline was begun by a deployment, a resume after its end, or a start of the runtime; default: the last
    /// one that is complete.
    #[param(value_type = Option<u64>)]
    part: Option<String>,
}

/// A part of the annotated video, once it is complete: MP4, or WebM on a box that has no encoder for MP4. A range of its bytes may be asked for, as players
/// do.
#[utoipa::path(get, path = "/pipelines/{id}/recording", tag = "pipelines",
    params(("id" = PipelineId, Path, description = "Name of the pipeline"), PartQuery,
        ("range" = Option<String>, Header, description = "One range of bytes, such as `bytes=0-1023`; of more than one the whole is sent")),
    responses(
        (status = 200, content(([u8] = "video/mp4"), ([u8] = "video/webm"))),
        (status = 206, content(([u8] = "video/mp4"), ([u8] = "video/webm")))))]
pub(super) async fn recording(
    State(app): State<App>,
    Named(id): Named<PipelineId>,
    Query(query): Query<PartQuery>,
    wanted: Wanted,
) -> Result<Response, Refusal> {
    let number = |part| body::number("part", Some(part), 0);
    let part = query.part.as_deref().map(number).transpose()?;
    let part = part.map(|part| usize::try_from(part).unwrap_or(usize::MAX));
    let place = file::place(&app)?;
    let opened = app
        .attempt(move |r| opened(&r.recording(&id, part)?))
        .await?;
    file::answer(opened, &wanted, place).await
}

fn opened(path: &Path) -> Result<Opened, Refusal> {
    let unreadable = |error: std::io::Error| {
        tracing::warn!(path = %path.display(), %error, "recording not readable");
        Refusal::new(
            StatusCode::NOT_FOUND,
            ProblemCode::NotFound,
            format!("the recording can't be read: {error}"),
        )
    };
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let content_type = match path.extension().and_then(|e| e.to_str()) {
        Some("mp4") => "video/mp4",
        Some("webm") => "video/webm",
        _ => "application/octet-stream",
    };
    Ok(Opened {
        file,
        length,
        content_type,
        // Numbers of parts begin anew with each deployment.
        tag: None,
    })
}
