//! Routes of reference pictures: sets that chains compare the picture of an event with.
//!
//! - A picture is acknowledged once it is durable; its embedding follows.
//! - A change of a set is in the audit log before it is made: sets decide about events.

use std::io;

use axum::Json;
use axum::body::{Body as HttpBody, to_bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use watchkeeper_assistant::trace::Trace;
use watchkeeper_assistant::wording::counted;
use watchkeeper_contract::id::EventSeq;
use watchkeeper_contract::problem::ProblemCode;
use watchkeeper_evidence::picture;
use watchkeeper_evidence::reference::store::ReferenceError;
use watchkeeper_http::body::Query as UrlQuery;
use watchkeeper_http::body::{self, Body as JsonBody};
use watchkeeper_http::{Refusal, refusal};
use watchkeeper_store::durable::is_disk_refusal;

use crate::api::app::{App, Shared};
use crate::references::ReferenceService;
use crate::references::record_picture::{RecordPictureError, picture_of_record};
use crate::references::service::{SetSummary, ShownPicture};

/// Pictures of a set to remove.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveQuery {
    /// Name of its file, or the first characters of its SHA-256; default: all of the set.
    picture: Option<String>,
}

/// A picture of an event as a reference.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventPicture {
    /// Number of a record with a picture.
    event: EventSeq,
}

/// Number of pictures that were removed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct RemovedPictures {
    removed: usize,
}

/// The sets, with the number of their pictures that have an embedding.
#[utoipa::path(get, path = "/references", tag = "references",
    responses((status = 200, body = Vec<SetSummary>)))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<SetSummary>>, Refusal> {
    access(&app, |references| references.list()).await.map(Json)
}

/// The pictures of a set, in the order in which they were added.
#[utoipa::path(get, path = "/references/{set}", tag = "references",
    params(("set" = String, Path)), responses((status = 200, body = Vec<ShownPicture>)))]
pub(super) async fn show(
    State(app): State<App>,
    Path(set): Path<String>,
) -> Result<Json<Vec<ShownPicture>>, Refusal> {
    access(&app, move |references| references.show(&set))
        .await
        .map(Json)
}

/// Makes the body, a JPEG, PNG or WebP of at most 10 MiB, a picture of the set. `file` is its name.
#[utoipa::path(put, path = "/references/{set}/{file}", tag = "references",
    params(("set" = String, Path), ("file" = String, Path)),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = ShownPicture)))]
pub(super) async fn put(
    State(app): State<App>,
    Path((set, file)): Path<(String, String)>,
    body: HttpBody,
) -> Result<Json<ShownPicture>, Refusal> {
    // The semaphore is never closed.
    let _place = app.shared.body_reads.clone().acquire_owned().await.ok();
    let content = to_bytes(body, picture::MAX_BYTES).await.map_err(|_| {
        let most = picture::MAX_BYTES;
        Refusal::invalid(format!(
            "the picture did not come whole, or has more than {most} bytes"
        ))
    })?;
    add(&app, set, content.into(), file, None).await.map(Json)
}

/// Adds the picture of an event, as a chain would compare it: its bounding box where it has one.
#[utoipa::path(post, path = "/references/{set}", tag = "references", request_body = EventPicture,
    params(("set" = String, Path)), responses((status = 200, body = ShownPicture)))]
pub(super) async fn add_event(
    State(app): State<App>,
    Path(set): Path<String>,
    body: JsonBody,
) -> Result<Json<ShownPicture>, Refusal> {
    let EventPicture { event } = body::read(body::json(body)?)?;
    let runtime = &app.shared.conversations.deps().client;
    let content = picture_of_record(runtime, event).await;
    let content = content.map_err(|error| no_picture(event, &error))?;
    let file = format!("event-{event}.jpg");
    add(&app, set, content, file, Some(event)).await.map(Json)
}

/// Removes a picture, or the whole set.
#[utoipa::path(delete, path = "/references/{set}", tag = "references",
    params(("set" = String, Path), RemoveQuery),
    responses((status = 200, body = RemovedPictures)))]
pub(super) async fn delete(
    State(app): State<App>,
    Path(set): Path<String>,
    UrlQuery(query): UrlQuery<RemoveQuery>,
) -> Result<Json<RemovedPictures>, Refusal> {
    let picture = query.picture;
    let audit = Audit::of(&app);
    let removed = access(&app, move |references| {
        let removed = references.remove(&set, picture.as_deref(), |doomed| {
            let names = doomed
                .iter()
                .take(NAMED)
                .map(|picture| picture.file.as_str());
            let names: Vec<&str> = names.collect();
            audit.record(&format!(
                "removes {} of the reference set {set}: {}{}",
                counted(doomed.len() as u64, "picture"),
                names.join(", "),
                if doomed.len() > NAMED { ", …" } else { "" },
            ))
        });
        audit.record_failure(removed, &format!("not all pictures of {set} are removed"))
    });
    let removed = removed.await?;
    Ok(Json(RemovedPictures { removed }))
}

async fn add(
    app: &App,
    set: String,
    content: Vec<u8>,
    file: String,
    event: Option<EventSeq>,
) -> Result<ShownPicture, Refusal> {
    let audit = Audit::of(app);
    let added = access(app, move |references| {
        let added = references.add(&set, &content, &file, event, |new| {
            let (file, sha256) = (&new.file, &new.sha256);
            audit.record(&format!(
                "adds {file} ({sha256}) to the reference set {set}"
            ))
        });
        audit.record_failure(added, &format!("{file} is not added to {set}"))
    });
    added.await
}

/// Calls the service on a thread for files.
async fn access<T, F>(app: &App, call: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: FnOnce(&ReferenceService) -> Result<T, ReferenceError> + Send + 'static,
{
    let access = |shared: &Shared| call(&shared.conversations.deps().references);
    let done = app.shared.access_files(access).await?;
    done.map_err(|error| refused(&error))
}

fn refused(error: &ReferenceError) -> Refusal {
    use ReferenceError as E;
    let sentence = error.to_string();
    let (status, code) = match error {
        E::Name(_) | E::Picture(_) | E::Ambiguous { .. } => return Refusal::invalid(sentence),
        E::TooManySets | E::TooManyPictures(_) | E::TooManyBytes => return refusal::full(sentence),
        E::UnknownSet { .. } | E::UnknownPicture { .. } => {
            (StatusCode::NOT_FOUND, ProblemCode::NotFound)
        }
        E::Io { source, .. } | E::Audit(source) if is_disk_refusal(source) => {
            (StatusCode::INSUFFICIENT_STORAGE, ProblemCode::Storage)
        }
        E::Closed(_) | E::Damaged(_) | E::Embedding { .. } | E::Audit(_) | E::Io { .. } => {
            (StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::Storage)
        }
    };
    Refusal::new(status, code, sentence)
}

/// Why a record has no picture for a set.
fn no_picture(event: EventSeq, error: &RecordPictureError) -> Refusal {
    use RecordPictureError as E;
    let (status, code) = match error {
        E::Runtime(error) if error.is_transient() => {
            (StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady)
        }
        E::Runtime(_) => (StatusCode::BAD_GATEWAY, ProblemCode::NotReady),
        E::NoRecord(_) => (StatusCode::NOT_FOUND, ProblemCode::NotFound),
        E::NoPicture(_) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            ProblemCode::InvalidRequest,
        ),
    };
    let refusal = Refusal::new(status, code, error.to_string());
    match error {
        E::Runtime(_) => refusal,
        E::NoRecord(_) | E::NoPicture(_) => refusal.at("event", event.to_string()),
    }
}

/// Most files that an entry of the audit log names.
const NAMED: usize = 10;

/// The audit log, as a change of a set writes it. Blocks.
struct Audit(Trace);

impl Audit {
    fn of(app: &App) -> Self {
        Self(app.shared.conversations.deps().trace(app.entrypoint))
    }

    /// Records what is about to be changed.
    fn record(&self, sentence: &str) -> io::Result<()> {
        let details = json!({ "sentence": sentence });
        self.0.note(Timestamp::now(), "references", details)
    }

    /// Records that a change failed after it was recorded.
    fn record_failure<T>(
        &self,
        done: Result<T, ReferenceError>,
        what: &str,
    ) -> Result<T, ReferenceError> {
        if let Err(error @ ReferenceError::Io { .. }) = &done {
            let details = json!({ "sentence": format!("{what}: {error}") });
            self.0.note_or_log(Timestamp::now(), "references", details);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use watchkeeper_client::ClientError;

    use super::*;

    #[test]
    fn missing_picture_and_absent_runtime_have_own_status() {
        let away = ClientError::Timeout {
            request: "GET /v1/events".to_owned(),
            after: std::time::Duration::from_secs(1),
        };
        let broken = ClientError::Setup("no TLS".to_owned());
        let seq = EventSeq(7);
        for (error, status, is_of_event) in [
            (RecordPictureError::Runtime(away), 503, false),
            (RecordPictureError::Runtime(broken), 502, false),
            (RecordPictureError::NoRecord(seq), 404, true),
            (RecordPictureError::NoPicture("none".to_owned()), 422, true),
        ] {
            let problem = no_picture(seq, &error).0;
            assert_eq!(problem.status, status, "{error}");
            assert_eq!(problem.field.is_some(), is_of_event, "{error}");
        }
    }
}
