//! Routes of jobs: plans that the agent runs.
//!
//! - Over TCP only jobs are seen that came over TCP.
//! - A follower reads the log from its cursor; a job does not wait for followers.
//! - Not here: how jobs come in (`submission`).

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Response, sse};
use futures_util::stream;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use watchkeeper_assistant::jobs::ModelShare;
use watchkeeper_contract::problem::{Problem, ProblemCode};
use watchkeeper_http::body::Query;
use watchkeeper_http::{Refusal, closed, pieces, refusal};
use watchkeeper_jobs::run::{JobFolderError, LogLine, PlannedBy};

use super::problem::of_runtime;
use super::talk::{StreamQuery, follower};
use crate::api::app::{App, MAX_BUNDLES, Shared};
use crate::jobs::view::NEWS_PAUSE;
use crate::jobs::{JobService, JobServiceError, JobStatus, StepProgress};

/// An accepted job.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct AcceptedJob {
    pub(super) job: String,
    /// Repairs that made the plan valid.
    pub(super) repairs: Vec<String>,
    /// Who planned the request: `rules`, `cache` or `model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(super) by: Option<PlannedBy>,
    /// A language model's share in the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(super) by_model: Option<ModelShare>,
}

/// A job with the records of its log.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct JobDetails {
    #[serde(flatten)]
    status: JobStatus,
    /// Records in order, each with `at_ms` and `record`: `opened`, `started`, `claimed`,
    /// `finished`, `failed`, `skipped`, `ended`.
    #[schema(value_type = Vec<Object>)]
    log: Vec<LogLine>,
}

/// Result of a request to cancel.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct CancelledJob {
    job: String,
    /// False if the job neither ran nor waited.
    was_active: bool,
}

/// The agent's jobs, the oldest first. Over TCP only those that came over TCP.
#[utoipa::path(get, path = "/jobs", tag = "jobs", responses((status = 200, body = Vec<JobStatus>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<JobStatus>>, Refusal> {
    let asks = app.entrypoint;
    answer(&app, move |jobs| jobs.list(asks)).await.map(Json)
}

/// A job with its progress and log.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "Id of the job, or a unique prefix of it")),
    responses((status = 200, body = JobDetails)))]
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<JobDetails>, Refusal> {
    let asks = app.entrypoint;
    let (status, log) = answer(&app, move |jobs| jobs.show(&id, asks)).await?;
    Ok(Json(JobDetails { status, log }))
}

/// The result of a finished step.
#[utoipa::path(get, path = "/jobs/{id}/steps/{step}", tag = "jobs",
    params(("id" = String, Path, description = "Id of the job"),
        ("step" = String, Path, description = "Name of the step")),
    responses((status = 200, body = Object)))]
pub(super) async fn result(
    State(app): State<App>,
    Path((id, step)): Path<(String, String)>,
) -> Result<Json<Map<String, Value>>, Refusal> {
    let asks = app.entrypoint;
    let result = answer(&app, move |jobs| jobs.result(&id, &step, asks));
    result.await.map(Json)
}

/// The signed evidence bundle of a job that neither runs nor waits: a tar file with its plan, log,
/// results and files. `watchkeeper evidence verify` checks it.
#[utoipa::path(get, path = "/jobs/{id}/bundle", tag = "jobs",
    params(("id" = String, Path, description = "Id of the job, or a unique prefix of it")),
    responses((status = 200, content_type = "application/x-tar", body = [u8])))]
pub(super) async fn bundle(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let permit = Arc::clone(&app.shared.bundles).try_acquire_owned();
    let permit = permit.map_err(|_| {
        refusal::full(format!(
            "{MAX_BUNDLES} bundles are being made; try again in a moment"
        ))
    })?;
    let asks = app.entrypoint;
    let gathered = answer(&app, move |jobs| jobs.gather(&id, asks)).await?;
    let (contents, description) = gathered;
    let runtime = &app.shared.conversations.deps().client;
    let signed = runtime.sign_job(&description).await.map_err(of_runtime)?;
    let bundle = contents.sign(signed);
    let length = bundle.length();
    Ok(pieces::respond(
        "application/x-tar",
        length,
        permit,
        move |out| bundle.write(out),
    ))
}

/// Ends a job that runs or waits.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "Id of the job")),
    responses((status = 200, body = CancelledJob)))]
pub(super) async fn cancel(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<CancelledJob>, Refusal> {
    let asks = app.entrypoint;
    let (job, was_active) = answer(&app, move |jobs| jobs.cancel(&id, asks)).await?;
    Ok(Json(CancelledJob { job, was_active }))
}

/// Resumes a job that failed or was cancelled. Done steps are not repeated.
#[utoipa::path(post, path = "/jobs/{id}/resume", tag = "jobs",
    params(("id" = String, Path, description = "Id of the job")),
    responses((status = 202, body = AcceptedJob)))]
pub(super) async fn resume(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<AcceptedJob>), Refusal> {
    let asks = app.entrypoint;
    let job = answer(&app, move |jobs| jobs.resume(&id, asks)).await?;
    let resumed = AcceptedJob {
        job,
        repairs: Vec::new(),
        by: None,
        by_model: None,
    };
    Ok((StatusCode::ACCEPTED, Json(resumed)))
}

/// Removes a job that neither runs nor waits, with the files in its own folder.
#[utoipa::path(delete, path = "/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "Id of the job")),
    responses((status = 204)))]
pub(super) async fn delete(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    let asks = app.entrypoint;
    answer(&app, move |jobs| jobs.delete(&id, asks)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Progress of a job, as server-sent events until it ends. A record of its log has `id`, its number
/// from 1, also after a restart of the agent. `{"record": "progress", "running": …}` has none: it
/// says what the running steps have done.
#[utoipa::path(get, path = "/jobs/{id}/events/stream", tag = "jobs",
    params(("id" = String, Path, description = "Id of the job"), StreamQuery),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(super) async fn stream(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let after = watchkeeper_http::stream::cursor(&headers, query.after.as_deref())?;
    let asks = app.entrypoint;
    let (status, _) = answer(&app, move |jobs| jobs.show(&id, asks)).await?;
    let place = follower(&app)?;
    let follower = JobFollower {
        advances: service(&app).subscribe(),
        closing: app.shared.closing.clone(),
        app,
        job: status.job,
        after,
        page: VecDeque::new(),
        skips: usize::try_from(after).unwrap_or(usize::MAX),
        begin: 0,
        progress: Vec::new(),
        _place: place,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((event, follower))
    });
    Ok(watchkeeper_http::stream::response(events))
}

pub(super) fn service(app: &App) -> &JobService {
    &app.shared.conversations.deps().jobs
}

/// Calls the service of jobs on a thread for files.
pub(super) async fn answer<T, F>(app: &App, call: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: FnOnce(&JobService) -> Result<T, JobServiceError> + Send + 'static,
{
    let access = |shared: &Shared| call(&shared.conversations.deps().jobs);
    let answered = app.shared.access_files(access).await?;
    answered.map_err(refused)
}

pub(super) fn refused(error: JobServiceError) -> Refusal {
    let sentence = error.to_string();
    match error {
        JobServiceError::Full(_) => refusal::full(sentence),
        JobServiceError::Invalid(_) => Refusal::invalid(sentence).at("plan", "faults"),
        JobServiceError::Forbidden(_) => Refusal::invalid(sentence),
        JobServiceError::Active(_) | JobServiceError::Done(_) => {
            Refusal::new(StatusCode::CONFLICT, ProblemCode::Conflict, sentence)
        }
        JobServiceError::Folder(error) => of_folder(&error),
        JobServiceError::Unavailable(_) => Problem::not_ready(sentence).into(),
        JobServiceError::Audit(_) => Problem::storage(sentence).into(),
    }
}

fn of_folder(error: &JobFolderError) -> Refusal {
    let (status, code) = match error {
        JobFolderError::Unknown(_) | JobFolderError::NotDone { .. } => {
            (StatusCode::NOT_FOUND, ProblemCode::NotFound)
        }
        JobFolderError::Running(_)
        | JobFolderError::NotEmpty(_)
        | JobFolderError::OfJob { .. }
        | JobFolderError::NotOwned(_) => (StatusCode::CONFLICT, ProblemCode::Conflict),
        JobFolderError::Ambiguous { .. } | JobFolderError::NotText(_) => {
            (StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest)
        }
        JobFolderError::Io { .. } => (StatusCode::INSUFFICIENT_STORAGE, ProblemCode::Storage),
        JobFolderError::Damaged { .. } => (StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Storage),
    };
    Refusal::new(status, code, error.to_string())
}

/// Cursor of one client that follows a job.
struct JobFollower {
    app: App,
    advances: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    job: String,
    /// Number of the last record that was sent.
    after: u64,
    page: VecDeque<LogLine>,
    /// Records at the start of the log that the client has.
    skips: usize,
    /// Byte of the log up to which it was read.
    begin: u64,
    /// Progress that was sent last.
    progress: Vec<StepProgress>,
    _place: OwnedSemaphorePermit,
}

impl JobFollower {
    /// Waits for the next event; `None` ends the stream.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(line) = self.page.pop_front() {
                self.after += 1;
                let data = serde_json::to_string(&line).ok()?;
                return Some(sse::Event::default().id(self.after.to_string()).data(data));
            }
            // Marked as seen before reading: what happens meanwhile wakes the next wait.
            self.advances.borrow_and_update();
            let (job, begin) = (self.job.clone(), self.begin);
            // Asked before the log is read, so that the last records are sent.
            let is_active = service(&self.app).is_active(&job);
            let news = answer(&self.app, move |jobs| jobs.news(&job, begin)).await;
            let (log, end, running) = news.ok()?;
            let skipped = std::mem::take(&mut self.skips);
            self.skips = skipped.saturating_sub(log.len());
            self.page = log.into_iter().skip(skipped).collect();
            self.begin = end;
            if !self.page.is_empty() {
                continue;
            }
            if !is_active {
                return None;
            }
            if running != self.progress {
                let data = json!({"record": "progress", "running": running});
                self.progress = running;
                return Some(sse::Event::default().data(data.to_string()));
            }
            tokio::select! {
                changed = self.advances.changed() => changed.ok()?,
                () = closed(self.closing.clone()) => return None,
            }
            tokio::time::sleep(NEWS_PAUSE).await;
        }
    }
}
